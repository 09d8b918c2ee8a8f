//! Which operands of a command it is known to write to or delete, so that the policy can name what the sandbox would refuse.

use std::path::{Path, PathBuf};

use super::{
    CommandSandbox, PathScope,
    path_scope::{normalize, resolve_existing},
    shell::{ShellWord, WordValue},
};

/// Commands that change each operand.
const EACH: [&str; 10] =
    ["rm", "rmdir", "mkdir", "touch", "tee", "truncate", "shred", "unlink", "mkfifo", "mv"];
/// Commands that change each operand after the first.
const AFTER_FIRST: [&str; 3] = ["chmod", "chown", "chgrp"];
/// Commands that change their last operand.
const LAST: [&str; 3] = ["cp", "ln", "install"];

/// Device files that every command may write to.
const DEVICES: [&str; 6] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/stdout", "/dev/stderr", "/dev/tty"];

/// The words that the command is known to write to.
pub(super) fn written<'a>(name: &str, args: &'a [ShellWord]) -> Vec<&'a ShellWord> {
    let is_operand = |word: &&ShellWord| !word.raw.starts_with('-');
    let operands: Vec<&ShellWord> = args.iter().filter(is_operand).collect();
    match name {
        name if EACH.contains(&name) => operands,
        name if AFTER_FIRST.contains(&name) => operands.into_iter().skip(1).collect(),
        name if LAST.contains(&name) && operands.len() > 1 => operands.into_iter().rev().take(1).collect(),
        _ => Vec::new(),
    }
}

/// The path outside of the writable directories that a command is known to write to.
pub(super) fn unwritable(
    words: &[ShellWord],
    sandbox: &CommandSandbox,
    (scope, directories): (&PathScope, &[PathBuf]),
) -> Option<String> {
    let [name, args @ ..] = words else { return None };
    let name = name.known()?;
    let device =
        args.iter().filter_map(|word| Some(Path::new(word.known()?.strip_prefix("of=")?).to_owned()));
    let device = device.filter(|_| name == "dd").collect::<Vec<_>>();
    let paths = written(name, args).into_iter().filter_map(|word| path_of(word, sandbox)).chain(device);
    paths
        .into_iter()
        .find(|path| !is_writable(path, sandbox, (scope, directories)))
        .map(|path| path.display().to_string())
}

/// Whether a path is writable, and it is known which directories are.
pub(super) fn is_known_writable(
    path: &Path,
    sandbox: &CommandSandbox,
    place: (&PathScope, &[PathBuf]),
) -> bool {
    !sandbox.writable.is_empty() && is_writable(path, sandbox, place)
}

/// Whether a path is inside the writable directories, whichever directory the script is in.
pub(super) fn is_writable(
    path: &Path,
    sandbox: &CommandSandbox,
    (scope, directories): (&PathScope, &[PathBuf]),
) -> bool {
    let is_inside = |path: &PathBuf| {
        let path = normalize(path);
        let found = resolve_existing(&path).unwrap_or(path);
        sandbox.writable.iter().any(|dir| found.starts_with(dir))
    };
    sandbox.writable.is_empty()
        || DEVICES.iter().any(|device| path == Path::new(device))
        || scope.candidates(path, directories).all(|path| is_inside(&path))
}

/// The path that a word stands for; `None` if it is known only at run time.
pub(super) fn path_of(word: &ShellWord, sandbox: &CommandSandbox) -> Option<PathBuf> {
    match &word.text {
        WordValue::Known(text) => Some(text.into()),
        WordValue::Pattern(text) => {
            let known = text.split(['*', '?', '[']).next().unwrap_or_default();
            Some(Path::new(known).parent().unwrap_or(Path::new("")).to_owned())
        }
        WordValue::Unknown => {
            let rest = word.raw.strip_prefix('~')?;
            let is_plain = rest.is_empty()
                || rest.starts_with('/') && !rest.contains(['$', '`', '\'', '"', '\\', '*', '?', '[', '{']);
            is_plain.then(|| sandbox.home.join(rest.trim_start_matches('/')))
        }
    }
}

/// Whether a command deletes a root, a directory above one, or everything in one.
pub(super) fn deletes_root(words: &[ShellWord], scope: &PathScope, directories: &[PathBuf]) -> bool {
    let [name, args @ ..] = words else { return false };
    let is_recursive = |word: &ShellWord| {
        let text = word.known().unwrap_or_default();
        text == "--recursive"
            || (text.starts_with('-') && !text.starts_with("--") && text.contains(['r', 'R']))
    };
    let is_root = |path: &Path| {
        let path = normalize(path);
        scope.roots().iter().any(|root| root.starts_with(&path))
    };
    let deletes_all = |word: &ShellWord| match &word.text {
        WordValue::Known(text) => scope.candidates(Path::new(text), directories).any(|path| is_root(&path)),
        WordValue::Pattern(text) => {
            let (dir, name) = text.rsplit_once('/').unwrap_or(("", text));
            let is_all = ["*", ".*", ".[!.]*"].contains(&name);
            is_all && scope.candidates(Path::new(dir), directories).any(|path| is_root(&path))
        }
        WordValue::Unknown => true,
    };
    match name.known() {
        Some("rm") => {
            args.iter().any(is_recursive) && args.iter().any(|word| !is_recursive(word) && deletes_all(word))
        }
        Some("find") => args.iter().any(|word| word.known() == Some("-delete")),
        Some(_) | None => false,
    }
}
