//! Loading the tail of a session: a window of 32,000 tokens, after 100 to 1,000,000 messages.

use crate::{
    BenchEnv, Result,
    figure::{Figure, Target},
    measure::{Samples, cpu_of, milliseconds, repeat},
    raw,
    rows::{Rows, TOKENS},
};
use session::{
    SessionKey, SessionStore, TailBudget,
    sqlite::{Options, SqliteStore},
};
use std::path::Path;
use tokio::runtime::Runtime;

const LENGTHS: [(i64, &str); 4] = [(100, "100"), (10_000, "10k"), (100_000, "100k"), (1_000_000, "1M")];
const WINDOW: TailBudget = TailBudget { tokens: 32_000, rows: usize::MAX };
const WARM_UP: u32 = 200;
const TIMES: u32 = 2_000;
const ROWS_IN_WINDOW: u64 = WINDOW.tokens / TOKENS as u64;

pub(crate) fn run(env: &BenchEnv) -> Result<Vec<Figure>> {
    let directory = env.directory()?;
    let (path, rows) = (directory.path().join("tail.db"), Rows::new());
    let key = SessionKey::new("bench", "user", "long");
    drop(raw::create(&path, std::slice::from_ref(&key))?);
    let (mut figures, mut medians) = (Vec::new(), Vec::new());
    for (length, name) in LENGTHS {
        raw::grow(&path, &mut || rows.next(), length)?;
        let (samples, spent) = cpu_of(|| load(&path, &key));
        let samples = samples?;
        medians.push(samples.median());
        let cpu = milliseconds(spent) / f64::from(WARM_UP + TIMES);
        figures.push(Figure::median(format!("tail/{name}"), &samples, "ms").target(Target::AtMost(0.2)));
        figures.push(Figure::new(format!("tail/{name}/cpu"), cpu, "ms"));
    }
    let medians = Samples::new(medians);
    let growth = medians.percentile(100) / medians.percentile(0);
    figures.push(Figure::new("tail/slowest_to_fastest", growth, "ratio").target(Target::AtMost(2.0)));
    Ok(figures)
}

fn load(path: &Path, key: &SessionKey) -> Result<Samples> {
    let store = SqliteStore::open(path, Options::default())?;
    let runtime = Runtime::new()?;
    repeat(WARM_UP, TIMES, || {
        let snapshot = runtime.block_on(store.load(key, WINDOW))?.ok_or("the session is gone")?;
        let rows = snapshot.tail.len() as u64;
        if rows == ROWS_IN_WINDOW { Ok(()) } else { Err(format!("the window has {rows} rows").into()) }
    })
}
