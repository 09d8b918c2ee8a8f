//! Protected paths: files that control what other programs, or this one, execute later. A call that changes one asks by name.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Component, Path, PathBuf},
};

/// Names that are protected wherever they occur inside a root: directories and pointer files of git, settings of this program,
/// and files from which editors and tools run programs.
const NAMES: [&str; 8] =
    [".git", ".mcp.json", "lango.toml", ".lango", ".envrc", ".vscode", ".husky", ".cargo"];

/// A directory that is protected only directly inside a root: agents that this program runs.
const AGENTS: &str = "agents";

/// Protected paths beyond the fixed names: the data directory, the agents directory and the configuration file, wherever they
/// are.
#[derive(Debug, Clone, Default)]
pub struct ProtectedPaths {
    /// With device and inode if the path exists, so that links and other spellings lead to the same result.
    paths: Vec<(PathBuf, Option<(u64, u64)>)>,
    /// Directories inside them that are not protected.
    except: Vec<PathBuf>,
}

impl ProtectedPaths {
    pub fn new(paths: impl IntoIterator<Item = PathBuf>) -> Self {
        let with_id = |path: PathBuf| {
            let found = id(&path);
            (path.canonicalize().unwrap_or(path), found)
        };
        Self { paths: paths.into_iter().map(with_id).collect(), except: Vec::new() }
    }

    /// Excludes a directory, such as the one for temporary files.
    pub fn except(mut self, path: PathBuf) -> Self {
        self.except.extend([path.canonicalize().ok(), Some(path)].into_iter().flatten());
        self
    }

    /// Why an absolute path is protected. `roots` are the directories that the fixed names are relative to.
    pub(super) fn reason(&self, path: &Path, roots: &[PathBuf]) -> Option<String> {
        let inside = roots.iter().find_map(|root| path.strip_prefix(root).ok());
        if let Some(name) = inside.or(Some(path).filter(|path| path.is_relative())).and_then(protected_name) {
            let shown = inside.unwrap_or(path).display();
            return Some(format!("`{shown}` can change what other programs run (`{name}` is protected)"));
        }
        if self.except.iter().any(|except| path.starts_with(except)) {
            return None;
        }
        let is_below = |(protected, wanted): &(PathBuf, Option<(u64, u64)>)| {
            let is_same = |path: &Path| wanted.is_some() && id(path) == *wanted;
            // A root inside the data directory was chosen by the person who configured it.
            !roots.iter().any(|root| root.starts_with(protected))
                && (path.starts_with(protected) || path.ancestors().any(is_same))
        };
        let is_protected = self.paths.iter().any(is_below);
        is_protected.then(|| format!("`{}` belongs to the data or settings of lango", path.display()))
    }
}

fn id(path: &Path) -> Option<(u64, u64)> {
    fs::metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

/// The component that makes a path inside a root protected. Case is ignored, because file systems may ignore it.
fn protected_name(inside: &Path) -> Option<&'static str> {
    let parts: Vec<&str> = inside
        .components()
        .filter(|part| *part != Component::CurDir)
        .filter_map(|part| part.as_os_str().to_str())
        .collect();
    let is_agents = parts.first().is_some_and(|first| first.eq_ignore_ascii_case(AGENTS));
    let named = NAMES.into_iter().find(|name| parts.iter().any(|part| part.eq_ignore_ascii_case(name)));
    named.or(is_agents.then_some(AGENTS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_directory_is_protected_by_identity() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("state/deep")).unwrap();
        std::os::unix::fs::symlink("state", root.join("link")).unwrap();
        let protected = ProtectedPaths::new([root.join("state"), root.join("missing")]);
        let is_protected =
            |path: &str| protected.reason(&root.join(path), std::slice::from_ref(&root)).is_some();
        for path in ["state", "state/rules.jsonl", "state/deep/x", "link/rules.jsonl", "missing/x"] {
            assert!(is_protected(path), "{path}");
        }
        for path in ["a", "states", "src/agents/x", ".gitignore"] {
            assert!(!is_protected(path), "{path}");
        }
        for path in ["agents/x/root_agent.yaml", "Agents/x", "sub/.git", "sub/.GIT/config", "sub/lango.toml"]
        {
            assert!(is_protected(path), "{path}");
        }
    }
}
