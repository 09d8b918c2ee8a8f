//! SessionServiceAdapter: ADK's session service on top of the durable store.

use crate::{
    budget::Budget,
    facts,
    queue::Passage,
    recent::Recent,
    row::{Kind, Restorer, save},
    session::SessionAdapter,
    state, task,
};
use adk::{
    content::Content,
    error::ServiceError,
    event::Event,
    facts::Facts,
    flow::step::{Step, next_step},
    limits::end_of,
    runner::Input,
    session::{Entry, SessionKey, SessionService},
    state::without_temp,
};
use serde_json::{Map, Value};
use session::{
    Append, Appended, Enter, NewRun, NewSession, OnConflict, RunStatus, RunUpdate, Snapshot, Store,
    TailBudget,
};
use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// What the steps of one turn carry beside their events.
#[derive(Clone, Debug, Default)]
pub(crate) struct TurnMark {
    /// The epoch of the turn's lease: another owner with a greater one ends our appends.
    pub(crate) epoch: Option<u64>,
    /// A turn that nobody was before takes its lease with its first event.
    pub(crate) enters: Option<Enter>,
    /// Those who came later wait at the session's door until the first event is stored.
    pub(crate) passage: Option<Passage>,
    /// The run's own row, until it is stored: with the first event too.
    pub(crate) starts: Option<NewRun>,
    /// The run, until its last event is stored. That event gives the lease back too.
    pub(crate) run: Option<String>,
    /// The inbox ticket, until the message that it stands for is stored.
    pub(crate) takes: Option<u64>,
    /// Whether that message is the user's. What is settled before it leaves the ticket alone.
    pub(crate) from_user: bool,
}

impl TurnMark {
    fn is_of_a_turn(&self) -> bool {
        self.enters.is_some() || self.epoch.is_some()
    }

    /// What a step carried is not carried again; a step that was there already brought its event alone.
    fn stored(&mut self, carried: Carried, appended: &Appended) {
        self.takes = self.takes.filter(|_| !carried.takes);
        if appended.repeated {
            return;
        }
        self.run = self.run.take().filter(|_| !carried.ends);
        (self.enters, self.starts) = (None, None);
        if let Some(passage) = self.passage.take() {
            passage.clear();
        }
        self.epoch = appended.entered.as_ref().map(|entered| entered.epoch).or(self.epoch);
    }
}

/// What a step carries beside its event.
#[derive(Clone, Copy)]
struct Carried {
    takes: bool,
    ends: bool,
    releases: bool,
}

impl Carried {
    fn by(step: &Append) -> Self {
        Self { takes: step.takes.is_some(), ends: step.run.is_some(), releases: step.release }
    }
}

#[derive(Clone)]
pub struct SessionServiceAdapter {
    store: Arc<dyn Store>,
    root_agent: String,
    budget: Budget,
    mark: Arc<Mutex<TurnMark>>,
    recent: Arc<Recent>,
}

impl SessionServiceAdapter {
    pub fn new(store: Arc<dyn Store>, root_agent: impl Into<String>, budget: Budget) -> Self {
        Self { store, root_agent: root_agent.into(), budget, mark: Arc::default(), recent: Arc::default() }
    }

    /// The same service for one turn.
    pub(crate) fn for_turn(&self, mark: Arc<Mutex<TurnMark>>, input: &Input) -> Self {
        let service = Self { mark, ..self.clone() };
        service.mark().from_user = matches!(input, Input::Message(_));
        service
    }

    /// Whether an event of this turn has told how its run ended, and has given the lease back.
    pub(crate) fn has_ended(&self) -> bool {
        self.mark().run.is_none()
    }

    fn mark(&self) -> MutexGuard<'_, TurnMark> {
        self.mark.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    pub fn budget(&self) -> Budget {
        self.budget
    }

    /// The session, made now if there is none. Any number of callers may race for the first message.
    pub async fn get_or_create(&self, key: &SessionKey) -> Result<SessionAdapter, ServiceError> {
        if let Some(session) = self.get(key).await? {
            return Ok(session);
        }
        self.make(key.clone(), Map::new(), OnConflict::Keep).await
    }

    async fn make(
        &self,
        key: SessionKey,
        state: Map<String, Value>,
        on_conflict: OnConflict,
    ) -> Result<SessionAdapter, ServiceError> {
        let (stored, state) = (store_key(&key), state::changes(&state));
        let new = NewSession { key: stored, state, steps: Vec::new(), on_conflict };
        self.store.create(new).await.map_err(|error| service_error(error, &key))?;
        self.get(&key).await?.ok_or(ServiceError::NotFound(key))
    }

    /// Whether the session is in memory, so that its next turn need not read it.
    pub fn remembers(&self, key: &SessionKey) -> bool {
        self.recent.holds(key)
    }

    /// For whoever knows that it is not what it was.
    pub fn forget(&self, key: &SessionKey) {
        self.recent.forget(key);
    }

