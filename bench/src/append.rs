//! Durable appends: the store against plain rusqlite on the same schema, in alternating rounds.
//!
//! The rusqlite side is the upper bound for SQLite: one thread without a queue commits one append of every session per
//! transaction. The difference is the cost of the store's queue, of its replies and of concurrent callers.

use crate::{
    BenchEnv, Result,
    figure::{Figure, Target},
    measure::{Samples, alternate, cpu_of},
    raw::{self, Raw},
    rows::Rows,
};
use session::{Commit, SessionKey, SessionStore, sqlite::SqliteStore};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{runtime::Runtime, task::JoinSet};

const ROUNDS: usize = 9;
const ROUND: Duration = Duration::from_millis(700);

pub(crate) fn one_session(env: &BenchEnv) -> Result<Vec<Figure>> {
    compare(env, 1, Target::AtLeast(0.75))
}

pub(crate) fn many_sessions(env: &BenchEnv) -> Result<Vec<Figure>> {
    compare(env, 64, Target::AtLeast(0.8))
}

fn compare(env: &BenchEnv, sessions: usize, target: Target) -> Result<Vec<Figure>> {
    let directory = env.directory()?;
    let keys: Vec<SessionKey> =
        (0..sessions).map(|n| SessionKey::new("bench", "user", n.to_string())).collect();
    let store = raw::create(&directory.path().join("ours.db"), &keys)?;
    let plain = directory.path().join("plain.db");
    drop(raw::create(&plain, &keys)?);
    let plain = Raw::durable(&plain)?;
    let (runtime, rows) = (Runtime::new()?, Arc::new(Rows::new()));
    let (mut our_cpu, mut their_cpu) = (Vec::new(), Vec::new());
    let sides = alternate(
        ROUNDS,
        || round(&mut our_cpu, || runtime.block_on(through_store(&store, &keys, &rows))),
        || round(&mut their_cpu, || through_sqlite(&plain, &keys, &rows)),
    )?;
    let name = |what: &str| format!("append/{sessions}/{what}");
    Ok(vec![
        Figure::median(name("store"), &sides.ours, "per s"),
        Figure::median(name("rusqlite"), &sides.theirs, "per s"),
        Figure::median(name("ratio"), &sides.ratio, "ratio").target(target),
        Figure::median(name("store_cpu"), &Samples::new(our_cpu), "µs"),
        Figure::median(name("rusqlite_cpu"), &Samples::new(their_cpu), "µs"),
    ])
}

/// Returns the rate of one round, in appends per second, and pushes the CPU time of one append to `cpu`, in microseconds.
fn round(cpu: &mut Vec<f64>, appends: impl FnOnce() -> Result<u32>) -> Result<f64> {
    let start = Instant::now();
    let (count, spent) = cpu_of(appends);
    let count = f64::from(count?);
    cpu.push(spent.as_secs_f64() * 1e6 / count);
    Ok(count / start.elapsed().as_secs_f64())
}

/// Runs one task per session; each awaits a commit before it starts the next.
async fn through_store(store: &SqliteStore, keys: &[SessionKey], rows: &Arc<Rows>) -> Result<u32> {
    let end = Instant::now() + ROUND;
    let mut callers = JoinSet::new();
    for key in keys {
        callers.spawn(append_until(end, store.clone(), key.clone(), Arc::clone(rows)));
    }
    let mut count = 0;
    while let Some(done) = callers.join_next().await {
        count += done??;
    }
    Ok(count)
}

async fn append_until(
    end: Instant,
    store: SqliteStore,
    key: SessionKey,
    rows: Arc<Rows>,
) -> session::Result<u32> {
    let mut count = 0;
    while Instant::now() < end {
        store.commit(&key, Commit::message(rows.next())).await?;
        count += 1;
    }
    Ok(count)
}

fn through_sqlite(raw: &Raw, keys: &[SessionKey], rows: &Rows) -> Result<u32> {
    let end = Instant::now() + ROUND;
    let mut count = 0;
    while Instant::now() < end {
        raw.begin()?;
        for key in keys {
            raw.append(key, &rows.next())?;
            count += 1;
        }
        raw.commit()?;
    }
    Ok(count)
}
