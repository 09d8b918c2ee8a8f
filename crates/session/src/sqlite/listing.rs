//! All sessions of a user: their numbers in one statement, their rows and states in one statement each per page.

use super::{
    SqliteStore,
    fault::{JobResult, is_damage},
    sessions, state,
};
use crate::{HeadPage, Pending, SessionHead, SessionKey, SessionListing, SessionRow, StateChange};
use rusqlite::Connection;
use std::collections::HashMap;

pub(super) fn numbers(conn: &Connection, app: &str, user: &str) -> JobResult<Vec<u64>> {
    let ordered = "SELECT session_key FROM sessions WHERE app_name = ?1 AND user_id = ?2
                   ORDER BY updated_at DESC, session_key DESC";
    // Reads no row of the table.
    let unordered = "SELECT session_key FROM sessions INDEXED BY sessions_by_creation
                     WHERE app_name = ?1 AND user_id = ?2 ORDER BY session_key DESC";
    let read = |sql: &str| -> rusqlite::Result<Vec<u64>> {
        conn.prepare_cached(sql)?.query_map((app, user), |row| row.get(0))?.collect()
    };
    match read(ordered) {
        Err(error) if is_damage(&error) => Ok(read(unordered).map_err(|_| error)?),
        numbers => Ok(numbers?),
    }
}

pub(super) fn heads(conn: &Connection, app: &str, user: &str, numbers: &[u64]) -> JobResult<HeadPage> {
    let key = SessionKey::new(app, user, "");
    let mut shared = Vec::new();
    state::shared(conn, &key, &mut shared)?;
    let heads = match heads_of(conn, &key, numbers) {
        // A damaged session does not hide the others.
        Err(error) if is_damage(&error) => {
            let one = |number: &u64| match heads_of(conn, &key, &[*number]) {
                Err(error) if is_damage(&error) => damaged_head(conn, *number),
                heads => heads,
            };
            numbers.iter().map(one).collect::<rusqlite::Result<Vec<_>>>()?.into_iter().flatten().collect()
        }
        heads => heads?,
    };
    Ok(HeadPage { shared, heads })
}

fn heads_of(conn: &Connection, key: &SessionKey, numbers: &[u64]) -> rusqlite::Result<Vec<SessionHead>> {
    let selected = selection(numbers);
    let mut statement = conn.prepare_cached(&format!(
        "SELECT {} FROM json_each(?1) CROSS JOIN sessions ON session_key = json_each.value
         WHERE app_name = ?2 AND user_id = ?3",
        sessions::ROW
    ))?;
    let rows = statement.query_map((&selected, &key.app_name, &key.user_id), sessions::listed_row)?;
    let mut rows: HashMap<u64, SessionRow> =
        rows.map(|row| row.map(|row| (row.number, row))).collect::<rusqlite::Result<_>>()?;
    let mut states: HashMap<u64, Vec<StateChange>> = HashMap::new();
    state::of_sessions(conn, &selected, &mut states)?;
    let head = |number: &u64| {
        let row = rows.remove(number)?;
        Some(SessionHead { row, state: states.remove(number).unwrap_or_default() })
    };
    Ok(numbers.iter().filter_map(head).collect())
}

/// The head of a session of which only the name can be read.
fn damaged_head(conn: &Connection, number: u64) -> rusqlite::Result<Vec<SessionHead>> {
    let key = sessions::key_of(conn, number)?;
    let head = |key| SessionHead { row: SessionRow::damaged(key, number), state: Vec::new() };
    Ok(key.map(head).into_iter().collect())
}

/// The numbers as a JSON array, which a statement of constant text can join.
fn selection(numbers: &[u64]) -> String {
    let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
    format!("[{}]", numbers.join(","))
}

impl SessionListing for SqliteStore {
    fn session_numbers(&self, app: &str, user: &str) -> Pending<'_, Vec<u64>> {
        let (app, user) = (app.to_owned(), user.to_owned());
        Box::pin(self.db.readers.read(move |conn| numbers(conn, &app, &user)))
    }

    fn heads(&self, app: &str, user: &str, numbers: Vec<u64>) -> Pending<'_, HeadPage> {
        let (app, user) = (app.to_owned(), user.to_owned());
        Box::pin(self.db.readers.read(move |conn| heads(conn, &app, &user, &numbers)))
    }
}
