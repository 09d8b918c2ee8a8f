//! Owners in the database: heartbeats, and taking over the runs of dead owners.

use super::{
    fault::{JobResult, is_damage},
    runs, sessions,
};
use crate::{
    GoneOwner, Heartbeat, Lease, OwnerClaim, OwnerStatus, RunStatus, SessionKey, TakeOver, TakenOver,
    TakenOverState,
    lifecycle::{self, RunState, Transition, TurnState},
};
use rusqlite::{Connection, OptionalExtension, Row};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

pub(super) const OWNERS: &str = "SELECT DISTINCT owner FROM runs WHERE status IN ('queued', 'running')";

/// Stores a heartbeat. Also returns whether it is the first one of the process.
pub(super) fn heartbeat(conn: &Connection, process: &str) -> JobResult<(Heartbeat, bool)> {
    let (beats, displaced) = conn
        .prepare_cached(
            "INSERT INTO owners (process, beats, displaced) VALUES (?1, 1, 0)
             ON CONFLICT (process) DO UPDATE SET beats = beats + 1 RETURNING beats, displaced",
        )?
        .query_row((process,), |row| Ok((row.get::<_, u64>(0)?, row.get(1)?)))?;
    Ok((Heartbeat { displaced, cancelled: Vec::new() }, beats == 1))
}

fn beats(conn: &Connection, process: &str) -> rusqlite::Result<u64> {
    let beats = conn
        .prepare_cached("SELECT beats FROM owners WHERE process = ?1")?
        .query_row((process,), |row| row.get(0))
        .optional()?;
    Ok(beats.unwrap_or(0))
}

pub(super) fn owners(conn: &Connection) -> JobResult<Vec<OwnerStatus>> {
    let names = match owner_names(conn) {
        Err(error) if is_damage(&error) => {
            let sound = sound_sessions(conn)?;
            open_runs_in(conn, &sound)?.into_iter().map(|run| run.state.owner).collect()
        }
        names => names?,
    };
    // Owners of one process share its heartbeat.
    let mut known: HashMap<String, u64> = HashMap::new();
    let mut owners = Vec::with_capacity(names.len());
    for name in names {
        let process = OwnerClaim::process_of(&name);
        let beats = match known.get(process) {
            Some(beats) => *beats,
            None => *known.entry(process.to_owned()).or_insert(beats(conn, process)?),
        };
        owners.push(OwnerStatus { name, beats, is_expired: None });
    }
    Ok(owners)
}

fn owner_names(conn: &Connection) -> rusqlite::Result<BTreeSet<String>> {
    let mut statement = conn.prepare_cached(OWNERS)?;
    statement.query_map([], |row| row.get(0))?.collect()
}

/// All processes with a row, and those that own runs.
pub(super) fn processes(conn: &Connection) -> JobResult<(BTreeSet<String>, BTreeSet<String>)> {
    let mut statement = conn.prepare_cached("SELECT process FROM owners")?;
    let all = statement.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    let owning = owners(conn)?.iter().map(|owner| OwnerClaim::process_of(&owner.name).to_owned()).collect();
    Ok((all, owning))
}

/// Deletes the rows of ended processes.
pub(super) fn delete_processes(conn: &Connection, processes: &BTreeSet<String>) -> JobResult<()> {
    for process in processes {
        conn.prepare_cached("DELETE FROM owners WHERE process = ?1")?.execute((process,))?;
    }
    Ok(())
}

/// An open run with the data of its session that a transition needs.
struct OpenRun {
    lease: Lease,
    session_key: i64,
    id: String,
    state: RunState<String>,
    /// Only of a running run.
    options: Option<String>,
}

fn open_run(row: &Row<'_>) -> rusqlite::Result<OpenRun> {
    let key = SessionKey { app_name: row.get(0)?, user_id: row.get(1)?, session_id: row.get(2)? };
    let ticket: u64 = row.get(8)?;
    let status = if ticket == 0 { RunStatus::Running } else { RunStatus::Queued };
    Ok(OpenRun {
        lease: Lease { key, run: row.get(5)?, epoch: row.get(4)? },
        session_key: row.get(3)?,
        id: row.get(6)?,
        state: RunState { status, owner: row.get(7)?, ticket: Some(ticket).filter(|ticket| *ticket > 0) },
        options: row.get(9)?,
    })
}

/// Ordered by session; in each the running run first, then the queue in order.
pub(super) const OPEN_RUNS: &str =
    "SELECT app_name, user_id, session_id, session_key, lease_epoch, position, run_id, owner, ticket,
         IIF(ticket = 0, payload, NULL)
     FROM runs JOIN sessions USING (session_key)
     WHERE status IN ('queued', 'running') ORDER BY session_key, ticket";

