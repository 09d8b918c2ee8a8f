//! Landlock: restrictions that a process imposes on itself and its children, irrevocably.

use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, LandlockStatus, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetStatus, Scope, path_beneath_rules,
};

use super::helper::HelperArgs;

/// The newest ABI version that is used; an older kernel enforces the subset that it supports.
const MAX_ABI: ABI = ABI::V6;

/// Devices that discard writes.
const WRITABLE_DEVICES: [&str; 3] = ["/dev/null", "/dev/zero", "/dev/full"];

/// Restricts this process and returns the effective ABI version.
pub(super) fn restrict(args: &HelperArgs) -> Result<u32, String> {
    let fail = |error: landlock::RulesetError| format!("Landlock: {error}");
    let writes = AccessFs::from_write(MAX_ABI);
    let mut rules = Ruleset::default().handle_access(writes).map_err(fail)?;
    // No signals to processes outside of the sandbox, so that a command cannot kill the program that runs it.
    rules = rules.scope(Scope::Signal).map_err(fail)?.scope(Scope::AbstractUnixSocket).map_err(fail)?;
    if args.no_tcp {
        rules = rules.handle_access(AccessNet::from_all(MAX_ABI)).map_err(fail)?;
    }
    let devices = WRITABLE_DEVICES.map(PathBuf::from);
    let existing = args.writable.iter().chain(&devices).filter(|path| Path::exists(path));
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
