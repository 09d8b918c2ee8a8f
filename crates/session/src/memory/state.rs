//! All sessions in memory, and the data that they share: app and user state, artifacts, counters.

use super::{
    idempotency_keys::IdempotencyKeys,
    session::{MemorySession, ScopeValues, set},
};
use crate::{
    Artifact, ArtifactKey, Commit, Committed, Error, GoneOwner, Heartbeat, IdempotencyKey, ListQuery,
    NewArtifact, NewRun, NewSession, OnConflict, OwnerClaim, OwnerStatus, Result, RunRecord, Scope, Seq,
    SessionKey, SessionRow, Snapshot, StartedTurn, StateChange, StateEntry, TailBudget, TakeOver, TakenOver,
    TurnChange, clock,
    run::{AcceptedAs, KnownRequest},
};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, HashMap},
    hash::Hash,
};

#[derive(Debug, Default)]
pub(super) struct MemoryState {
    sessions: HashMap<SessionKey, MemorySession>,
    apps: HashMap<String, ScopeValues>,
    users: HashMap<(String, String), ScopeValues>,
    files: BTreeMap<ArtifactId, Vec<Artifact>>,
    /// The counter of tickets and epochs. No number is used twice, even after a session was deleted.
    last_number: u64,
    idempotency_keys: IdempotencyKeys,
    /// By process: the number of heartbeats, and of runs that were taken over.
    processes: HashMap<String, (u64, u64)>,
}

/// The key of a stored artifact. One without a session belongs to the user.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ArtifactId {
    app: String,
    user: String,
    session: Option<String>,
    name: String,
}

impl From<&ArtifactKey> for ArtifactId {
    fn from(key: &ArtifactKey) -> Self {
        let SessionKey { app_name: app, user_id: user, session_id: session } = key.session.clone();
        let session = if key.is_shared() { None } else { Some(session) };
        Self { app, user, session, name: key.name.clone() }
    }
}

impl ArtifactId {
    fn is_seen_by(&self, key: &SessionKey) -> bool {
        self.app == key.app_name
            && self.user == key.user_id
            && self.session.as_ref().is_none_or(|id| *id == key.session_id)
    }
}

impl MemoryState {
    pub(super) fn session(&self, key: &SessionKey) -> Result<&MemorySession> {
        self.sessions.get(key).ok_or_else(|| Error::NotFound(key.clone()))
    }

    pub(super) fn session_mut(&mut self, key: &SessionKey) -> Result<&mut MemorySession> {
        self.sessions.get_mut(key).ok_or_else(|| Error::NotFound(key.clone()))
    }

    fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    pub(super) fn create(&mut self, new: NewSession) -> Result<SessionRow> {
        if let Some(session) = self.sessions.get(&new.key) {
            return match new.on_conflict {
                OnConflict::Fail => Err(Error::Exists(new.key)),
                OnConflict::Keep => Ok(session.row.clone()),
            };
        }
        let of_user = || self.sessions.keys().filter(|key| key.user_id == new.key.user_id).count() as u64;
        if let Some(quota) = new.quota.filter(|quota| of_user() >= *quota) {
            return Err(Error::QuotaReached { user: new.key.user_id, quota });
        }
        let epoch = self.next_number() << 32;
        let (app, user) = (new.key.app_name.clone(), (new.key.app_name.clone(), new.key.user_id.clone()));
        let shared = (self.apps.get(&app).cloned(), self.users.get(&user).cloned());
        self.sessions.insert(new.key.clone(), MemorySession::new(new.key.clone(), epoch));
        let filled = self.fill(&new.key, new.state, new.steps);
        if filled.is_err() {
            // Undo: a session is created with all of its steps or not at all.
            self.sessions.remove(&new.key);
            self.idempotency_keys.forget(&new.key);
            restore(&mut self.apps, app, shared.0);
            restore(&mut self.users, user, shared.1);
        }
        filled
    }

    fn fill(&mut self, key: &SessionKey, state: Vec<StateChange>, steps: Vec<Commit>) -> Result<SessionRow> {
        if !state.is_empty() {
            self.commit(key, Commit { state, ..Commit::default() })?;
        }
        for step in steps {
            self.commit(key, step)?;
        }
        Ok(self.session(key)?.row.clone())
    }

