//! Landlock: restrictions that a process imposes on itself and its children, irrevocably.

use std::path::{Path, PathBuf};

use landlock::{
    ABI, AccessFs, BitFlags, LandlockStatus, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus, Scope,
    path_beneath_rules,
};
use serde::{Deserialize, Serialize};

/// The newest ABI version that is used; an older kernel enforces the subset that it supports.
const MAX_ABI: ABI = ABI::V6;

/// What a process may do with files. Everything else is refused.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileRules {
    pub(super) writable: Vec<PathBuf>,
    /// `None` does not restrict reading.
    pub(super) readable: Option<ReadRules>,
}

/// Files and directories with everything in them that may be read, and directories whose names may be listed.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ReadRules {
    pub(super) whole: Vec<PathBuf>,
    pub(super) listed: Vec<PathBuf>,
}

impl ReadRules {
    /// Everything in `tops` but `denied`. A rule covers a hierarchy and cannot except a part of it, so the siblings of each
    /// denied path get rules of their own.
    pub(super) fn carve(tops: &[PathBuf], denied: impl Fn(&Path) -> Denial) -> Self {
        let mut rules = Self::default();
        let mut queue: Vec<PathBuf> = tops.to_vec();
        while let Some(path) = queue.pop() {
            match denied(&path) {
                Denial::None => rules.whole.push(path),
                Denial::Whole => {}
                Denial::Inside => {
                    let entries = path.read_dir().into_iter().flatten().flatten();
                    // A rule for a link would apply to its target.
                    let is_link = |kind: std::fs::FileType| kind.is_symlink();
                    let entries = entries.filter(|entry| !entry.file_type().is_ok_and(is_link));
                    queue.extend(entries.map(|entry| entry.path()));
                    rules.listed.push(path);
                }
            }
        }
        rules.whole.sort();
        rules.listed.sort();
        rules
    }
}

/// Whether a path is denied, or contains something that is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Denial {
    None,
    Inside,
    Whole,
}

/// Applies the rules, and limits signals and abstract Unix sockets to the sandbox. Returns the effective ABI version.
pub(super) fn restrict(rules: &FileRules) -> Result<u32, String> {
    let fail = |error: landlock::RulesetError| format!("Landlock: {error}");
    let (reads, writes) = (AccessFs::from_read(MAX_ABI), AccessFs::from_write(MAX_ABI));
    let handled = if rules.readable.is_some() { reads | writes } else { writes };
    let ruleset = Ruleset::default().handle_access(handled).map_err(fail)?;
    let ruleset =
        ruleset.scope(Scope::Signal).map_err(fail)?.scope(Scope::AbstractUnixSocket).map_err(fail)?;
    let mut created = ruleset.create().map_err(fail)?;
    let mut allow = |paths: &[PathBuf], access: BitFlags<AccessFs>| {
        let existing = paths.iter().filter(|path| Path::exists(path));
        (&mut created).add_rules(path_beneath_rules(existing, access)).map(drop).map_err(fail)
    };
    let write_access = if rules.readable.is_some() { reads | writes } else { writes };
    allow(&rules.writable, write_access)?;
    if let Some(readable) = &rules.readable {
        allow(&readable.whole, reads)?;
        allow(&readable.listed, AccessFs::ReadDir.into())?;
    }
    let status = created.restrict_self().map_err(fail)?;
    match (status.ruleset, status.landlock) {
        (RulesetStatus::NotEnforced, _)
        | (_, LandlockStatus::NotEnabled | LandlockStatus::NotImplemented) => {
            Err("this kernel has no Landlock".to_owned())
        }
        (_, LandlockStatus::Available { effective_abi, .. }) => Ok(effective_abi as u32),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn siblings_of_a_denied_file_stay_readable() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at("a/b")).unwrap();
        for name in ["a/b/.env", "a/b/x", "a/y", "z"] {
            fs::write(at(name), "").unwrap();
        }
        std::os::unix::fs::symlink("/etc", at("a/link")).unwrap();
        let denied = at("a/b/.env");
        let rules = ReadRules::carve(&[dir.path().to_owned()], |path| match path {
            path if path == denied => Denial::Whole,
            path if denied.starts_with(path) => Denial::Inside,
            _ => Denial::None,
        });
        assert_eq!(rules.whole, [at("a/b/x"), at("a/y"), at("z")]);
        assert_eq!(rules.listed, [dir.path().to_owned(), at("a"), at("a/b")]);
    }
}
