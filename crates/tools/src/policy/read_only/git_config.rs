//! Detection of git configuration that makes even read-only git commands run programs.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Parts of configuration keys that name a program, another configuration file, or files elsewhere.
const DANGEROUS_KEYS: [&str; 9] =
    ["external", "textconv", "command", "filter", "include", "program", "promisor", "uploadpack", "worktree"];

/// Why git commands in this directory may do more than read, if they may.
pub(super) fn reason_to_ask(directory: &Path) -> Option<String> {
    let found = directory.ancestors().map(|above| above.join(".git")).find(|git| git.exists())?;
    config_files(&found).iter().find_map(|file| {
        let Ok(text) = fs::read_to_string(file) else { return file.exists().then(|| reason("unreadable")) };
        let keys: Vec<String> = text.lines().map(|line| key_part(line).to_lowercase()).collect();
        DANGEROUS_KEYS
            .iter()
            .find(|word| keys.iter().any(|key| key.contains(**word)))
            .map(|word| reason(word))
    })
}

/// The key of a line or the type of a section, without values and without names of branches and remotes.
fn key_part(line: &str) -> &str {
    let line = line.trim();
    let before = |sign| line.split(sign).next().unwrap_or_default();
    match (line.starts_with('['), line.contains('=')) {
        (true, true) => line,
        (true, false) => before('"'),
        (false, _) => before('='),
    }
}

fn reason(word: &str) -> String {
    format!("the git configuration of the repository may run a program or read other files (`{word}`)")
}

/// The configuration files of a repository, including those of a worktree or submodule.
fn config_files(git: &Path) -> Vec<PathBuf> {
    let Ok(text) = fs::read_to_string(git) else { return vec![git.join("config")] };
    let named = text.trim_start().strip_prefix("gitdir:").unwrap_or_default().trim();
    let dir = git.parent().unwrap_or(Path::new("")).join(named);
    let common =
        fs::read_to_string(dir.join("commondir")).map(|common| dir.join(common.trim()).join("config"));
    [dir.join("config")].into_iter().chain(common).collect()
}