    pub(super) fn commit(&mut self, key: &SessionKey, commit: Commit) -> Result<Committed> {
        let session = self.session(key)?;
        if let Some(seq) = session.repeated_seq(&commit) {
            return Ok(Committed { seq, repeated: true, started: None, epoch: session.lease_epoch });
        }
        let start = match &commit.turn {
            TurnChange::Start(start) => Some(start.clone()),
            TurnChange::None
            | TurnChange::Step(_)
            | TurnChange::Finish { .. }
            | TurnChange::Cancel { .. } => None,
        };
        if let Some(start) = &start {
            self.check_idempotency_key(key, &start.run, AcceptedAs::Start)?;
        }
        let admitted = session.admit(&commit)?;
        let state = commit.state.clone();
        let session = self.session_mut(key)?;
        let (seq, lease) = session.store(commit, admitted);
        let epoch = session.lease_epoch;
        for change in state {
            self.change_state(key, seq, change)?;
        }
        let mut started = None;
        if let (Some(start), Some(lease)) = (start, lease) {
            self.idempotency_keys.insert(key, &start.run);
            let shared = if start.if_epoch.is_some() { self.shared(key) } else { Vec::new() };
            started = Some(StartedTurn { lease, shared });
        }
        Ok(Committed { seq, repeated: false, started, epoch })
    }

    fn check_idempotency_key(&self, key: &SessionKey, run: &NewRun, acceptance: AcceptedAs) -> Result<()> {
        let known = run.idempotency_key.as_ref().and_then(|request| self.known_request(key, request));
        known.map_or(Ok(()), |known| known.admit(key, run, acceptance))
    }

    fn known_request(&self, key: &SessionKey, request: &IdempotencyKey) -> Option<KnownRequest> {
        let (fingerprint, session, id) = self.idempotency_keys.find(key, request)?;
        let known = self.session(session).ok()?.run(id)?;
        let fingerprint = Some(fingerprint.clone());
        Some(KnownRequest { fingerprint, key: known.key, id: known.id, status: known.status })
    }

    /// The run of a request.
    pub(super) fn run_of_request(
        &self,
        key: &SessionKey,
        request: &IdempotencyKey,
    ) -> Result<Option<RunRecord>> {
        let Some(known) = self.known_request(key, request) else { return Ok(None) };
        known.check(key, request)?;
        Ok(self.session(key)?.run(&known.id))
    }

    fn change_state(&mut self, key: &SessionKey, seq: Seq, change: StateChange) -> Result<()> {
        let StateChange { scope, key: name, value } = change;
        let entry = StateEntry { seq, scope, key: name.clone(), value: value.clone() };
        self.session_mut(key)?.changes.push(entry);
        let values = match scope {
            Scope::App => self.apps.entry(key.app_name.clone()).or_default(),
            Scope::User => self.users.entry((key.app_name.clone(), key.user_id.clone())).or_default(),
            Scope::Session => &mut self.session_mut(key)?.state,
        };
        set(values, name, value);
        Ok(())
    }

    pub(super) fn load(&self, key: &SessionKey, budget: TailBudget) -> Option<Snapshot> {
        let session = self.sessions.get(key)?;
        let (tail, truncated) = session.tail(budget);
        let mut state = self.shared(key);
        state.extend(changes(Scope::Session, Some(&session.state)));
        let (row, pending, draft) = (session.row.clone(), session.carried(), session.draft.clone());
        Some(Snapshot { row, tail, truncated, state, pending, draft })
    }

    /// The app and user state.
    fn shared(&self, key: &SessionKey) -> Vec<StateChange> {
        let user = self.users.get(&(key.app_name.clone(), key.user_id.clone()));
        changes(Scope::App, self.apps.get(&key.app_name)).chain(changes(Scope::User, user)).collect()
    }

    pub(super) fn list(&self, query: &ListQuery) -> Vec<SessionRow> {
        let position = |row: &SessionRow| (row.updated_at.to_bits(), row.key.clone());
        let mut rows: Vec<&SessionRow> = self
            .sessions
            .values()
            .map(|session| &session.row)
            .filter(|row| query.app.as_ref().is_none_or(|app| *app == row.key.app_name))
            .filter(|row| query.user.as_ref().is_none_or(|user| *user == row.key.user_id))
            .filter(|row| query.session.as_ref().is_none_or(|session| *session == row.key.session_id))
            .filter(|row| query.after.as_ref().is_none_or(|after| position(row) < position(after)))
            .collect();
        rows.sort_by_cached_key(|row| Reverse(position(row)));
        rows.into_iter().take(query.limit).cloned().collect()
    }

    pub(super) fn delete(&mut self, key: &SessionKey) -> bool {
        if self.sessions.remove(key).is_none() {
            return false;
        }
        self.idempotency_keys.forget(key);
        self.files.retain(|file, _| file.session.is_none() || !file.is_seen_by(key));
        true
    }

