//! Ctrl-C: a flag that every loop of a test checks.

use crate::Result;
use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, Ordering},
};

static INTERRUPTED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// From now on Ctrl-C and SIGTERM set the flag. A second one ends the process; its children are killed with it.
pub(crate) fn listen() -> Result<()> {
    if INTERRUPTED.get().is_some() {
        return Ok(());
    }
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register_conditional_default(signal, Arc::clone(&flag))?;
        signal_hook::flag::register(signal, Arc::clone(&flag))?;
    }
    let _ = INTERRUPTED.set(flag);
    Ok(())
}

pub(crate) fn is_set() -> bool {
    INTERRUPTED.get().is_some_and(|flag| flag.load(Ordering::Relaxed))
}
