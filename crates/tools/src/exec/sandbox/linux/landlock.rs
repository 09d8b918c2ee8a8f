//! Landlock: restrictions that a process imposes on itself and its children, irrevocably.

use std::path::{Path, PathBuf};

use landlock::{
    ABI, AccessFs, LandlockStatus, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus, Scope,
    path_beneath_rules,
};

/// The newest ABI version that is used; an older kernel enforces the subset that it supports.
const MAX_ABI: ABI = ABI::V6;

/// Limits writing to `writable`, and signals and abstract Unix sockets to the sandbox. Returns the effective ABI version.
pub(super) fn restrict(writable: &[PathBuf]) -> Result<u32, String> {
    let fail = |error: landlock::RulesetError| format!("Landlock: {error}");
    let writes = AccessFs::from_write(MAX_ABI);
    let rules = Ruleset::default().handle_access(writes).map_err(fail)?;
    let rules = rules.scope(Scope::Signal).map_err(fail)?.scope(Scope::AbstractUnixSocket).map_err(fail)?;
    let existing = writable.iter().filter(|path| Path::exists(path));
    let status = rules
        .create()
        .and_then(|created| created.add_rules(path_beneath_rules(existing, writes)))
        .and_then(landlock::RulesetCreated::restrict_self)
        .map_err(fail)?;
    match (status.ruleset, status.landlock) {
        (RulesetStatus::NotEnforced, _)
        | (_, LandlockStatus::NotEnabled | LandlockStatus::NotImplemented) => {
            Err("this kernel has no Landlock".to_owned())
        }
        (_, LandlockStatus::Available { effective_abi, .. }) => Ok(effective_abi as u32),
    }
}
