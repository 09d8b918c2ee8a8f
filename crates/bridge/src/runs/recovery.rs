//! Recovery: a server continues the runs of owners that are gone. Before it listens it takes over what dead processes left;
//! then, and as long as it serves, it runs them, in each session in the order of acceptance and before newer messages.

use super::{Cursor, Reader, Runs, live::LiveRun, registry::RunKey};
use crate::{
    agent::{Agent, resumption},
    store::service::store_failed,
    turns::{Backoff, Orphan},
};
use adk::{
    error::{RunError, ServiceError},
    session::SessionKey,
};
use failpoint::Point;
use futures::future::join_all;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::sync::Semaphore;

/// How many sessions are recovered at once.
const AT_ONCE: usize = 64;
/// Between two looks at other processes, unless a waiting run asks for one.
const SWEEP: Duration = Duration::from_secs(2);

/// Finds the agent of an app, and reports what could not be recovered.
pub trait RecoverySource: Send + Sync {
    /// The agent of an app; an error says why there is none.
    fn agent(&self, app: &str) -> Result<Agent, String>;

    fn report(&self, problem: &str);
}

/// Runs that were taken over and have not been started.
#[derive(Default)]
pub struct Recovery {
    /// By session, in the order in which they are run.
    sessions: BTreeMap<SessionName, Vec<Orphan>>,
    /// The apps that have no agent, with the problem that was reported.
    reported: BTreeMap<String, String>,
    /// The sessions that are damaged: their runs were tried once, and are kept from being taken over again and again.
    damaged: Arc<Mutex<BTreeSet<SessionName>>>,
    kept: Vec<Orphan>,
}

/// App, user and session.
type SessionName = (String, String, String);

impl Recovery {
    fn add(&mut self, orphans: Vec<Orphan>) {
        for orphan in orphans {
            let session::SessionKey { app, user, session } = orphan.run.key.clone();
            self.sessions.entry((app, user, session)).or_default().push(orphan);
        }
    }

    /// Takes the runs that can be tried.
    fn take(&mut self) -> BTreeMap<SessionName, Vec<Orphan>> {
        let mut sessions = std::mem::take(&mut self.sessions);
        for name in &*self.damaged.lock().unwrap_or_else(PoisonError::into_inner) {
            self.kept.extend(sessions.remove(name).into_iter().flatten());
        }
        sessions
    }

    /// How many runs wait to be continued.
    pub fn len(&self) -> usize {
        self.sessions.values().map(Vec::len).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }
}

impl fmt::Debug for Recovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recovery").field("runs", &self.len()).finish()
    }
}

impl Runs {
    /// Takes over the runs of all owners that are gone. From now on newer messages queue behind them.
    pub async fn claim_orphans(&self) -> Result<Recovery, ServiceError> {
        let mut recovery = Recovery::default();
        self.claim_more(&mut recovery).await?;
        Ok(recovery)
    }

    async fn claim_more(&self, recovery: &mut Recovery) -> Result<(), ServiceError> {
        let orphans = self.turns.take_over(None).await;
        recovery.add(orphans.map_err(store_failed)?);
        Ok(())
    }

    /// Runs what was taken over, and takes over more when other processes die, until it is stopped.
    pub async fn recover(&self, mut recovery: Recovery, source: Arc<dyn RecoverySource>) {
        let wake = self.turns.attach_sweeper();
        let places = Arc::new(Semaphore::new(AT_ONCE));
        let mut reported = String::new();
        loop {
            self.run_orphans(&mut recovery, &source, &places);
            let _ = tokio::time::timeout(SWEEP, wake.notified()).await;
            let swept = async {
                self.turns.observe().await.map_err(store_failed)?;
                self.claim_more(&mut recovery).await
            };
            match swept.await {
                Ok(()) => reported.clear(),
                Err(error) => {
                    let problem = format!("runs of other processes cannot be looked at: {error}");
                    if problem != reported {
                        source.report(&problem);
                        reported = problem;
                    }
                }
            }
        }
    }

