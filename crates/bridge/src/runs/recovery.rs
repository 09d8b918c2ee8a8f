//! Recovery: a server resumes the runs of gone owners. It takes over the runs of dead processes before it listens,
//! and continues to do so while it serves. Within a session, runs resume in order of acceptance and before newer
//! messages.

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
use lock::LockExt;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::sync::Semaphore;

/// How many sessions are recovered concurrently.
const AT_ONCE: usize = 64;
/// Interval between two passes of the recovery task, unless a waiting run wakes it.
const SWEEP: Duration = Duration::from_secs(2);

/// Provides the agents, and reports problems of recovery.
pub trait RecoverySource: Send + Sync {
    /// The agent of an app, or the reason why there is none.
    fn agent(&self, app: &str) -> Result<Agent, String>;

    fn report(&self, problem: &str);
}

/// Runs that were taken over and have not started.
#[derive(Default)]
pub struct Recovery {
    /// By session, in the order in which they run.
    sessions: BTreeMap<SessionKey, Vec<Orphan>>,
    /// The apps without an agent, with the problem that was reported.
    reported: BTreeMap<String, String>,
    /// Sessions with damaged rows. Their runs were tried once and stay claimed, so that they are not taken over
    /// again.
    damaged: Arc<Mutex<BTreeSet<SessionKey>>>,
    retained: Vec<Orphan>,
}

impl Recovery {
    fn add(&mut self, orphans: Vec<Orphan>) {
        for orphan in orphans {
            self.sessions.entry(orphan.run.key.clone()).or_default().push(orphan);
        }
    }

    /// Takes the runs of undamaged sessions.
    fn take_runnable(&mut self) -> BTreeMap<SessionKey, Vec<Orphan>> {
        let mut sessions = std::mem::take(&mut self.sessions);
        for name in &*self.damaged.locked() {
            self.retained.extend(sessions.remove(name).into_iter().flatten());
        }
        sessions
    }

    fn forget(&mut self, key: &SessionKey, id: &str) {
        if let Some(orphans) = self.sessions.get_mut(key) {
            orphans.retain(|orphan| orphan.run.id != id);
            if orphans.is_empty() {
                self.sessions.remove(key);
            }
        }
    }

    fn count_by_app(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for (key, orphans) in &self.sessions {
            *counts.entry(key.app_name.clone()).or_default() += orphans.len();
        }
        counts
    }

    /// Number of runs that wait to be resumed.
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
    /// Takes over the runs of all gone owners. Newer messages queue behind them.
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

    /// Resumes the runs that were taken over, and takes over more as other processes die. Runs until it is dropped.
    pub async fn recover(&self, mut recovery: Recovery, source: Arc<dyn RecoverySource>) {
        let wake = self.turns.attach_recovery_task();
        let slots = Arc::new(Semaphore::new(AT_ONCE));
        let mut reported = String::new();
        loop {
            self.run_orphans(&mut recovery, &source, &slots);
            self.forget_deleted(&mut recovery).await;
            *self.stalled.locked() = recovery.count_by_app();
            let _ = tokio::time::timeout(SWEEP, wake.notified()).await;
            let swept = async {
                self.turns.observe().await.map_err(store_failed)?;
                self.claim_more(&mut recovery).await
            };
            match swept.await {
                Ok(()) => reported.clear(),
                Err(error) => {
                    let problem = format!("cannot check the runs of other processes: {error}");
                    if problem != reported {
                        source.report(&problem);
                        reported = problem;
                    }
                }
            }
        }
    }

    /// The number of recovered runs per app that wait until their agent can be loaded, as of the last pass of the recovery task.
    pub fn stalled(&self) -> BTreeMap<String, usize> {
        self.stalled.locked().clone()
    }