/// The running run first, then the queue in order.
pub(super) const OPEN_RUNS_OF_SESSION: &str =
    "SELECT app_name, user_id, session_id, session_key, lease_epoch, position, run_id, owner, ticket,
         IIF(ticket = 0, payload, NULL)
     FROM runs JOIN sessions USING (session_key)
     WHERE session_key = ?1 AND status IN ('queued', 'running') ORDER BY ticket";

fn open_runs(conn: &Connection, session: Option<i64>) -> rusqlite::Result<Vec<OpenRun>> {
    match session {
        Some(session_key) => {
            conn.prepare_cached(OPEN_RUNS_OF_SESSION)?.query_map((session_key,), open_run)?.collect()
        }
        None => conn.prepare_cached(OPEN_RUNS)?.query_map([], open_run)?.collect(),
    }
}

/// The sessions whose open runs can be read, so that a damaged session does not block the others.
pub(super) fn sound_sessions(conn: &Connection) -> JobResult<BTreeSet<i64>> {
    let mut sound = sessions::all_keys(conn)?;
    sound.retain(|session_key| open_runs(conn, Some(*session_key)).is_ok());
    Ok(sound)
}

/// The open runs of these sessions.
fn open_runs_in(conn: &Connection, sessions: &BTreeSet<i64>) -> rusqlite::Result<Vec<OpenRun>> {
    let mut all = Vec::new();
    for session_key in sessions {
        all.extend(open_runs(conn, Some(*session_key))?);
    }
    Ok(all)
}

/// `sound` limits the take-over to these sessions, because others cannot be read.
pub(super) fn take_over(
    conn: &Connection,
    change: &TakeOver,
    sound: Option<&BTreeSet<i64>>,
) -> JobResult<Vec<TakenOver>> {
    let session = match &change.session {
        Some(key) => Some(sessions::head(conn, key)?.session_key),
        None => None,
    };
    let gone = still_gone(conn, &change.gone)?;
    let mut taken = Vec::new();
    let mut displaced: BTreeMap<String, u64> = BTreeMap::new();
    // The current epoch of the session of the previous run.
    let mut current: Option<(i64, u64)> = None;
    let runs = match sound {
        Some(sound) => open_runs_in(conn, sound)?,
        None => open_runs(conn, session)?,
    };
    for mut run in runs {
        if !gone.contains(run.state.owner.as_str()) {
            continue;
        }
        if let Some((_, epoch)) = current.filter(|(session_key, _)| *session_key == run.session_key) {
            run.lease.epoch = epoch;
        }
        *displaced.entry(OwnerClaim::process_of(&run.state.owner).to_owned()).or_default() += 1;
        let session_key = run.session_key;
        let (run, epoch) = take_over_one(conn, run, &change.owner)?;
        current = Some((session_key, epoch));
        taken.push(run);
    }
    for (process, runs) in displaced {
        conn.prepare_cached(
            "INSERT INTO owners (process, beats, displaced) VALUES (?1, 0, ?2)
             ON CONFLICT (process) DO UPDATE SET displaced = displaced + excluded.displaced",
        )?
        .execute((process, runs))?;
    }
    Ok(taken)
}

/// The owners without a heartbeat since the caller observed them.
fn still_gone<'a>(conn: &Connection, gone: &'a [GoneOwner]) -> rusqlite::Result<HashSet<&'a str>> {
    let mut names = HashSet::new();
    for GoneOwner { name, if_beats } in gone {
        let is_gone = match if_beats {
            Some(seen) => beats(conn, OwnerClaim::process_of(name))? == *seen,
            None => true,
        };
        names.extend(is_gone.then_some(name.as_str()));
    }
    Ok(names)
}

/// Returns the run with its new owner, and the new epoch of its session.
fn take_over_one(conn: &Connection, run: OpenRun, owner: &str) -> JobResult<(TakenOver, u64)> {
    let OpenRun { mut lease, session_key, id, state, options } = run;
    let is_leased = state.status == RunStatus::Running;
    let turns = TurnState { epoch: lease.epoch, is_leased, first_ticket: state.ticket };
    let change = Transition::TakeOver { from: state.owner.clone(), owner: owner.to_owned() };
    let next = lifecycle::transition(&turns, Some(&state), &change)
        .map_err(|refusal| runs::refused(refusal, &lease.key, &id))?;
    conn.prepare_cached("UPDATE runs SET owner = ?3 WHERE session_key = ?1 AND position = ?2")?.execute((
        session_key,
        lease.run,
        owner,
    ))?;
    if next.epoch != lease.epoch {
        conn.prepare_cached("UPDATE sessions SET lease_epoch = ?2 WHERE session_key = ?1")?
            .execute((session_key, next.epoch))?;
        lease.epoch = next.epoch;
    }
    let (key, epoch) = (lease.key.clone(), lease.epoch);
    let state = match next.run.ticket {
        Some(ticket) => TakenOverState::Queued { ticket },
        None => TakenOverState::Running { lease, options },
    };
    Ok((TakenOver { key, id, state }, epoch))
}
