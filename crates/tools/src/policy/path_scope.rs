//! Which paths are inside the roots: decided lexically, or with links resolved on disk.

use std::path::{Component, Path, PathBuf};

use super::{
    ProtectedPaths, SearchPath,
    shell::{ShellWord, WordValue},
};

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
    protected: ProtectedPaths,
    search_path: SearchPath,
}

impl PathScope {
    /// A scope that decides by the text of paths alone.
    pub fn lexical(root: impl Into<PathBuf>) -> Self {
        let root = root.into();
        Self {
            workdir: root.clone(),
            roots: vec![root],
            on_disk: false,
            protected: ProtectedPaths::default(),
            search_path: SearchPath::default(),
        }
    }

    /// A scope that resolves links on disk. The roots must be canonical; `workdir` is relative to the first.
    pub fn on_disk(roots: Vec<PathBuf>, workdir: &Path) -> Self {
        let first = roots.first().map_or(Path::new(""), PathBuf::as_path);
        let workdir = first.join(workdir);
        Self {
            workdir,
            roots,
            on_disk: true,
            protected: ProtectedPaths::default(),
            search_path: SearchPath::default(),
        }
    }

    pub fn with_protected(self, protected: ProtectedPaths) -> Self {
        Self { protected, ..self }
    }

    pub fn with_search_path(self, search_path: SearchPath) -> Self {
        Self { search_path, ..self }
    }

    /// The working directory with links resolved.
    pub fn resolved_workdir(&self) -> PathBuf {
        self.workdir.canonicalize().unwrap_or_else(|_| self.workdir.clone())
    }

    /// The entry of `PATH` inside the project that the program `name` would be found in.
    pub(super) fn project_entry(&self, name: &str, directories: &[PathBuf]) -> Option<&Path> {
        let directories: Vec<PathBuf> = self.directories_on_disk(directories).collect();
        self.search_path.project_entry(name, &self.roots, &directories)
    }

    pub(super) fn roots(&self) -> &[PathBuf] {
        &self.roots
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

    /// Why a word may name a protected file, and the paths that it may name.
    pub(super) fn protected_word(
        &self,
        word: &ShellWord,
        directories: &[PathBuf],
    ) -> Option<(String, Vec<PathBuf>)> {
        let (WordValue::Known(text) | WordValue::Pattern(text)) = &word.text else {
            // The text of an unknown word is a hint at best, and the sandbox protects the files anyway.
            return self.protected.reason(Path::new(&word.raw), &[]).map(|reason| (reason, Vec::new()));
        };
        // The value of an operand such as `of=FILE` or `--output=FILE`.
        let value = text.split_once('=').map(|(_, value)| value);
        let texts = [Some(text.as_str()).filter(|text| !text.starts_with('-')), value];
        texts.into_iter().flatten().find_map(|text| self.protected_path(Path::new(text), directories))
    }

    /// Why a path is protected, and the absolute paths that it may refer to.
    pub(super) fn protected_path(
        &self,
        path: &Path,
        directories: &[PathBuf],
    ) -> Option<(String, Vec<PathBuf>)> {
        let candidates: Vec<PathBuf> = self.candidates(path, directories).collect();
        let check = |candidate: &PathBuf| {
            let resolved = || resolve_existing(candidate).filter(|_| self.on_disk);
            let reason = |path: &Path| self.protected.reason(path, &self.roots);
            reason(candidate).or_else(|| reason(&resolved()?))
        };
        let reason = candidates.iter().find_map(check)?;
        let mut paths: Vec<PathBuf> = candidates.into_iter().filter(|path| check(path).is_some()).collect();
        paths.dedup();
        Some((reason, paths))
    }

    /// A path relative to the working directory, with links resolved as far as it exists.
    pub(super) fn resolve(&self, path: &Path) -> PathBuf {
        let path = normalize(&self.workdir.join(path));
        match path
            .ancestors()
            .find_map(|above| Some((above.canonicalize().ok()?, path.strip_prefix(above).ok()?)))
        {
            Some((found, rest)) if self.on_disk && !rest.as_os_str().is_empty() => found.join(rest),
            Some((found, _)) if self.on_disk => found,
            Some(_) | None => path,
        }
    }

    /// Whether a root is inside a path.
    pub(super) fn contains_root(&self, path: &Path) -> bool {
        self.roots.iter().any(|root| root.starts_with(path))
    }

    /// The absolute paths that `path` may refer to, one for each directory that the script may be in.
    pub(super) fn candidates(&self, path: &Path, directories: &[PathBuf]) -> impl Iterator<Item = PathBuf> {
        let bases = directories.iter().map(|dir| self.workdir.join(dir)).chain([self.workdir.clone()]);
        bases.map(move |base| base.join(path))
    }

    /// The directories that the script may be in; none if the scope is lexical.
    pub(super) fn directories_on_disk(&self, directories: &[PathBuf]) -> impl Iterator<Item = PathBuf> {
        self.candidates(Path::new(""), directories).filter(|_| self.on_disk)
    }

    pub(super) fn leads_out(&self, path: &Path) -> bool {
        resolve_existing(path).is_none_or(|found| !self.roots.iter().any(|root| found.starts_with(root)))
    }
}

/// Resolves a path, or its nearest existing ancestor.
pub(super) fn resolve_existing(path: &Path) -> Option<PathBuf> {
    path.ancestors().find_map(|path| path.canonicalize().ok())
}

/// Resolves `.` and `..` by text.
pub(super) fn normalize(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                normal.pop();
            }
            Component::CurDir => {}
            other => normal.push(other),
        }
    }
    normal
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