    /// Spawns a task per session whose agent is available. The other sessions stay: their agent may be repaired.
    fn run_orphans(&self, recovery: &mut Recovery, source: &Arc<dyn RecoverySource>, slots: &Arc<Semaphore>) {
        for (key, orphans) in recovery.take_runnable() {
            let app = &key.app_name;
            let agent = match source.agent(app) {
                Ok(agent) => agent,
                Err(problem) => {
                    if recovery.reported.get(app) != Some(&problem) {
                        source.report(&format!(
                            "runs of the app {app} wait until its agent can be loaded: {problem}"
                        ));
                        recovery.reported.insert(app.clone(), problem);
                    }
                    recovery.sessions.insert(key, orphans);
                    continue;
                }
            };
            recovery.reported.remove(app);
            let (runs, source, slots) = (self.clone(), Arc::clone(source), Arc::clone(slots));
            let damaged = Arc::clone(&recovery.damaged);
            let problem = move |error| {
                if let ServiceError::Damaged { .. } = error {
                    damaged.locked().insert(key.clone());
                }
                source.report(&format!("a run of {key} cannot be resumed: {error}"));
            };
            self.tasks.spawn(async move {
                let _slot = slots.acquire().await;
                // Concurrently, so that each run can be read and cancelled; the queue gives them their order.
                let continued = orphans.into_iter().map(|orphan| runs.run_orphan(&agent, orphan));
                for result in join_all(continued).await {
                    result.unwrap_or_else(&problem);
                }
            });
        }
    }

    /// Removes the runs of deleted sessions, which wait for an agent.
    async fn forget_deleted(&self, recovery: &mut Recovery) {
        let waiting: Vec<(SessionKey, String)> = recovery
            .sessions
            .values()
            .flatten()
            .map(|orphan| (orphan.run.key.clone(), orphan.run.id.clone()))
            .collect();
        for (key, id) in waiting {
            if let Ok(None) | Err(ServiceError::NotFound(_)) = self.stored(&key).run(&id).await {
                recovery.forget(&key, &id);
            }
        }
    }

    async fn run_orphan(&self, agent: &Agent, orphan: Orphan) -> Result<(), ServiceError> {
        let key = &orphan.run.key;
        let Some(from) = self.stored_end_of_orphan(key, &orphan.run.id).await? else { return Ok(()) };
        let request = resumption(key.clone());
        let live = Arc::new(LiveRun::new(request.cancel.clone(), from));
        let name = RunKey { session: key.clone(), id: orphan.run.id.clone() };
        self.registry.add(&name, &live);
        let owner = orphan.owner.name().to_owned();
        let result = agent.run_orphan(orphan, request, &|event| live.push(event)).await;
        let has_moved = self.has_moved(&name, &owner).await;
        live.finish(&result, has_moved);
        self.registry.retire(name, &live);
        match result {
            Err(RunError::Service(error @ ServiceError::Damaged { .. })) => Err(error),
            // Other errors are stored with the run.
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// The cursor after the stored events of a run; `None` if the run does not exist. Store faults are retried
    /// without limit: the queued runs behind this one depend on it.
    async fn stored_end_of_orphan(&self, key: &SessionKey, id: &str) -> Result<Option<Cursor>, ServiceError> {
        let mut backoff = Backoff::unlimited();
        loop {
            match self.try_stored_end_of_orphan(key, id).await {
                Err(ServiceError::Store(_)) => _ = backoff.again().await,
                end => return end,
            }
        }
    }

    async fn try_stored_end_of_orphan(
        &self,
        key: &SessionKey,
        id: &str,
    ) -> Result<Option<Cursor>, ServiceError> {
        failpoint::reach(Point::OrphanLookup).await.map_err(ServiceError::from)?;
        match self.stored(key).run(id).await? {
            Some(run) => Reader::stored_end(self, key, &run).await.map(Some),
            None => Ok(None),
        }
    }

    /// Whether readers must follow the log: the run is not over, or another owner ended it. True if the store fails,
    /// so that readers ask it again.
    async fn has_moved(&self, RunKey { session, id }: &RunKey, owner: &str) -> bool {
        match self.stored(session).run(id).await {
            Ok(Some(run)) => run.owner != owner || !run.status.is_terminal(),
            Ok(None) => false,
            Err(_) => true,
        }
    }
}