    /// Starts a task for each session whose agent is known. The others stay: their agent may be repaired.
    fn run_orphans(
        &self,
        recovery: &mut Recovery,
        source: &Arc<dyn RecoverySource>,
        places: &Arc<Semaphore>,
    ) {
        for ((app, user, session), orphans) in recovery.take() {
            let key = SessionKey::new(&app, &user, &session);
            let agent = match source.agent(&app) {
                Ok(agent) => agent,
                Err(problem) => {
                    if recovery.reported.get(&app) != Some(&problem) {
                        source.report(&format!("runs of the app {app} wait until it works: {problem}"));
                        recovery.reported.insert(app.clone(), problem);
                    }
                    recovery.sessions.insert((app, user, session), orphans);
                    continue;
                }
            };
            recovery.reported.remove(&app);
            let (runs, source, places) = (self.clone(), Arc::clone(source), Arc::clone(places));
            let damaged = Arc::clone(&recovery.damaged);
            let problem = move |error| {
                if let ServiceError::Damaged { .. } = error {
                    let name = (app.clone(), user.clone(), session.clone());
                    damaged.lock().unwrap_or_else(PoisonError::into_inner).insert(name);
                }
                source.report(&format!("a run of {key} cannot be continued: {error}"));
            };
            self.tasks.spawn(async move {
                let _place = places.acquire().await;
                // All at once, so that each of them can be read and cancelled; the queue gives them their order.
                let continued = orphans.into_iter().map(|orphan| runs.run_orphan(&agent, orphan));
                for result in join_all(continued).await {
                    result.unwrap_or_else(&problem);
                }
            });
        }
    }

    async fn run_orphan(&self, agent: &Agent, orphan: Orphan) -> Result<(), ServiceError> {
        let session::SessionKey { app, user, session } = &orphan.run.key;
        let key = &SessionKey::new(app, user, session);
        let Some(from) = self.end_of_orphan(key, &orphan.run.id).await? else { return Ok(()) };
        let request = resumption(key.clone());
        let live = Arc::new(LiveRun::new(request.cancel.clone(), from));
        let name = RunKey { session: key.clone(), id: orphan.run.id.clone() };
        self.registry.add(&name, &live);
        let owner = orphan.owner.name().to_owned();
        let result = agent.run_orphan(orphan, request, &|event| live.push(event)).await;
        let has_moved = self.has_moved(&name, &owner).await;
        live.finish(&result, has_moved);
        self.registry.put_away(name, &live);
        match result {
            Err(RunError::Service(error @ ServiceError::Damaged { .. })) => Err(error),
            // The run has the other errors itself.
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Where the stored events of a run end; `None` if the run is gone. A store that fails is asked again: the runs behind
    /// this one wait for it.
    async fn end_of_orphan(&self, key: &SessionKey, id: &str) -> Result<Option<Cursor>, ServiceError> {
        let mut backoff = Backoff::unlimited();
        loop {
            match self.try_end_of_orphan(key, id).await {
                Err(ServiceError::Store(_)) => _ = backoff.again().await,
                end => return end,
            }
        }
    }

    async fn try_end_of_orphan(&self, key: &SessionKey, id: &str) -> Result<Option<Cursor>, ServiceError> {
        failpoint::reach(Point::OrphanLookup).await.map_err(ServiceError::from)?;
        match self.stored(key).run(id).await? {
            Some(run) => Reader::end_of(self, key, &run).await.map(Some),
            None => Ok(None),
        }
    }

    /// Whether the log says how a run continues, and not its owner in this process: it is not over, or another owner ended it.
    /// If the store cannot say, readers ask it again.
    async fn has_moved(&self, RunKey { session, id }: &RunKey, owner: &str) -> bool {
        match self.stored(session).run(id).await {
            Ok(Some(run)) => run.owner != owner || !run.status.is_terminal(),
            Ok(None) => false,
            Err(_) => true,
        }
    }
}
