//! One process of a case: opens the store, takes over the runs of a dead process, and serves a client until
//! everything is answered.

use crate::{
    agents,
    case::{Clock, FaultStage, Scenario, Setting, StoreKind, Trial},
    client::{Client, session_key},
    log,
    model::{SharedState, faults, finished},
    report::{Line, Reporter},
};
use adk::pending::REQUEST_CONFIRMATION;
use bridge::{Agent, Runs, runs::RecoverySource};
use serde::{Deserialize, Serialize};
use serde_json::json;
use session::{Store, memory::MemoryStore, sqlite};
use std::{
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{
    runtime::{Builder, Runtime},
    sync::{Notify, watch},
};

/// The arguments of a process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) setting: Setting,
    /// The directory of the database.
    pub(crate) dir: PathBuf,
    pub(crate) trials: Vec<Trial>,
    /// Whether the process aborts within the run without a fault.
    pub(crate) aborts: bool,
    pub(crate) before: Vec<Line>,
}

/// Timeout of the client. A day of virtual time takes three minutes at least, so that a disk that stalls for half a
/// minute is not a hang.
fn client_timeout(clock: Clock) -> Duration {
    match clock {
        Clock::Virtual => Duration::from_hours(24),
        Clock::Real => Duration::from_mins(2),
    }
}

/// Timers fire while the runtime is idle, and it is idle while a thread writes: the tick keeps virtual time from
/// running away. A tick of 50 ms takes about 0.1 ms.
async fn tick() {
    loop {
        tokio::time::sleep(Duration::from_millis(50)).await;
        std::thread::sleep(Duration::from_micros(50));
    }
}

fn runtime(clock: Clock) -> Runtime {
    let built = match clock {
        Clock::Virtual => Builder::new_current_thread().enable_all().start_paused(true).build(),
        Clock::Real => Builder::new_multi_thread().worker_threads(2).enable_all().build(),
    };
    built.unwrap()
}

pub(crate) fn run(job: Job) {
    let out = Arc::new(Reporter::new(job.before));
    let Setting { store: kind, stage, clock, .. } = job.setting;
    let store: Arc<dyn Store> = match kind {
        StoreKind::Sqlite => {
            let file = job.dir.join("lango.db");
            Arc::new(sqlite::SqliteStore::open(file, sqlite::Options::default()).unwrap())
        }
        StoreKind::Memory => Arc::new(MemoryStore::new()),
    };
    let aborts_here = kind == StoreKind::Memory && stage == FaultStage::Recovery;
    if aborts_here {
        // The memory store survives; the tasks do not.
        let first = ProcessRun { setting: job.setting, trials: Vec::new(), aborts: true };
        runtime(clock).block_on(first.run(&store, &out));
    }
    let main = ProcessRun { setting: job.setting, trials: job.trials, aborts: job.aborts };
    let runtime = runtime(clock);
    runtime.block_on(main.run(&store, &out));
    // A runtime that waits for its threads would wait for tasks that never end.
    runtime.shutdown_background();
}

struct ProcessRun {
    setting: Setting,
    trials: Vec<Trial>,
    aborts: bool,
}

struct Source {
    agent: Agent,
    out: Arc<Reporter>,
    reported: Mutex<usize>,
}

impl RecoverySource for Source {
    fn agent(&self, _: &str) -> Result<Agent, String> {
        Ok(self.agent.clone())
    }

    fn report(&self, problem: &str) {
        let mut reported = self.reported.lock().unwrap();
        *reported += 1;
        if *reported < 20 {
            self.out.report(Line::Note(problem.to_owned()));
        }
    }
}

impl ProcessRun {
    fn shared(&self, out: &Arc<Reporter>) -> Arc<SharedState> {
        let Setting { store, scenario, clock, .. } = self.setting;
        let pause = match clock {
            // Long enough for a heartbeat and for drafts.
            Clock::Virtual => Duration::from_millis(2_500),
            Clock::Real => Duration::from_millis(1_300),
        };
        Arc::new(SharedState {
            store,
            scenario,
            pause,
            aborts: self.aborts,
            gate: watch::Sender::new(false),
            stalled: watch::Sender::new(false),
            aborted: Notify::new(),
            out: Arc::clone(out),
        })
    }

