//! Which paths are inside the roots: decided lexically, or with links resolved on disk.

use std::path::{Component, Path, PathBuf};

use super::shell::{ShellWord, WordValue};

/// Files and directories inside a root that control what other programs execute.
const SENSITIVE: [&str; 8] =
    [".git", ".mcp.json", "lango.toml", ".lango", ".envrc", ".vscode", ".husky", ".cargo"];

/// A glob pattern with more matches is not expanded.
const MAX_MATCHES: usize = 4096;
const WILDCARDS: [char; 3] = ['*', '?', '['];

/// The directories that a command may read.
#[derive(Debug, Clone)]
pub struct PathScope {
    roots: Vec<PathBuf>,
    workdir: PathBuf,
    /// Links are resolved and glob patterns are expanded on disk.
    on_disk: bool,
}

impl PathScope {
    /// A scope that decides by the text of paths alone.
    pub fn lexical(root: impl Into<PathBuf>) -> Self {
        let root = root.into();
        Self { workdir: root.clone(), roots: vec![root], on_disk: false }
    }

    /// A scope that resolves links on disk. The roots must be canonical; `workdir` is relative to the first.
    pub fn on_disk(roots: Vec<PathBuf>, workdir: &Path) -> Self {
        let first = roots.first().map_or(Path::new(""), PathBuf::as_path);
        Self { workdir: first.join(workdir), roots, on_disk: true }
    }

    /// Why a word may be a path to the outside, relative to any of `directories` below the working directory.
    pub(super) fn outside(&self, word: &ShellWord, directories: &[PathBuf]) -> Option<String> {
        let text = match &word.text {
            WordValue::Pattern(text) if may_match_parent_dir(text) => {
                return Some(format!("`{}` may expand to `..`", word.raw));
            }
            WordValue::Known(text) | WordValue::Pattern(text) => text,
            WordValue::Unknown => return Some(format!("`{}` is known only at run time", word.raw)),
        };
        let path = Path::new(text);
        if path.components().any(|part| part == Component::ParentDir) {
            return Some(format!("`{text}` contains `..`"));
        }
        if path.is_absolute() && !self.roots.iter().any(|root| path.starts_with(root)) {
            return Some(format!("`{text}` is outside the working directory"));
        }
        let is_pattern = word.known().is_none();
        let leads_out = |candidate: PathBuf| {
            let paths = if is_pattern { expand_glob(&candidate) } else { Some(vec![candidate]) };
            paths.is_none_or(|paths| paths.iter().any(|path| self.leads_out(path)))
        };
        let leads_out = self.on_disk && self.candidates(path, directories).any(leads_out);
        leads_out.then(|| format!("`{text}` leads outside the working directory through a link"))
    }

    /// Why a word may name a sensitive file.
    pub(super) fn sensitive(&self, word: &ShellWord, directories: &[PathBuf]) -> Option<String> {
        let (WordValue::Known(text) | WordValue::Pattern(text)) = &word.text else {
            return sensitive(&word.raw);
        };
        let check = |candidate: &Path| {
            let inside = self.roots.iter().find_map(|root| candidate.strip_prefix(root).ok());
            sensitive(&inside.unwrap_or(candidate).display().to_string())
        };
        self.candidates(Path::new(text), directories).find_map(|candidate| {
            check(&candidate).or_else(|| check(&resolve_existing(&candidate).filter(|_| self.on_disk)?))
        })
    }

    /// The absolute paths that `path` may refer to, one for each directory that the script may be in.
    fn candidates(&self, path: &Path, directories: &[PathBuf]) -> impl Iterator<Item = PathBuf> {
        let bases = directories.iter().map(|dir| self.workdir.join(dir)).chain([self.workdir.clone()]);
        bases.map(move |base| base.join(path))
    }

    /// The directories that the script may be in; none if the scope is lexical.
    pub(super) fn directories_on_disk(&self, directories: &[PathBuf]) -> impl Iterator<Item = PathBuf> {
        self.candidates(Path::new(""), directories).filter(|_| self.on_disk)
    }

    fn leads_out(&self, path: &Path) -> bool {
        resolve_existing(path).is_none_or(|found| !self.roots.iter().any(|root| found.starts_with(root)))
    }
}

/// Resolves a path, or its nearest existing ancestor.
fn resolve_existing(path: &Path) -> Option<PathBuf> {
    path.ancestors().find_map(|path| path.canonicalize().ok())
}

/// A superset of the paths that match a glob pattern; `None` if there are too many.
fn expand_glob(pattern: &Path) -> Option<Vec<PathBuf>> {
    let mut paths = vec![PathBuf::new()];
    for part in pattern.components().map(Component::as_os_str) {
        let text = part.to_string_lossy();
        let Some((start, _)) = text.split_once(WILDCARDS) else {
            for path in &mut paths {
                path.push(part);
            }
            continue;
        };
        let may_match = |name: &str| name.starts_with(start) && (!start.is_empty() || !name.starts_with('.'));
        let listed = paths.iter().filter_map(|path| path.read_dir().ok()).flatten().filter_map(Result::ok);
        let found = listed.filter(|entry| may_match(&entry.file_name().to_string_lossy()));
        paths = found.map(|entry| entry.path()).take(MAX_MATCHES + 1).collect();
        if paths.len() > MAX_MATCHES {
            return None;
        }
    }
    Some(paths)
}

/// Whether a component with a wildcard may expand to `..`: it begins with a dot or a bracket.
fn may_match_parent_dir(text: &str) -> bool {
    text.split('/').any(|part| part.starts_with(['.', '[']) && part.contains(['*', '?', '[']))
}

/// Why a file inside a root is sensitive, if it is.
pub(super) fn sensitive(path: &str) -> Option<String> {
    let parts = Path::new(path).components().filter_map(|part| part.as_os_str().to_str());
    let found =
        parts.into_iter().find(|part| SENSITIVE.iter().any(|name| name.eq_ignore_ascii_case(part)))?;
    Some(format!("`{path}` can change what other programs run (`{found}`)"))
}