    /// The session as it is in memory, or with the events that are, if nothing has happened to it since. A turn that stores
    /// its first event with its claim learns that from the store's answer; all others ask before.
    async fn remembered(&self, key: &SessionKey) -> Result<Option<SessionAdapter>, ServiceError> {
        let in_turn = self.mark().is_of_a_turn();
        let kept =
            if in_turn { self.recent.take(key, self.budget) } else { self.recent.of(key, self.budget) };
        let Some(kept) = kept else { return Ok(None) };
        if let Some(enters) = &mut self.mark().enters {
            enters.follows = Some(kept.epoch);
            return Ok(Some(kept.session));
        }
        let loaded = self.store.load(&store_key(key), TailBudget::NONE).await;
        let snapshot = loaded.map_err(|error| service_error(error, key))?;
        let Some(snapshot) = snapshot.filter(|snapshot| kept.is_still(&snapshot.row)) else {
            self.recent.forget(key);
            return Ok(None);
        };
        Ok(Some(SessionAdapter::with_events(key.clone(), snapshot, kept.session.events)))
    }

    /// Reads on until the newest exchange is whole: an answer larger than the budget comes with its call.
    async fn load(&self, key: &SessionKey) -> Result<Option<Snapshot>, ServiceError> {
        let mut tail = self.budget.tail();
        loop {
            let loaded =
                self.store.load(&store_key(key), tail).await.map_err(|error| service_error(error, key))?;
            let Some(snapshot) = loaded else { return Ok(None) };
            let only_answers = snapshot.tail.iter().all(|row| Kind::of(&row.message) == Kind::Tool);
            if !(snapshot.truncated && only_answers) {
                return Ok(Some(snapshot));
            }
            tail = TailBudget { tokens: u64::MAX, rows: snapshot.tail.len() * 2 + 8 };
        }
    }

    /// The same as [`SessionService::end_of`], for a run that has outgrown the window.
    async fn read_end_of(
        &self,
        key: &SessionKey,
        invocation: &str,
        known: usize,
    ) -> Result<Vec<Arc<Event>>, ServiceError> {
        let mut rows = known;
        loop {
            rows = rows * 2 + 64;
            let loaded = self.store.load(&store_key(key), TailBudget { tokens: u64::MAX, rows }).await;
            let snapshot = loaded.map_err(|error| service_error(error, key))?;
            let snapshot = snapshot.ok_or_else(|| ServiceError::NotFound(key.clone()))?;
            let mut restorer = Restorer::new(&self.root_agent);
            let events: Vec<Arc<Event>> =
                snapshot.tail.iter().map(|row| Arc::new(restorer.restore(row))).collect();
            let own = end_of(&events, invocation);
            if own.len() < events.len() || !snapshot.truncated {
                return Ok(own.to_vec());
            }
        }
    }

    /// What to store for an event, and the facts after it.
    fn step(
        &self,
        session: &SessionAdapter,
        Entry { event, goes_on }: &Entry,
        kept: bool,
    ) -> Result<(Append, Facts), ServiceError> {
        let invalid = |error: serde_json::Error| ServiceError::Invalid {
            key: session.key.clone(),
            message: error.to_string(),
        };
        let changes = session.facts.changes(event);
        let mut facts = session.facts.clone();
        for change in &changes {
            facts.apply(change);
        }
        let TurnMark { epoch, enters, starts, run, takes, from_user, .. } = self.mark().clone();
        // While a person is being asked, the answers of the step are still to come.
        let ends = !goes_on
            && !event.is_from_user()
            && facts.open_calls.is_empty()
            && next_step(Some(event), &facts) == Step::Done;
        let step = Append {
            message: if kept { Some(save(event).map_err(invalid)?) } else { None },
            state: state::changes(&event.actions.state_delta),
            facts: facts::to_rows(&changes, session.last_seq).map_err(invalid)?,
            // What was read before the turn was ours must still be all there is.
            expected_seq: enters.as_ref().map(|_| session.last_seq),
            enters,
            starts,
            run: run.filter(|_| ends).map(|id| ended(id, event, &facts)),
            takes: takes.filter(|_| event.is_from_user() || !from_user),
            epoch,
            release: ends,
            title: (!session.has_title).then(|| title(event)).flatten(),
        };
        Ok((step, facts))
    }
}

/// The status that the last event of a run leaves.
fn ended(id: String, event: &Event, facts: &Facts) -> RunUpdate {
    let status = match (&event.error_code, facts.questions.is_empty()) {
        (Some(_), _) => RunStatus::Failed,
        (None, false) => RunStatus::Waiting,
        (None, true) => RunStatus::Done,
    };
    RunUpdate { id, status, error: event.error_message.clone() }
}

/// The first words of the user name the session.
fn title(event: &Event) -> Option<String> {
    let said = event.content.as_ref().filter(|_| event.is_from_user()).map(Content::said)?;
    let line = said.lines().map(str::trim).find(|line| !line.is_empty())?;
    Some(line.chars().take(80).collect())
}

