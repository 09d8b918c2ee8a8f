//! Landlock: rights that a process gives up for good, for itself and all that it starts.

use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, LandlockStatus, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetStatus, Scope, path_beneath_rules,
};

use super::helper::Wish;

/// The newest version whose rights are known here; an older kernel enforces what it knows.
const KNOWN: ABI = ABI::V6;

/// Devices that swallow what is written to them.
const HARMLESS: [&str; 3] = ["/dev/null", "/dev/zero", "/dev/full"];

/// Confines this process, and says by which version.
pub(super) fn restrict(wish: &Wish) -> Result<u32, String> {
    let fail = |error: landlock::RulesetError| format!("Landlock: {error}");
    let writes = AccessFs::from_write(KNOWN);
    let mut rules = Ruleset::default().handle_access(writes).map_err(fail)?;
    // No signals to processes outside, so that a command cannot end the program that runs it.
    rules = rules.scope(Scope::Signal).map_err(fail)?.scope(Scope::AbstractUnixSocket).map_err(fail)?;
    if wish.no_tcp {
        rules = rules.handle_access(AccessNet::from_all(KNOWN)).map_err(fail)?;
    }
    let devices = HARMLESS.map(PathBuf::from);
    let there = wish.writable.iter().chain(&devices).filter(|path| Path::exists(path));
    let status = rules
        .create()
        .and_then(|created| created.add_rules(path_beneath_rules(there, writes)))
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
