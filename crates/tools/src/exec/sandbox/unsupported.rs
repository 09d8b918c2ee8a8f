//! Systems without a sandbox: the helper refuses to run commands.

pub(super) fn run_supervisor() -> Result<(), String> {
    Err("commands can be confined on Linux only".to_owned())
}

pub(super) fn run_init() -> Result<(), String> {
    run_supervisor()
}