impl SessionService for SessionServiceAdapter {
    type Session = SessionAdapter;

    async fn create(
        &self,
        key: SessionKey,
        state: Map<String, Value>,
    ) -> Result<SessionAdapter, ServiceError> {
        self.make(key, state, OnConflict::Fail).await
    }

    async fn get(&self, key: &SessionKey) -> Result<Option<SessionAdapter>, ServiceError> {
        if let Some(session) = self.remembered(key).await? {
            return Ok(Some(session));
        }
        let Some(snapshot) = self.load(key).await? else { return Ok(None) };
        let cut = snapshot.tail.first().filter(|_| snapshot.truncated).map(|first| first.seq);
        let mut session = SessionAdapter::new(key.clone(), snapshot, &self.root_agent, self.budget);
        if let Some(cut) = cut.filter(|_| session.events.lacks_task()) {
            session.events.bring(task::before(cut, &*self.store, key, &self.root_agent).await?);
        }
        Ok(Some(session))
    }

    async fn append(
        &self,
        session: &mut SessionAdapter,
        entry: impl Into<Entry> + Send,
    ) -> Result<Arc<Event>, ServiceError> {
        let mut entry = entry.into();
        if entry.event.is_partial() {
            return Ok(Arc::new(entry.event));
        }
        let kept = !entry.event.is_state_only();
        let delta = state::news(&entry.event.actions.state_delta, &session.state);
        entry.event.actions.state_delta = without_temp(&delta);
        let (step, facts) = self.step(session, &entry, kept)?;
        let event = entry.event;
        let (carried, titled) = (Carried::by(&step), step.title.is_some());
        // The session was in memory, and this step finds out whether it still is what it was.
        let follows = step.enters.as_ref().is_some_and(|enter| enter.follows.is_some());
        let (id, timestamp) = (event.id.clone(), event.timestamp);
        let upcoming = session.events.about_to_store(event, step.message.as_ref(), session.last_seq);
        let appended = self.store.append(&store_key(&session.key), step).await;
        let appended = appended.map_err(|error| match service_error(error, &session.key) {
            // What was in memory is out of date: whoever reads the session knows what it is now.
            ServiceError::NotFound(key) if follows => ServiceError::Stale(key),
            other => other,
        })?;
        self.mark().stored(carried, &appended);
        if appended.repeated && session.events.holds(&id) {
            return Ok(upcoming.into_event());
        }
        session.state.share(appended.entered.map(|entered| entered.shared).unwrap_or_default());
        session.state.apply(&delta);
        session.facts = facts;
        session.last_seq = session.last_seq.max(appended.seq);
        session.last_update_time = timestamp;
        session.has_title |= titled;
        let event = session.events.show(upcoming);
        let epoch = self.mark().epoch.filter(|_| carried.releases);
        if let Some(kept) = epoch.and_then(|epoch| session.to_keep(epoch)) {
            self.recent.keep(kept);
        }
        Ok(event)
    }

    async fn recall(&self, session: &mut SessionAdapter, id: &str) -> Result<bool, ServiceError> {
        let row = self.store.fact(&store_key(&session.key), facts::call_kind(), id);
        let row = row.await.map_err(|error| service_error(error, &session.key))?;
        let call = row.as_ref().and_then(facts::deferred);
        let found = call.is_some();
        session.facts.deferred.extend(call);
        Ok(found)
    }

    async fn end_of(
        &self,
        session: &SessionAdapter,
        invocation: &str,
    ) -> Result<Vec<Arc<Event>>, ServiceError> {
        let known = session.events.all();
        let own = end_of(known, invocation);
        let begins = |event: &Arc<Event>| event.is_from_user() && event.responses().next().is_none();
        if own.len() < known.len() || own.first().is_some_and(begins) {
            return Ok(own.to_vec());
        }
        self.read_end_of(&session.key, invocation, known.len()).await
    }

    async fn delete(&self, key: &SessionKey) -> Result<(), ServiceError> {
        self.store.delete(&store_key(key)).await.map_err(|error| service_error(error, key))?;
        Ok(())
    }
}

pub(crate) fn store_key(key: &SessionKey) -> session::SessionKey {
    session::SessionKey::new(&key.app_name, &key.user_id, &key.session_id)
}

pub(crate) fn service_error(error: session::Error, key: &SessionKey) -> ServiceError {
    match error {
        session::Error::NotFound(_) => ServiceError::NotFound(key.clone()),
        session::Error::Exists(_) => ServiceError::Exists(key.clone()),
        session::Error::Conflict { .. }
        | session::Error::Fenced(_)
        | session::Error::Busy(_)
        | session::Error::TicketGone { .. }
        | session::Error::RunBegun { .. } => ServiceError::Stale(key.clone()),
        other => ServiceError::Store(Box::new(other)),
    }
}

impl fmt::Debug for SessionServiceAdapter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionServiceAdapter")
            .field("root_agent", &self.root_agent)
            .field("budget", &self.budget)
            .finish_non_exhaustive()
    }
}
