//! All sessions in memory, and what they share: the state of apps and users, files, and growing numbers.

use super::session::{Session, Values, set};
use crate::{
    Append, Appended, Artifact, ArtifactKey, Claim, Claimed, Enter, Entered, Error, Lease, ListQuery,
    NewArtifact, NewSession, NewTicket, OnConflict, Result, Scope, Seq, SessionKey, SessionRow, Snapshot,
    StateChange, StateEntry, TailBudget, Ticket, clock,
};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
};

#[derive(Debug, Default)]
pub(super) struct World {
    sessions: HashMap<SessionKey, Session>,
    apps: HashMap<String, Values>,
    users: HashMap<(String, String), Values>,
    files: BTreeMap<File, Vec<Artifact>>,
    /// Tickets and epochs have numbers that no other one ever had, even after their session was deleted.
    last_number: u64,
}

/// Whose file it is. A file without a session belongs to the user.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct File {
    app: String,
    user: String,
    session: Option<String>,
    name: String,
}

impl From<&ArtifactKey> for File {
    fn from(key: &ArtifactKey) -> Self {
        let SessionKey { app, user, session } = key.session.clone();
        let session = if key.is_shared() { None } else { Some(session) };
        Self { app, user, session, name: key.name.clone() }
    }
}

impl File {
    fn is_seen_by(&self, key: &SessionKey) -> bool {
        self.app == key.app
            && self.user == key.user
            && self.session.as_ref().is_none_or(|id| *id == key.session)
    }
}

impl World {
    pub(super) fn session(&self, key: &SessionKey) -> Result<&Session> {
        self.sessions.get(key).ok_or_else(|| Error::NotFound(key.clone()))
    }

    pub(super) fn session_mut(&mut self, key: &SessionKey) -> Result<&mut Session> {
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
        self.sessions.insert(new.key.clone(), Session::new(new.key.clone()));
        if !new.state.is_empty() {
            self.append(&new.key, Append { state: new.state, ..Append::default() })?;
        }
        for step in new.steps {
            self.append(&new.key, step)?;
        }
        Ok(self.session(&new.key)?.row.clone())
    }

    pub(super) fn append(&mut self, key: &SessionKey, step: Append) -> Result<Appended> {
        let session = self.session_mut(key)?;
        if let Some(seq) = session.place(&step) {
            return Ok(Appended { seq, repeated: true, entered: None });
        }
        session.admit(&step)?;
        let (state, enters) = (step.state.clone(), step.enters.clone());
        let seq = session.store(step);
        for change in state {
            self.change_state(key, seq, change)?;
        }
        let entered = enters.map(|enter| self.enter(key, enter)).transpose()?;
        Ok(Appended { seq, repeated: false, entered })
    }

    /// Takes a lease that is free.
    fn enter(&mut self, key: &SessionKey, enter: Enter) -> Result<Entered> {
        let epoch = self.next_number();
        let shared = if enter.follows.is_some() { self.shared(key) } else { Vec::new() };
        let session = self.session_mut(key)?;
        session.lease_epoch = epoch;
        session.lease_until = clock::now() + enter.ttl.as_secs_f64();
        session.lease_owner = Some(enter.owner);
        Ok(Entered { epoch, shared })
    }

    fn change_state(&mut self, key: &SessionKey, seq: Seq, change: StateChange) -> Result<()> {
        let StateChange { scope, key: name, value } = change;
        let entry = StateEntry { seq, scope, key: name.clone(), value: value.clone() };
        self.session_mut(key)?.changes.push(entry);
        let values = match scope {
            Scope::App => self.apps.entry(key.app.clone()).or_default(),
            Scope::User => self.users.entry((key.app.clone(), key.user.clone())).or_default(),
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
        Some(Snapshot { row: session.row.clone(), tail, truncated, state, facts: session.carried() })
    }

    /// The state that does not end with the session.
    fn shared(&self, key: &SessionKey) -> Vec<StateChange> {
        let user = self.users.get(&(key.app.clone(), key.user.clone()));
        changes(Scope::App, self.apps.get(&key.app)).chain(changes(Scope::User, user)).collect()
    }

    pub(super) fn list(&self, query: &ListQuery) -> Vec<SessionRow> {
        let place = |row: &SessionRow| (row.updated_at.to_bits(), row.key.clone());
        let mut rows: Vec<&SessionRow> = self
            .sessions
            .values()
            .map(|session| &session.row)
            .filter(|row| query.app.as_ref().is_none_or(|app| *app == row.key.app))
            .filter(|row| query.user.as_ref().is_none_or(|user| *user == row.key.user))
            .filter(|row| query.after.as_ref().is_none_or(|after| place(row) < place(after)))
            .collect();
        rows.sort_by_cached_key(|row| Reverse(place(row)));
        rows.into_iter().take(query.limit).cloned().collect()
    }

    pub(super) fn delete(&mut self, key: &SessionKey) -> bool {
        if self.sessions.remove(key).is_none() {
            return false;
        }
        self.files.retain(|file, _| file.session.is_none() || !file.is_seen_by(key));
        true
    }

    pub(super) fn claim(&mut self, key: &SessionKey, claim: Claim) -> Result<Claimed> {
        let fresh = self.next_number();
        let session = self.session_mut(key)?;
        let now = clock::now();
        match &session.lease_owner {
            Some(owner) if *owner == claim.owner => {}
            Some(owner) if session.lease_until > now && claim.displaces != Some(session.lease_epoch) => {
                return Ok(Claimed::Held { owner: owner.clone(), epoch: session.lease_epoch });
            }
            Some(_) | None => session.lease_epoch = fresh,
        }
        session.lease_owner = Some(claim.owner.clone());
        session.lease_until = now + claim.ttl.as_secs_f64();
        let lease = Lease { key: key.clone(), owner: claim.owner, epoch: session.lease_epoch };
        Ok(Claimed::Granted { lease, waiting: session.inbox.len() })
    }

    pub(super) fn left(&self) -> Vec<SessionKey> {
        let is_left = |session: &&Session| session.lease_owner.is_some() || !session.inbox.is_empty();
        self.sessions.values().filter(is_left).map(|session| session.row.key.clone()).collect()
    }

    pub(super) fn push(&mut self, key: &SessionKey, new: NewTicket) -> Result<Ticket> {
        let number = self.next_number();
        let inbox = &mut self.session_mut(key)?.inbox;
        if let Some(ticket) = inbox.iter().find(|ticket| ticket.id == new.id) {
            return Ok(ticket.clone());
        }
        let ticket = Ticket { number, id: new.id, owner: new.owner, payload: new.payload };
        inbox.push(ticket.clone());
        Ok(ticket)
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

fn changes(scope: Scope, values: Option<&Values>) -> impl Iterator<Item = StateChange> {
    let pairs = values.cloned().unwrap_or_default();
    pairs.into_iter().map(move |(key, value)| StateChange { scope, key, value })
}
