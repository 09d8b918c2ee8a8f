//! Databases of Lango in Go with faults in their bytes, tables, columns and values: each is imported, or has one clear error, and
//! a repeated import changes nothing.
//!
//! `LANGO_MUTATION_CASES` and `LANGO_MUTATION_SEED` set the number of cases and the seed.

#![expect(clippy::unwrap_used, reason = "a failed setup fails the test")]

use rusqlite::Connection;
use session::{
    SessionKey,
    import::{ImportReport, ImportTarget, LangoDatabase},
    sqlite::{Options, SqliteStore},
};
use std::{
    error::Error,
    fs,
    path::Path,
    time::{Duration, Instant},
};
use testkit::{
    mutation::{MutationCases, library_wording, mutate_bytes},
    random::SplitMix64,
};

const CASES: u64 = 200;

/// The time after which a case counts as hanging.
const LIMIT: Duration = Duration::from_secs(20);

const SCHEMA: &str = include_str!("../../../fixtures/lango/schema.sql");
const CONVERSATIONS: &str = include_str!("../../../fixtures/lango/conversations.sql");

const COLUMNS: [(&str, &str); 16] = [
    ("sessions", "id"),
    ("sessions", "key"),
    ("sessions", "agent_id"),
    ("sessions", "channel_type"),
    ("sessions", "model"),
    ("sessions", "metadata"),
    ("sessions", "created_at"),
    ("sessions", "updated_at"),
    ("messages", "id"),
    ("messages", "role"),
    ("messages", "content"),
    ("messages", "timestamp"),
    ("messages", "tool_calls"),
    ("messages", "author"),
    ("messages", "session_messages"),
    ("messages", "content"),
];

const VALUES: [&str; 19] = [
    "NULL",
    "x'ff00fe'",
    "''",
    "7",
    "-9223372036854775808",
    "1e999",
    "0.5",
    "'x'",
    "'{'",
    "'{\"a\":[{\"b\":null}]}'",
    "'[{\"id\":7,\"name\":[],\"input\":{}}]'",
    "zeroblob(100000)",
    "char(0) || 'x'",
    "'2026-02-30 99:99:99'",
    "'99999999999999999999'",
    "'../../x'",
    "char(8238) || 'x'",
    "'app:x'",
    "rowid",
];

/// Changes the tables. Not every change is possible in every database; then nothing changes.
fn mutate_tables(random: &mut SplitMix64, conn: &Connection) -> String {
    let (table, column) = *random.choose(&COLUMNS).unwrap();
    let value = random.choose(&VALUES).unwrap();
    let third = random.below(3);
    let sql = match random.below(8) {
        0 => format!("ALTER TABLE {table} DROP COLUMN {column}"),
        1 => format!("ALTER TABLE {table} RENAME COLUMN {column} TO renamed"),
        2 => format!("DROP TABLE {table}"),
        3 => format!("DELETE FROM {table} WHERE rowid % 3 = {third}"),
        // A table without types and constraints.
        4 => format!(
            "CREATE TABLE loose AS SELECT * FROM {table}; DROP TABLE {table}; ALTER TABLE loose RENAME TO {table};
             UPDATE {table} SET {column} = {value} WHERE rowid % 3 = {third}"
        ),
        5 => format!("ALTER TABLE {table} RENAME TO old; CREATE VIEW {table} AS SELECT * FROM old"),
        _ => format!("UPDATE {table} SET {column} = {value} WHERE rowid % 3 = {third}"),
    };
    let _ = conn.execute_batch(&format!("PRAGMA foreign_keys = OFF; {sql}"));
    sql
}

/// Imports the file. Returns the rows that were added, or the error with its causes.
async fn import(store: &SqliteStore, path: &Path, app: &str) -> Result<u64, String> {
    let mut report = ImportReport::default();
    let result: Result<(), Box<dyn Error>> = async {
        let source = LangoDatabase::open(path)?;
        for session in source.sessions(&mut report)? {
            let key = SessionKey::new(app, "user", &session.key);
            let mut target = ImportTarget::open(store, key, &session, &mut report).await?;
            for batch in session.batches() {
                target.add(source.read(batch, &mut report)?, &mut report).await?;
            }
        }
        Ok(())
    }
    .await;
    result.map(|()| report.messages.imported).map_err(|error| {
        let mut text = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            text = format!("{text}: {error}");
            cause = error.source();
        }
        text
    })
}

fn fault_of(result: &Result<u64, String>, path: &Path) -> Option<String> {
    let error = result.as_ref().err()?.replace(&path.display().to_string(), "");
    let words = library_wording(&error).map(|words| format!("library wording: {words}"));
    words.or((error.trim().is_empty() || error.lines().count() != 1).then(|| "not one line".to_owned()))
}

#[tokio::test]
async fn mutated_database_is_imported_or_has_one_clear_error() {
    let cases = MutationCases::from_env(CASES);
    let dir = tempfile::tempdir().unwrap();
    let (whole, path) = (dir.path().join("whole.db"), dir.path().join("go.db"));
    Connection::open(&whole).unwrap().execute_batch(&format!("{SCHEMA}{CONVERSATIONS}")).unwrap();
    let whole = fs::read(&whole).unwrap();
    let store = SqliteStore::open(dir.path().join("lango.db"), Options::default()).unwrap();
    let (mut faults, mut errors) = (Vec::new(), 0);
    for number in 0..cases.count {
        let mut random = cases.random(number);
        let mut changes = Vec::new();
        let mut bytes = whole.clone();
        let in_tables = random.below(3) > 0;
        for _ in 0..=random.below(3) {
            if !in_tables && !bytes.is_empty() {
                changes.push(mutate_bytes(&mut random, &mut bytes));
            }
        }
        fs::write(&path, &bytes).unwrap();
        if in_tables {
            let conn = Connection::open(&path).unwrap();
            changes.extend((0..=random.below(3)).map(|_| mutate_tables(&mut random, &conn)));
        }
        let before = fs::read(&path).unwrap();
        let (began, app) = (Instant::now(), format!("a{number}"));
        let first = import(&store, &path, &app).await;
        let again = import(&store, &path, &app).await;
        errors += u64::from(first.is_err());
        let repeated = match (&first, &again) {
            (Ok(_), Ok(added)) => *added == 0,
            (Err(first), Err(again)) => first == again,
            (Ok(_), Err(_)) | (Err(_), Ok(_)) => false,
        };
        let wrong = [
            fault_of(&first, &path),
            (!repeated).then(|| format!("repeated: {again:?}")),
            (before != fs::read(&path).unwrap()).then(|| "the source was changed".to_owned()),
            (began.elapsed() > LIMIT).then(|| "hangs".to_owned()),
        ];
        if let Some(why) = wrong.into_iter().flatten().next() {
            faults.push(format!("case {number} ({}): {why}: {first:?}", changes.join("; ")));
        }
    }
    assert!(errors > cases.count / 20 && errors < cases.count, "{errors} errors of {} cases", cases.count);
    assert!(faults.is_empty(), "seed {}, {} faults:\n{}", cases.seed, faults.len(), faults.join("\n"));
}
