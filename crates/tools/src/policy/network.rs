//! Commands that are known to need the network. The sandbox decides whether they get it; the table lets the policy say so first.

use super::{PathScope, read_only::git_config, shell::ShellWord};
use std::path::PathBuf;

/// Programs that do nothing useful without a network.
const PROGRAMS: [&str; 24] = [
    "curl",
    "wget",
    "aria2c",
    "ssh",
    "scp",
    "sftp",
    "ftp",
    "telnet",
    "nc",
    "ncat",
    "netcat",
    "ping",
    "dig",
    "nslookup",
    "traceroute",
    "gh",
    "apt",
    "apt-get",
    "dnf",
    "yum",
    "apk",
    "brew",
    "aws",
    "gcloud",
];

/// Subcommands that download or upload.
const SUBCOMMANDS: [(&[&str], &[&str]); 12] = [
    (&["git"], &["fetch", "pull", "push", "clone", "ls-remote"]),
    (&["npm", "pnpm"], &["install", "i", "ci", "add", "update", "publish", "audit"]),
    (&["yarn", "bun"], &["install", "add", "upgrade", "publish"]),
    (&["pip", "pip3"], &["install", "download"]),
    (&["uv", "poetry"], &["add", "sync", "install", "lock"]),
    (&["cargo"], &["install", "fetch", "update", "publish", "search", "login"]),
    (&["go"], &["get", "install"]),
    (&["docker", "podman"], &["pull", "push", "login", "search"]),
    (&["gem", "bundle", "composer"], &["install", "update"]),
    (&["helm", "kubectl"], &["get", "apply", "pull", "install"]),
    (&["rustup"], &["update", "install", "toolchain"]),
    (&["hg", "svn"], &["pull", "push", "clone", "checkout", "update"]),
];

/// Words that name this machine or a mode without a network.
const LOCAL: [&str; 8] =
    ["localhost", "127.0.0.1", "[::1]", "file://", "--offline", "--frozen", "--no-index", "--version"];

/// Whether the command needs the network.
pub(super) fn is_needed(words: &[ShellWord], scope: &PathScope, directories: &[PathBuf]) -> bool {
    let known: Vec<&str> = words.iter().map(|word| word.known().unwrap_or("$")).collect();
    let [name, args @ ..] = known.as_slice() else { return false };
    if args.iter().any(|word| LOCAL.iter().any(|local| word.contains(local))) {
        return false;
    }
    let operands: Vec<&str> = args.iter().copied().filter(|word| !word.starts_with('-')).collect();
    let first = operands.first().copied().unwrap_or_default();
    if *name == "git" && (is_local_repository(&operands) || has_local_remote(scope, directories)) {
        return false;
    }
    PROGRAMS.contains(name)
        || SUBCOMMANDS.iter().any(|(names, subs)| names.contains(name) && subs.contains(&first))
        || (*name == "go" && operands.starts_with(&["mod", "download"]))
        || (*name == "rsync" && operands.iter().any(|word| word.contains(':')))
        || (name.starts_with("python") && args.starts_with(&["-m", "pip", "install"]))
        || (*name == "yarn" && args.is_empty())
}

/// Whether a git command names a repository by its path.
fn is_local_repository(operands: &[&str]) -> bool {
    operands.iter().skip(1).any(|word| word.starts_with(['.', '/']))
}

fn has_local_remote(scope: &PathScope, directories: &[PathBuf]) -> bool {
    scope.directories_on_disk(directories).any(|dir| git_config::has_local_remote(&dir))
}