    async fn run(&self, store: &Arc<dyn Store>, out: &Arc<Reporter>) {
        if self.setting.clock == Clock::Virtual {
            tokio::spawn(tick());
        }
        let shared = self.shared(out);
        let served =
            tokio::time::timeout(client_timeout(self.setting.clock), self.serve(store, out, &shared));
        tokio::select! {
            served = served => if served.is_err() {
                out.report(log::last(&**store, &session_key()).await);
                out.report(Line::Problem("it hangs".to_owned()));
            },
            () = shared.aborted.notified() => {}
        }
    }

    async fn serve(&self, store: &Arc<dyn Store>, out: &Arc<Reporter>, shared: &Arc<SharedState>) {
        let runs = Runs::new(Arc::clone(store));
        let agent = agents::agent(store, runs.turns(), shared);
        agent.sessions().get_or_create(&session_key()).await.unwrap();
        let continues = !out.lines().is_empty();
        if continues {
            out.report(log::found(&**store, &session_key()).await);
        }
        failpoint::arm(self.trials.iter().map(|trial| trial.plan()).collect());
        let recovery = loop {
            match runs.claim_orphans().await {
                Ok(recovery) => break recovery,
                // `lango serve` exits with this error, and is started again.
                Err(error) => out.report(Line::Note(format!("claim_orphans: {error}"))),
            }
        };
        let source =
            Arc::new(Source { agent: agent.clone(), out: Arc::clone(out), reported: Mutex::default() });
        let recovering = runs.clone();
        tokio::spawn(async move { recovering.recover(recovery, source).await });
        let mut client = Client::new(runs, agent, Arc::clone(store), Arc::clone(out));
        client.reconnect_all().await;
        self.converse(&mut client, shared).await;
        client.wait_for_all().await;
        // The next message works.
        client.say("n").await;
        client.wait_for("n").await;
        client.runs.idle().await;
        let hits = failpoint::hits().into_iter().map(|(point, hits)| (point.name().to_owned(), hits));
        out.report(Line::Hits { hits: hits.collect(), fired: failpoint::fired() });
        failpoint::arm(Vec::new());
        self.check_next_request(&client).await;
        out.report(log::last(&**store, &session_key()).await);
    }

    async fn converse(&self, client: &mut Client, shared: &SharedState) {
        client.say("m").await;
        self.reply(client).await;
        for number in 1..=self.setting.queue {
            client.say(&format!("q{number}")).await;
        }
        if self.setting.scenario == Scenario::Cancel {
            client.say("c").await;
            if self.aborts {
                shared.abort().await;
            }
            client.cancel("c").await;
        }
        shared.gate.send_replace(true);
        match self.setting.scenario {
            Scenario::Cancel => cancel_when_stalled(client, shared).await,
            Scenario::LongRunning => send_late_result(client).await,
            Scenario::Text
            | Scenario::Tool
            | Scenario::ParallelTools
            | Scenario::Transfer
            | Scenario::Confirmation
            | Scenario::Superseded => {}
        }
    }

    /// The reply to the question of the first run.
    async fn reply(&self, client: &mut Client) {
        match self.setting.scenario {
            Scenario::Confirmation => {
                client.wait_for("m").await;
                if let Some(question) = client.call(REQUEST_CONFIRMATION).await {
                    client.respond("a", (question, REQUEST_CONFIRMATION), json!({"confirmed": true})).await;
                }
            }
            Scenario::Superseded => {
                client.wait_for("m").await;
                client.say("s").await;
            }
            Scenario::Text
            | Scenario::Tool
            | Scenario::ParallelTools
            | Scenario::Transfer
            | Scenario::LongRunning
            | Scenario::Cancel => {}
        }
    }

    async fn check_next_request(&self, client: &Client) {
        let target = provider::ModelId { provider: "stub".to_owned(), model: "m1".to_owned() };
        match client.agent.preview(&client.key, target).await {
            Ok(request) => {
                for fault in faults(&request) {
                    client.out.report(Line::Problem(format!("the next request is illegal: {fault}")));
                }
            }
            Err(error) => client.out.report(Line::Problem(format!("there is no next request: {error}"))),
        }
    }
}

async fn cancel_when_stalled(client: &Client, shared: &SharedState) {
    let mut stalled = shared.stalled.subscribe();
    tokio::select! {
        _ = stalled.wait_for(|stalled| *stalled) => client.cancel("m").await,
        () = client.wait_for("m") => {}
    }
}

async fn send_late_result(client: &mut Client) {
    client.wait_for_all().await;
    if let Some(call) = client.call("job").await {
        client.respond("r", (call, "job"), finished()).await;
    }
}
