//! Who holds a lease or a ticket: this machine, this start of it, this process, this one claim — so that an owner that is
//! gone is known to be gone.

use std::{
    collections::BTreeSet,
    fs,
    sync::{
        Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

/// The claims of this process that somebody still holds.
static LIVING: Mutex<BTreeSet<u64>> = Mutex::new(BTreeSet::new());

/// One claim of this process. It is alive as long as this is not dropped, and dead afterwards, also to this process itself.
#[derive(Debug)]
pub(crate) struct Owner {
    name: String,
    number: u64,
}

impl Owner {
    pub(crate) fn new() -> Self {
        static CLAIMS: AtomicU64 = AtomicU64::new(0);
        let number = CLAIMS.fetch_add(1, Ordering::Relaxed);
        living().insert(number);
        Self { name: format!("{}#{number}", process()), number }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        living().remove(&self.number);
    }
}

fn living() -> MutexGuard<'static, BTreeSet<u64>> {
    LIVING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether an owner is certainly gone. An owner on another machine may be alive: its lease has to run out.
pub(crate) fn is_dead(owner: &str) -> bool {
    let (place, claim) = owner.split_once('#').unwrap_or((owner, ""));
    if place == process() {
        return claim.parse().is_ok_and(|number| !living().contains(&number));
    }
    let mut fields = place.split('/');
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

/// This process: machine, boot, pid, start time.
fn process() -> &'static str {
    static PROCESS: OnceLock<String> = OnceLock::new();
    PROCESS.get_or_init(|| {
        let pid = std::process::id();
        let start = start_time(pid).unwrap_or_else(|| uuid::Uuid::new_v4().simple().to_string());
        format!("{}/{}/{pid}/{start}", machine(), boot())
    })
}

/// Where a pid means the same process as here: two containers on one machine may both have a process 7.
fn machine() -> &'static str {
    static MACHINE: OnceLock<String> = OnceLock::new();
    MACHINE.get_or_init(|| {
        let machine = read("/etc/machine-id").or_else(|| read("/proc/sys/kernel/hostname"));
        let pids = fs::read_link("/proc/self/ns/pid").ok().map(|link| plain(&link.to_string_lossy()));
        machine.map(|machine| format!("{machine}.{}", pids.unwrap_or_default())).unwrap_or_default()
    })
}

fn boot() -> &'static str {
    static BOOT: OnceLock<String> = OnceLock::new();
    BOOT.get_or_init(|| read("/proc/sys/kernel/random/boot_id").unwrap_or_default())
}

fn read(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(plain(text.trim())).filter(|text| !text.is_empty())
}

fn plain(text: &str) -> String {
    text.replace(['/', '#'], "_")
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
    fn a_claim_is_alive_until_it_is_dropped() {
        let owner = Owner::new();
        let name = owner.name().to_owned();
        assert!(!is_dead(&name));
        drop(owner);
        assert!(is_dead(&name));
    }

    #[test]
    fn a_process_that_began_at_another_time_is_gone() {
        if cfg!(target_os = "linux") {
            assert!(is_dead(&format!("{}/{}/{}/1#0", machine(), boot(), std::process::id())));
            assert!(is_dead(&format!("{}/an-earlier-boot/1/1#0", machine())));
        }
    }

    #[test]
    fn an_owner_on_another_machine_may_be_alive() {
        assert!(!is_dead("elsewhere/boot/1/1#0"));
        assert!(!is_dead("nonsense"));
    }

    #[test]
    fn a_pid_of_another_container_says_nothing() {
        let elsewhere = machine().rsplit_once('.').map(|(machine, _)| format!("{machine}.pid:[1]"));
        assert!(!is_dead(&format!("{}/{}/1/1#0", elsewhere.unwrap_or_default(), boot())));
    }
}
