//! Detection of git configuration that makes even read-only git commands run programs.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Configuration keys, in lower case and without the names of remotes and branches, that run no program and name no other
/// file. A repository with any other key asks.
const HARMLESS_KEYS: [&str; 34] = [
    "core.repositoryformatversion",
    "core.filemode",
    "core.bare",
    "core.logallrefupdates",
    "core.ignorecase",
    "core.precomposeunicode",
    "core.symlinks",
    "core.autocrlf",
    "core.eol",
    "core.safecrlf",
    "core.quotepath",
    "core.abbrev",
    "core.compression",
    "remote.url",
    "remote.fetch",
    "remote.pushurl",
    "remote.push",
    "remote.prune",
    "remote.tagopt",
    "branch.remote",
    "branch.merge",
    "branch.rebase",
    "branch.description",
    "user.name",
    "user.email",
    "init.defaultbranch",
    "pull.rebase",
    "pull.ff",
    "push.default",
    "push.autosetupremote",
    "submodule.active",
    "submodule.url",
    "color.ui",
    "gc.auto",
];

/// The only key that the configuration of an absorbed submodule needs beyond those.
const SUBMODULE_KEY: &str = "core.worktree";

/// A hook that `git status` and `git diff` run when they refresh the index.
const INDEX_HOOK: &str = "hooks/post-index-change";

/// Submodules of submodules are searched to this depth.
const MAX_DEPTH: usize = 4;

/// Why git commands in this directory may do more than read, if they may.
pub(in crate::policy) fn reason_to_ask(directory: &Path) -> Option<String> {
    let found = find(directory)?;
    for dir in git_dirs(&found) {
        if dir.join(INDEX_HOOK).exists() {
            return Some(reason("post-index-change"));
        }
        let files = [dir.join("config"), dir.join("config.worktree")];
        let problem = files.iter().find_map(|file| dangerous_key(file, false));
        if let Some(key) = problem.or_else(|| dangerous_submodule(&dir.join("modules"), 0)) {
            return Some(reason(&key));
        }
    }
    None
}

/// Whether a remote of the repository is a directory, so that no network is needed to reach it.
pub(in crate::policy) fn has_local_remote(directory: &Path) -> bool {
    let Some(found) = find(directory) else { return false };
    let texts = git_dirs(&found).into_iter().filter_map(|dir| fs::read_to_string(dir.join("config")).ok());
    let mut urls = texts.flat_map(|text| {
        parse(&text)
            .into_iter()
            .filter(|(key, _)| key == "remote.url")
            .map(|(_, url)| url)
            .collect::<Vec<_>>()
    });
    urls.any(|url| url.starts_with(['/', '.']) || url.starts_with("file:"))
}

/// The files that hold the settings of the repository of a directory.
pub(in crate::policy) fn settings_files(directory: &Path) -> Vec<PathBuf> {
    let git = find(directory).unwrap_or_else(|| directory.join(".git"));
    let resolved = |dir: PathBuf| dir.canonicalize().unwrap_or(dir);
    let dirs = git_dirs(&git).into_iter().map(resolved);
    dirs.flat_map(|dir| [dir.join("config"), dir.join("config.worktree")]).collect()
}

fn find(directory: &Path) -> Option<PathBuf> {
    directory.ancestors().map(|above| above.join(".git")).find(|git| git.exists())
}

/// The first key of a configuration file that is not known to be harmless.
fn dangerous_key(file: &Path, is_submodule: bool) -> Option<String> {
    let Ok(text) = fs::read_to_string(file) else { return file.exists().then(|| "unreadable".to_owned()) };
    let is_harmless =
        |key: &str| HARMLESS_KEYS.contains(&key) || (is_submodule && key == SUBMODULE_KEY) || key.is_empty();
    parse(&text).into_iter().map(|(key, _)| key).find(|key| !is_harmless(key))
}

fn dangerous_submodule(modules: &Path, depth: usize) -> Option<String> {
    let listed = fs::read_dir(modules).ok()?;
    for dir in listed.filter_map(Result::ok).map(|entry| entry.path()) {
        let found = dangerous_key(&dir.join("config"), true)
            .or_else(|| dir.join(INDEX_HOOK).exists().then(|| "post-index-change".to_owned()));
        let nested =
            || if depth < MAX_DEPTH { dangerous_submodule(&dir.join("modules"), depth + 1) } else { None };
        if let Some(key) = found.or_else(nested) {
            return Some(key);
        }
    }
    None
}

/// The keys of a configuration file with their values. A key has no name of a remote or branch. A line that is not understood
/// becomes a key that is not harmless.
fn parse(text: &str) -> Vec<(String, String)> {
    let mut section = String::new();
    let mut keys = Vec::new();
    for line in text.lines().map(str::trim) {
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if line.ends_with('\\') {
            keys.push((line.to_lowercase(), String::new()));
            continue;
        }
        let rest = match line.strip_prefix('[').and_then(|rest| rest.rsplit_once(']')) {
            Some((header, rest)) => {
                section = header.split(['"', ' ', '\t']).next().unwrap_or_default().to_lowercase();
                rest.trim()
            }
            None => line,
        };
        if !rest.is_empty() {
            let (key, value) = rest.split_once('=').unwrap_or((rest, ""));
            keys.push((format!("{section}.{}", key.trim().to_lowercase()), value.trim().to_owned()));
        } else if section.starts_with("include") {
            keys.push((section.clone(), String::new()));
        }
    }
    keys
}

fn reason(word: &str) -> String {
    let word: String = word.chars().take(60).collect();
    format!("the git configuration of the repository may run a program or read other files (`{word}`)")
}

/// The directories of a repository, including the common one of a worktree.
fn git_dirs(git: &Path) -> Vec<PathBuf> {
    let Ok(text) = fs::read_to_string(git) else { return vec![git.to_owned()] };
    let named = text.trim_start().strip_prefix("gitdir:").unwrap_or_default().trim();
    let dir = git.parent().unwrap_or(Path::new("")).join(named);
    let common = fs::read_to_string(dir.join("commondir")).map(|common| dir.join(common.trim()));
    [dir].into_iter().chain(common).collect()
}