    pub(super) fn enqueue(&mut self, key: &SessionKey, new: &NewRun, payload: String) -> Result<RunRecord> {
        self.session(key)?;
        self.check_idempotency_key(key, new, AcceptedAs::Enqueue)?;
        let ticket = self.next_number();
        let session = self.session_mut(key)?;
        session.enqueue(new, ticket, payload)?;
        let run = session.run(&new.id).ok_or_else(|| Error::NotFound(key.clone()))?;
        self.idempotency_keys.insert(key, new);
        Ok(run)
    }

    pub(super) fn heartbeat(&mut self, process: &str) -> Heartbeat {
        let (beats, displaced) = self.processes.entry(process.to_owned()).or_default();
        *beats += 1;
        Heartbeat { displaced: *displaced, cancelled: Vec::new() }
    }

    fn beats(&self, owner: &str) -> u64 {
        self.processes.get(OwnerClaim::process_of(owner)).map_or(0, |(beats, _)| *beats)
    }

    pub(super) fn owners(&self) -> Vec<OwnerStatus> {
        let runs = self.sessions.values().flat_map(MemorySession::open_runs);
        let names: BTreeSet<String> = runs.map(|run| run.run.owner.clone()).collect();
        names
            .into_iter()
            .map(|name| OwnerStatus { beats: self.beats(&name), name, is_expired: None })
            .collect()
    }

    /// The keys in the order of creation: epochs start with the number of their session.
    fn oldest_first(&self) -> Vec<SessionKey> {
        let mut sessions: Vec<&MemorySession> = self.sessions.values().collect();
        sessions.sort_by_key(|session| session.lease_epoch);
        sessions.into_iter().map(|session| session.row.key.clone()).collect()
    }

    pub(super) fn take_over(&mut self, change: &TakeOver) -> Result<Vec<TakenOver>> {
        let is_gone = |owner: &str| {
            let gone = |gone: &GoneOwner| {
                gone.name == owner && gone.if_beats.is_none_or(|seen| seen == self.beats(owner))
            };
            change.gone.iter().any(gone)
        };
        let keys = match &change.session {
            Some(key) => vec![self.session(key)?.row.key.clone()],
            None => self.oldest_first(),
        };
        let mut open = Vec::new();
        for key in keys {
            let runs = self.session(&key)?.open_runs().into_iter();
            let runs = runs.filter(|run| is_gone(&run.run.owner));
            open.extend(runs.map(|run| (key.clone(), run.run.id.clone(), run.run.owner.clone())));
        }
        let mut taken = Vec::new();
        for (key, id, from) in open {
            let process = OwnerClaim::process_of(&from).to_owned();
            if let Some(run) = self.session_mut(&key)?.take_over(&id, from, &change.owner) {
                self.processes.entry(process).or_default().1 += 1;
                taken.push(run);
            }
        }
        Ok(taken)
    }

    pub(super) fn save(&mut self, key: &ArtifactKey, new: NewArtifact) -> u64 {
        let versions = self.files.entry(key.into()).or_default();
        let version = versions.len() as u64;
        let NewArtifact { part, mime_type, custom_metadata } = new;
        versions.push(Artifact { version, part, mime_type, custom_metadata, created_at: clock::now() });
        version
    }

    pub(super) fn artifact(&self, key: &ArtifactKey, version: Option<u64>) -> Option<Artifact> {
        let versions = self.files.get(&key.into())?;
        match version {
            Some(version) => versions.iter().find(|artifact| artifact.version == version).cloned(),
            None => versions.last().cloned(),
        }
    }

    pub(super) fn names(&self, session: &SessionKey) -> Vec<String> {
        let mut names: Vec<String> =
            self.files.keys().filter(|file| file.is_seen_by(session)).map(|file| file.name.clone()).collect();
        names.sort();
        names
    }

    pub(super) fn versions(&self, key: &ArtifactKey) -> Vec<u64> {
        self.files.get(&key.into()).into_iter().flatten().map(|artifact| artifact.version).collect()
    }

    pub(super) fn remove(&mut self, key: &ArtifactKey) -> bool {
        self.files.remove(&key.into()).is_some()
    }
}

/// Restores the earlier value of a key, or removes it if there was none.
fn restore<K: Eq + Hash>(map: &mut HashMap<K, ScopeValues>, key: K, values: Option<ScopeValues>) {
    match values {
        Some(values) => map.insert(key, values),
        None => map.remove(&key),
    };
}

fn changes(scope: Scope, values: Option<&ScopeValues>) -> impl Iterator<Item = StateChange> {
    let pairs = values.cloned().unwrap_or_default();
    pairs.into_iter().map(move |(key, value)| StateChange { scope, key, value })
}
