//! Which paths are inside: by their words, and by where they lead if the disk is to be asked.

use std::path::{Component, Path, PathBuf};

use super::shell::{Text, Word};

/// Files inside the root that decide what other programs run.
const SENSITIVE: [&str; 8] =
    [".git", ".mcp.json", "lango.toml", ".lango", ".envrc", ".vscode", ".husky", ".cargo"];

/// A pattern that fits more names is not followed.
const MANY: usize = 4096;
const WILD: [char; 3] = ['*', '?', '['];

/// The directories that commands may look at.
#[derive(Debug, Clone)]
pub struct Ground {
    roots: Vec<PathBuf>,
    workdir: PathBuf,
    /// Links are followed, and patterns are tried.
    on_disk: bool,
}

impl Ground {
    /// Paths are judged by their words alone.
    pub fn by_words(root: impl Into<PathBuf>) -> Self {
        let root = root.into();
        Self { workdir: root.clone(), roots: vec![root], on_disk: false }
    }

    /// Links are followed on the disk. The roots are canonical; `workdir` is seen from the first.
    pub fn on_disk(roots: Vec<PathBuf>, workdir: &Path) -> Self {
        let first = roots.first().map_or(Path::new(""), PathBuf::as_path);
        Self { workdir: first.join(workdir), roots, on_disk: true }
    }

    /// Why a word may be a path to something outside, seen from each of `directories` below the working directory.
    pub(super) fn outside(&self, word: &Word, directories: &[PathBuf]) -> Option<String> {
        let text = match &word.text {
            Text::Pattern(text) if has_hidden_pattern(text) => {
                return Some(format!("`{}` may stand for `..`", word.raw));
            }
            Text::Known(text) | Text::Pattern(text) => text,
            Text::Unknown => return Some(format!("`{}` is only known when it runs", word.raw)),
        };
        let path = Path::new(text);
        if path.components().any(|part| part == Component::ParentDir) {
            return Some(format!("`{text}` goes up with `..`"));
        }
        if path.is_absolute() && !self.roots.iter().any(|root| path.starts_with(root)) {
            return Some(format!("`{text}` is outside the working directory"));
        }
        let is_pattern = word.known().is_none();
        let leads_out = |place: PathBuf| {
            let places = if is_pattern { fitting(&place) } else { Some(vec![place]) };
            places.is_none_or(|places| places.iter().any(|place| self.leads_out(place)))
        };
        let leads_out = self.on_disk && self.places(path, directories).any(leads_out);
        leads_out.then(|| format!("`{text}` leads outside the working directory by a link"))
    }

    /// Why a word may name a file that is more than a file.
    pub(super) fn sensitive(&self, word: &Word, directories: &[PathBuf]) -> Option<String> {
        let (Text::Known(text) | Text::Pattern(text)) = &word.text else { return sensitive(&word.raw) };
        let below = |place: &Path| {
            let inside = self.roots.iter().find_map(|root| place.strip_prefix(root).ok());
            sensitive(&inside.unwrap_or(place).display().to_string())
        };
        self.places(Path::new(text), directories)
            .find_map(|place| below(&place).or_else(|| below(&nearest(&place).filter(|_| self.on_disk)?)))
    }

    /// What a path may mean, wherever the script is.
    fn places(&self, path: &Path, directories: &[PathBuf]) -> impl Iterator<Item = PathBuf> {
        let bases = directories.iter().map(|dir| self.workdir.join(dir)).chain([self.workdir.clone()]);
        bases.map(move |base| base.join(path))
    }

    /// Where the script may be, if the disk is to be asked.
    pub(super) fn seen_from(&self, directories: &[PathBuf]) -> impl Iterator<Item = PathBuf> {
        self.places(Path::new(""), directories).filter(|_| self.on_disk)
    }

    fn leads_out(&self, path: &Path) -> bool {
        nearest(path).is_none_or(|found| !self.roots.iter().any(|root| found.starts_with(root)))
    }
}

/// Where a path leads. What is not there yet is judged by the nearest directory that is.
fn nearest(path: &Path) -> Option<PathBuf> {
    path.ancestors().find_map(|path| path.canonicalize().ok())
}

/// The names that a pattern may become, and some more; `None` if they are too many.
fn fitting(pattern: &Path) -> Option<Vec<PathBuf>> {
    let mut places = vec![PathBuf::new()];
    for part in pattern.components().map(Component::as_os_str) {
        let text = part.to_string_lossy();
        let Some((start, _)) = text.split_once(WILD) else {
            for place in &mut places {
                place.push(part);
            }
            continue;
        };
        let fits = |name: &str| name.starts_with(start) && (!start.is_empty() || !name.starts_with('.'));
        let listed = places.iter().filter_map(|place| place.read_dir().ok()).flatten().filter_map(Result::ok);
        let found = listed.filter(|entry| fits(&entry.file_name().to_string_lossy()));
        places = found.map(|entry| entry.path()).take(MANY + 1).collect();
        if places.len() > MANY {
            return None;
        }
    }
    Some(places)
}

/// A part of a path that begins with a dot and has a pattern in it may become `..`.
fn has_hidden_pattern(text: &str) -> bool {
    text.split('/').any(|part| part.starts_with(['.', '[']) && part.contains(['*', '?', '[']))
}

/// Why a file inside the root is more than a file.
pub(super) fn sensitive(path: &str) -> Option<String> {
    let parts = Path::new(path).components().filter_map(|part| part.as_os_str().to_str());
    let found =
        parts.into_iter().find(|part| SENSITIVE.iter().any(|name| name.eq_ignore_ascii_case(part)))?;
    Some(format!("`{path}` decides what other programs run (`{found}`)"))
}
