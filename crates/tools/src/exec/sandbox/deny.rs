//! The files that neither commands nor file tools may read: private keys, credentials and `.env` files.

use std::{
    fs::File,
    io::Read,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

/// The default patterns. [`DenyList::new`] describes their syntax.
pub const DEFAULT_DENY_READ: &[&str] = &[
    "~/.ssh",
    "~/.aws",
    "~/.azure",
    "~/.config/gcloud",
    "~/.gnupg",
    "~/.kube",
    "~/.netrc",
    "~/.pgpass",
    "~/.npmrc",
    "~/.pypirc",
    "~/.git-credentials",
    "~/.config/git/credentials",
    "~/.config/gh",
    "~/.docker/config.json",
    "~/.cargo/credentials",
    "~/.cargo/credentials.toml",
    "~/.password-store",
    "~/.local/share/keyrings",
    "~/.mozilla",
    "~/.config/google-chrome",
    "~/.config/chromium",
    "/etc/shadow*",
    "/etc/gshadow*",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/ssl/private",
    "/etc/ssh/ssh_host_*_key",
    ".env",
    ".env.*",
    "!.env.example",
    "!.env.sample",
    "!.env.template",
    "!.env.dist",
    ".netrc",
    ".git-credentials",
    ".pgpass",
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
    "*.p12",
    "*.pfx",
    "*.jks",
    "*.keystore",
    "*.pem",
    "*.key",
];

/// Names that also public certificates have: a file is denied only if it contains a private key.
const MAY_BE_PUBLIC: [&str; 2] = ["*.pem", "*.key"];
const PRIVATE_KEY: &[u8] = b"PRIVATE KEY-----";
/// How many bytes are searched for [`PRIVATE_KEY`].
const KEY_BYTES: u64 = 64 * 1024;

/// Patterns of files that must not be read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DenyList {
    /// Absolute paths. The last component may contain `*`.
    paths: Vec<PathBuf>,
    /// Patterns of file names, at any depth. A later one overrides an earlier one.
    names: Vec<NamePattern>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct NamePattern {
    glob: String,
    denies: bool,
}

impl DenyList {
    /// A pattern with `/` is a path; it may begin with `~/`. Any other is a file name. `*` stands for any characters, and `!`
    /// before a pattern makes an exception.
    pub fn new(patterns: impl IntoIterator<Item = impl AsRef<str>>, home: &Path) -> Self {
        let mut list = Self::default();
        for pattern in patterns {
            let pattern = pattern.as_ref();
            let (glob, denies) = pattern.strip_prefix('!').map_or((pattern, true), |rest| (rest, false));
            if !glob.contains('/') {
                list.names.push(NamePattern { glob: glob.to_owned(), denies });
                continue;
            }
            let path = glob.strip_prefix("~/").map_or_else(|| PathBuf::from(glob), |rest| home.join(rest));
            if denies {
                list.paths.push(path);
            } else {
                list.paths.retain(|known| *known != path);
            }
        }
        list
    }

    /// The same list with a file or directory.
    pub fn with_path(mut self, path: PathBuf) -> Self {
        self.paths.push(path);
        self
    }

    /// Whether the name of a file is denied. Some names need a look at the content: see [`denies`](Self::denies).
    pub(crate) fn matches_name(&self, name: &str) -> bool {
        self.last_match(name).is_some()
    }

    fn last_match(&self, name: &str) -> Option<&NamePattern> {
        let last = self.names.iter().rev().find(|pattern| glob_matches(&pattern.glob, name));
        last.filter(|pattern| pattern.denies)
    }

    /// Whether the file at `path`, or one of its ancestors, must not be read. Links must be resolved by the caller.
    pub(crate) fn denies(&self, path: &Path) -> bool {
        path.ancestors().any(|path| self.denies_path(path)) || self.denies_name(path)
    }

    fn denies_path(&self, path: &Path) -> bool {
        self.paths.iter().any(|denied| match (denied.file_name(), path.file_name()) {
            _ if denied == path => true,
            (Some(glob), Some(name)) if denied.parent() == path.parent() => {
                glob_matches(&glob.to_string_lossy(), &name.to_string_lossy())
            }
            _ => false,
        })
    }

    fn denies_name(&self, path: &Path) -> bool {
        let Some(name) = path.file_name().map(|name| name.to_string_lossy()) else { return false };
        let Some(pattern) = self.last_match(&name) else { return false };
        // A virtual environment may be called `.env`.
        if path.is_dir() {
            return false;
        }
        !MAY_BE_PUBLIC.contains(&pattern.glob.as_str()) || contains_private_key(path)
    }

    /// The existing files and directories that the absolute patterns name.
    pub(super) fn existing_paths(&self) -> Vec<PathBuf> {
        self.paths.iter().flat_map(|path| expand(path)).collect()
    }
}

fn expand(path: &Path) -> Vec<PathBuf> {
    let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else { return Vec::new() };
    let glob = name.to_string_lossy();
    if !glob.contains('*') {
        // Most do not exist, which takes one call to see; resolving takes one for each component.
        return path.exists().then(|| path.canonicalize().ok()).flatten().into_iter().collect();
    }
    let Ok(entries) = dir.read_dir() else { return Vec::new() };
    let matching =
        entries.flatten().filter(|entry| glob_matches(&glob, &entry.file_name().to_string_lossy()));
    matching.filter_map(|entry| entry.path().canonicalize().ok()).collect()
}

/// A file that cannot be read contains no key for a command either.
fn contains_private_key(path: &Path) -> bool {
    if !path.metadata().is_ok_and(|metadata| metadata.is_file()) {
        return false;
    }
    let mut head = Vec::new();
    let read = File::open(path).and_then(|file| file.take(KEY_BYTES).read_to_end(&mut head));
    read.is_ok() && head.windows(PRIVATE_KEY.len()).any(|window| window == PRIVATE_KEY)
}

/// Whether `name` matches `glob`, in which `*` stands for any characters.
fn glob_matches(glob: &str, name: &str) -> bool {
    let Some((first, rest)) = glob.split_once('*') else { return glob == name };
    let Some(mut name) = name.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        let Some(at) = name.find(part) else { return false };
        name = &name[at + part.len()..];
    }
    name.ends_with(last)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn names_paths_and_exceptions() {
        let list = DenyList::new(DEFAULT_DENY_READ, Path::new("/u/ann"));
        for denied in [
            "/p/.env",
            "/p/a/.env.local",
            "/u/ann/.ssh/config",
            "/u/ann/.aws",
            "/etc/shadow-",
            "/x/id_rsa",
            "/etc/ssh/ssh_host_rsa_key",
            "/x/a.p12",
        ] {
            assert!(list.denies(Path::new(denied)), "{denied}");
        }
        for allowed in ["/p/.env.example", "/p/env", "/u/ann/.sshx", "/x/id_rsa.pub", "/u/bob/.ssh/config"] {
            assert!(!list.denies(Path::new(allowed)), "{allowed}");
        }
        let more = DEFAULT_DENY_READ.iter().copied().chain(["!.env", "!~/.aws", "secret*.t*t"]);
        let list = DenyList::new(more, Path::new("/u/ann"));
        assert!(!list.denies(Path::new("/p/.env")) && !list.denies(Path::new("/u/ann/.aws/x")));
        assert!(list.denies(Path::new("/p/secrets.txt")) && !list.denies(Path::new("/p/secrets.md")));
    }

    #[test]
    fn pem_file_is_denied_only_with_a_private_key() {
        let dir = tempfile::tempdir().unwrap();
        let (public, private) = (dir.path().join("cert.pem"), dir.path().join("own.pem"));
        fs::write(&public, "-----BEGIN CERTIFICATE-----\n").unwrap();
        fs::write(&private, "-----BEGIN RSA PRIVATE KEY-----\n").unwrap();
        let list = DenyList::new(DEFAULT_DENY_READ, Path::new("/u/ann"));
        assert_eq!((list.denies(&public), list.denies(&private)), (false, true));
    }
}
