//! Who holds a lease: this machine, this start of it, this process — so that a dead owner is known to be dead.

use std::{
    fs,
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

/// A name for one turn of this process. Its process part tells whether it is still alive.
pub(crate) fn claim() -> String {
    static TURNS: AtomicU64 = AtomicU64::new(0);
    format!("{}#{}", process(), TURNS.fetch_add(1, Ordering::Relaxed))
}

/// This process: machine, boot, pid, start time.
pub(crate) fn process() -> &'static str {
    static PROCESS: OnceLock<String> = OnceLock::new();
    PROCESS.get_or_init(|| {
        let pid = std::process::id();
        let start = start_time(pid).unwrap_or_else(|| uuid::Uuid::new_v4().simple().to_string());
        format!("{}/{}/{pid}/{start}", machine(), boot())
    })
}

/// Whether an owner is certainly gone. An owner on another machine may be alive: its lease has to run out.
pub(crate) fn is_dead(owner: &str) -> bool {
    let own = owner.split('#').next().unwrap_or_default();
    let mut fields = own.split('/');
    let (Some(on), Some(since), Some(pid), Some(start)) =
        (fields.next(), fields.next(), fields.next(), fields.next())
    else {
        return false;
    };
    if on.is_empty() || on != machine() || !cfg!(target_os = "linux") {
        return false;
    }
    let restarted = since != boot();
    restarted || pid.parse().ok().and_then(start_time).as_deref() != Some(start)
}

fn machine() -> &'static str {
    static MACHINE: OnceLock<String> = OnceLock::new();
    MACHINE.get_or_init(|| {
        read("/etc/machine-id").or_else(|| read("/proc/sys/kernel/hostname")).unwrap_or_default()
    })
}

fn boot() -> &'static str {
    static BOOT: OnceLock<String> = OnceLock::new();
    BOOT.get_or_init(|| read("/proc/sys/kernel/random/boot_id").unwrap_or_default())
}

fn read(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().replace(['/', '#'], "_")).filter(|text| !text.is_empty())
}

/// When a process began, in ticks since boot; the field is the 22nd, counted behind the name, which may hold anything.
fn start_time(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let behind_name = stat.rsplit_once(") ")?.1;
    // A process that is dead but not yet buried does not come back.
    let mut fields = behind_name.split_ascii_whitespace();
    let alive = fields.next().is_some_and(|state| !matches!(state, "Z" | "X"));
    alive.then(|| fields.nth(18).map(str::to_owned)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_alive_and_one_that_began_at_another_time_is_not() {
        assert!(!is_dead(&claim()));
        if cfg!(target_os = "linux") {
            let other = format!("{}/{}/{}/1", machine(), boot(), std::process::id());
            assert!(is_dead(&other));
            assert!(is_dead(&format!("{}/an-earlier-boot/1/1", machine())));
        }
    }

    #[test]
    fn an_owner_on_another_machine_may_be_alive() {
        assert!(!is_dead("elsewhere/boot/1/1#0"));
        assert!(!is_dead("nonsense"));
    }
}
