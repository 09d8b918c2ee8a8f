//! What the settings of a repository make git start, even where git only looks.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Words in settings that name a program, another file of settings, or files elsewhere.
const STARTS: [&str; 9] =
    ["external", "textconv", "command", "filter", "include", "program", "promisor", "uploadpack", "worktree"];

/// Why git is more than it seems in this directory.
pub(super) fn doubt(directory: &Path) -> Option<String> {
    let found = directory.ancestors().map(|above| above.join(".git")).find(|git| git.exists())?;
    settings(&found).iter().find_map(|file| {
        let Ok(text) = fs::read_to_string(file) else { return file.exists().then(|| told("unreadable")) };
        let names: Vec<String> = text.lines().map(|line| names(line).to_lowercase()).collect();
        STARTS.iter().find(|word| names.iter().any(|name| name.contains(**word))).map(|word| told(word))
    })
}

/// A line without what people choose freely: the value, and the name of a branch or remote.
fn names(line: &str) -> &str {
    let line = line.trim();
    let before = |sign| line.split(sign).next().unwrap_or_default();
    match (line.starts_with('['), line.contains('=')) {
        (true, true) => line,
        (true, false) => before('"'),
        (false, _) => before('='),
    }
}

fn told(word: &str) -> String {
    format!("the settings of the repository may start a program or lead elsewhere (`{word}`)")
}

/// The files that hold the settings: of a repository, or of one that shares those of another.
fn settings(git: &Path) -> Vec<PathBuf> {
    let Ok(text) = fs::read_to_string(git) else { return vec![git.join("config")] };
    let named = text.trim_start().strip_prefix("gitdir:").unwrap_or_default().trim();
    let dir = git.parent().unwrap_or(Path::new("")).join(named);
    let common =
        fs::read_to_string(dir.join("commondir")).map(|common| dir.join(common.trim()).join("config"));
    [dir.join("config")].into_iter().chain(common).collect()
}
