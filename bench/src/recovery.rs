//! Recovery after a crash: the time until a server has claimed 10,000 interrupted runs, and until it has finished them with
//! an instant model. A server listens after it has claimed all runs; a newer message of a session waits for its interrupted run.

use crate::{
    BenchEnv, Result,
    figure::Figure,
    measure::{Samples, cpu_of, milliseconds},
    turn::{self, QUESTION},
};
use adk::{content::Content, event::Event};
use bridge::{
    Agent,
    runs::{RecoverySource, Runs},
    store::row::save,
};
use session::{
    Commit, NewRun, NewSession, OnConflict, Owners, RunLog, RunStatus, Seq, SessionKey, SessionMessage,
    SessionStore, Start, Store, TurnChange,
    sqlite::{Options, SqliteStore},
};
use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{runtime::Runtime, task::JoinSet};

const RUNS: u32 = 10_000;
const ROUNDS: usize = 3;
/// Sessions that are created concurrently, so that they share commits.
const CONCURRENCY: usize = 256;
/// Interval at which the remaining owners are read.
const POLL: Duration = Duration::from_millis(5);

pub(crate) fn run(env: &BenchEnv) -> Result<Vec<Figure>> {
    let (mut claims, mut finishes, mut cpu) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let directory = env.directory()?;
        let path = directory.path().join("recovery.db");
        let runtime = Runtime::new()?;
        runtime.block_on(store_interrupted_runs(&path))?;
        let (recovered, spent) = cpu_of(|| runtime.block_on(recover(&path)));
        let (claim, finish) = recovered?;
        claims.push(milliseconds(claim));
        finishes.push(finish.as_secs_f64());
        cpu.push(milliseconds(spent) / f64::from(RUNS));
    }
    Ok(vec![
        Figure::median("recovery/10k/claim", &Samples::new(claims), "ms"),
        Figure::median("recovery/10k/finish", &Samples::new(finishes), "s"),
        Figure::median("recovery/10k/cpu_per_run", &Samples::new(cpu), "ms"),
    ])
}

fn key(number: u32) -> SessionKey {
    SessionKey::new("bench", "user", number.to_string())
}

/// Creates the database of a process that was killed during all its runs: each message is stored, none is answered.
async fn store_interrupted_runs(path: &Path) -> Result<()> {
    let store = SqliteStore::open(path, Options::default())?;
    let mut question = Event::new("bench", "user");
    question.content = Some(Content::user(QUESTION));
    let message = save(&question)?;
    let mut created = JoinSet::new();
    for number in 0..RUNS {
        let (store, message) = (store.clone(), message.clone());
        created.spawn(async move { store.create(interrupted_session(number, message)).await.map(drop) });
        if created.len() == CONCURRENCY {
            created.join_next().await.transpose()?.transpose()?;
        }
    }
    while let Some(done) = created.join_next().await {
        done??;
    }
    Ok(())
}

/// A session whose only run is running. Each run has its own owner; all owners belong to one dead process.
fn interrupted_session(number: u32, message: SessionMessage) -> NewSession {
    let run = NewRun {
        id: format!("run-{number}"),
        owner: format!("1-gone#{number}"),
        idempotency_key: None,
        is_new: false,
    };
    let turn = TurnChange::Start(Start {
        run,
        if_epoch: None,
        supersedes: Vec::new(),
        settled: Vec::new(),
        options: None,
    });
    let steps = vec![Commit { turn, ..Commit::message(message) }];
    NewSession { key: key(number), state: Vec::new(), steps, on_conflict: OnConflict::Fail, quota: None }
}

/// Returns the time until all runs are claimed and the time until all are finished.
async fn recover(path: &Path) -> Result<(Duration, Duration)> {
    let begun = Instant::now();
    let store = SqliteStore::open(path, Options::default())?;
    let shared: Arc<dyn Store> = Arc::new(store.clone());
    let runs = Runs::new(Arc::clone(&shared));
    let recovery = runs.claim_orphans().await?;
    let claim = begun.elapsed();
    if u32::try_from(recovery.len()) != Ok(RUNS) {
        return Err(format!("{} runs were claimed", recovery.len()).into());
    }
    let agent = turn::agent(shared)?.with_turns(runs.turns().clone());
    let source = Arc::new(OneAgent { agent });
    let recovering = tokio::spawn({
        let runs = runs.clone();
        async move { runs.recover(recovery, source).await }
    });
    while !store.owners().await?.is_empty() {
        tokio::time::sleep(POLL).await;
    }
    let finish = begun.elapsed();
    recovering.abort();
    runs.idle().await;
    for number in [0, RUNS / 2, RUNS - 1] {
        let run = store.runs(&key(number), 2).await?.pop().ok_or("a run is missing")?;
        // The message and its answer.
        if (run.status, run.last_seq) != (RunStatus::Done, Seq(2)) {
            return Err(format!("a run was not recovered: {run:?}").into());
        }
    }
    Ok((claim, finish))
}

struct OneAgent {
    agent: Agent,
}

impl RecoverySource for OneAgent {
    fn agent(&self, _app: &str) -> std::result::Result<Agent, String> {
        Ok(self.agent.clone())
    }

    fn report(&self, problem: &str) {
        eprintln!("bench: {problem}");
    }
}
