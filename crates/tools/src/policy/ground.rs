//! Which paths are inside: by their words, and by where they lead if the disk is to be asked.

use std::path::{Component, Path, PathBuf};

use super::shell::{Text, Word};

/// Files inside the root that decide what other programs run.
const SENSITIVE: [&str; 8] =
    [".git", ".mcp.json", "lango.toml", ".lango", ".envrc", ".vscode", ".husky", ".cargo"];

/// The directories that commands may look at.
#[derive(Debug, Clone)]
pub struct Ground {
    roots: Vec<PathBuf>,
    workdir: PathBuf,
    /// Whether a path that is inside by its words leads out by a link.
    leads_out: fn(&[PathBuf], &Path) -> bool,
}

impl Ground {
    /// Paths are judged by their words alone.
    pub fn by_words(root: impl Into<PathBuf>) -> Self {
        let root = root.into();
        Self { workdir: root.clone(), roots: vec![root], leads_out: |_, _| false }
    }

    /// Links are followed on the disk. The roots are canonical; `workdir` is seen from the first.
    pub fn on_disk(roots: Vec<PathBuf>, workdir: &Path) -> Self {
        let first = roots.first().map_or(Path::new(""), PathBuf::as_path);
        Self { workdir: first.join(workdir), roots, leads_out }
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
        self.path_outside(text, directories)
    }

    fn path_outside(&self, text: &str, directories: &[PathBuf]) -> Option<String> {
        let path = Path::new(text);
        if path.components().any(|part| part == Component::ParentDir) {
            return Some(format!("`{text}` goes up with `..`"));
        }
        if path.is_absolute() && !self.roots.iter().any(|root| path.starts_with(root)) {
            return Some(format!("`{text}` is outside the working directory"));
        }
        let bases = directories.iter().map(|dir| self.workdir.join(dir)).chain([self.workdir.clone()]);
        let leads_out = bases.into_iter().any(|base| (self.leads_out)(&self.roots, &base.join(path)));
        leads_out.then(|| format!("`{text}` leads outside the working directory by a link"))
    }
}

/// A part of a path that begins with a dot and has a pattern in it may become `..`.
fn has_hidden_pattern(text: &str) -> bool {
    text.split('/').any(|part| part.starts_with(['.', '[']) && part.contains(['*', '?', '[']))
}

fn leads_out(roots: &[PathBuf], path: &Path) -> bool {
    // What is not there yet is judged by the nearest directory that is.
    let found = path.ancestors().find_map(|path| path.canonicalize().ok());
    found.is_none_or(|found| !roots.iter().any(|root| found.starts_with(root)))
}

/// Why a file inside the root is more than a file.
pub(super) fn sensitive(path: &str) -> Option<String> {
    let parts = Path::new(path).components().filter_map(|part| part.as_os_str().to_str());
    let found =
        parts.into_iter().find(|part| SENSITIVE.iter().any(|name| name.eq_ignore_ascii_case(part)))?;
    Some(format!("`{path}` decides what other programs run (`{found}`)"))
}
