//! `lango sessions import`, through the binary: old conversations come along, are shown, and go on.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use insta::assert_snapshot;
use rusqlite::Connection;
use serde_json::Value;
use std::{
    fs,
    path::PathBuf,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;

const SCHEMA: &str = include_str!("../../../fixtures/lango/schema.sql");
const CONVERSATIONS: &str = include_str!("../../../fixtures/lango/conversations.sql");
const SESSIONS: [&str; 8] = ["talk", "tools", "legacy", "orphan", "roles", "as-user", "open", "empty"];

/// A home, a working directory, and in it `go.db`, which Lango in Go wrote.
struct Place {
    dir: TempDir,
}

impl Place {
    fn new(sql: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let place = Self { dir };
        Connection::open(place.at("go.db")).unwrap().execute_batch(&format!("{SCHEMA}{sql}")).unwrap();
        place
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lango"));
        command.args(args).current_dir(self.dir.path()).stdin(Stdio::null());
        command.env_clear().env("LANGO_HOME", self.at("home")).env("TZ", "UTC");
        command
    }

    /// What it printed, and what it said beside.
    #[track_caller]
    fn well(&self, args: &[&str]) -> String {
        let output = self.command(args).output().unwrap();
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    #[track_caller]
    fn badly(&self, args: &[&str]) -> String {
        let output = self.command(args).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{args:?}: {output:?}");
        let dir = format!("{}/", self.dir.path().canonicalize().unwrap().display());
        String::from_utf8(output.stderr).unwrap().replace(&dir, "")
    }

    fn import(&self) -> String {
        self.well(&["sessions", "import", "--from", "lango", "go.db"])
    }

    /// How many messages the store holds by now.
    fn stored(&self) -> i64 {
        let Ok(conn) = Connection::open(self.at("home/lango.db")) else { return 0 };
        conn.query_row("SELECT COUNT(*) FROM messages", [], |row| row.get(0)).unwrap_or(0)
    }
}

#[test]
fn old_conversations_come_along_once() {
    let place = Place::new(CONVERSATIONS);
    let before = fs::read(place.at("go.db")).unwrap();
    assert_snapshot!(place.import(), @"
    came: 8 sessions, 24 messages
    odd: 1 × message with an unknown role: imported with that role (roles #19)
    ");
    assert_snapshot!(place.import(), @"
    came: 0 sessions, 0 messages
    there already: 8 sessions, 24 messages
    ");
    assert_eq!(fs::read(place.at("go.db")).unwrap(), before);
}

#[test]
fn spec_n1_n2_f3_to_f5_hold_for_imported_conversations() {
    let place = Place::new(CONVERSATIONS);
    place.import();
    let shown: Vec<String> = SESSIONS
        .iter()
        .map(|session| format!("{session}\n{}", place.well(&["sessions", "show", session])))
        .collect();
    assert_snapshot!(shown.join(""), @r#"
    talk
            user  I am Ann.
     lango-agent  Hello Ann.
            user  What is my name?
     lango-agent  Ann.
    tools
            user  Read a.txt and b.txt
        operator  I look.
        operator  → fs_read {"path":"a.txt"}
        operator  → fs_read {"path":"b.txt"}
        operator  ← fs_read {"text":"A"}
        operator  ← fs_read {"text":"B"}
        operator  A and B.
    legacy
            user  Time and sum?
     lango-agent  → now {}
     lango-agent  → sum {"a":1,"b":2}
     lango-agent  ← now {"time":"10:00"}
     lango-agent  ← sum {"result":3}
     lango-agent  Ten, and three.
    orphan
     lango-agent  what was left
            user  Go on.
    roles
     lango-agent  They spoke about the weather.
            user  Hi.
     lango-agent  From the model.
     lango-agent  From nobody.
    as-user
            user  Read a.txt
     lango-agent  → fs_read {"path":"a.txt"}
     lango-agent  ← fs_read {"text":"A"}
    open
            user  Read c.txt
     lango-agent  → fs_read {"path":"c.txt"}
    empty
    "#);
}

/// Who says what in a request to OpenAI: answers by the call that they answer.
fn outline(request: &Value) -> String {
    let line = |message: &Value| {
        let calls = message["tool_calls"].as_array().into_iter().flatten();
        let calls: Vec<&str> = calls.filter_map(|call| call["id"].as_str()).collect();
        let answers = message["tool_call_id"].as_str().unwrap_or_default();
        format!("{} {}{answers}", message["role"].as_str().unwrap(), calls.join(" ")).trim().to_owned()
    };
    let messages = request["messages"].as_array().unwrap().iter().skip(1);
    messages.map(line).collect::<Vec<_>>().join(", ")
}

#[test]
fn every_provider_would_get_a_request_and_each_call_in_it_is_answered() {
    let place = Place::new(CONVERSATIONS);
    place.import();
    let mut outlines = Vec::new();
    for session in SESSIONS.iter().filter(|session| **session != "empty") {
        for provider in ["openai", "anthropic", "gemini"] {
            let request = place.well(&["sessions", "show", session, "--as", provider]);
            let request: Value = serde_json::from_str(&request).unwrap();
            if provider == "openai" {
                outlines.push(format!("{session}: {}", outline(&request)));
            }
        }
    }
    assert_snapshot!(outlines.join("\n"), @"
    talk: user, assistant, user, assistant, user
    tools: user
    legacy: user, assistant t1 t2, tool t1, tool t2, assistant, user
    orphan: user
    roles: user, assistant, user
    as-user: user, assistant u1, tool u1
    open: user, assistant o1, tool o1
    ");
}

#[test]
fn every_imported_conversation_goes_on_and_remembers() {
    let place = Place::new(CONVERSATIONS);
    place.import();
    for session in SESSIONS {
        let answer = place.well(&["run", "--session", session, "what is 6*7?"]);
        assert!(answer.contains("42"), "{session}: {answer}");
    }
    let answer = place.well(&["run", "--session", "talk", "what did I say first?"]);
    assert!(answer.contains("I am Ann."), "{answer}");
    assert_snapshot!(place.import(), @"
    came: 0 sessions, 0 messages
    there already: 8 sessions, 24 messages
    ");
}

#[test]
fn what_cannot_be_imported_has_its_sentence_and_leaves_nothing_behind() {
    let place = Place::new(CONVERSATIONS);
    fs::write(place.at("text.db"), "hello ".repeat(1000)).unwrap();
    let import = |file: &str| place.badly(&["sessions", "import", "--from", "lango", file]);
    assert_snapshot!(import("none.db"), @"lango: there is no file none.db");
    assert_snapshot!(import("text.db"), @"lango: text.db is encrypted or not a database; if Lango in Go has encrypted it, its `lango security db-decrypt` makes it readable");
    assert!(!place.at("home").exists());
}

#[test]
fn the_place_that_both_programs_use_is_named_with_the_way_out() {
    let place = Place::new(CONVERSATIONS);
    fs::create_dir(place.at("home")).unwrap();
    fs::copy(place.at("go.db"), place.at("home/lango.db")).unwrap();
    let told = place.badly(&["sessions", "import", "--from", "lango", "home/lango.db"]);
    assert_snapshot!(told, @"lango: home/lango.db is where this Lango keeps its own sessions; move it away with the files beside it, and import it from there");
    let told = place.badly(&["run", "hello"]);
    assert_snapshot!(told, @"lango: home/lango.db holds the sessions of Lango in Go; move it away with the files beside it, then `lango sessions import --from lango FILE` brings them along");
}

#[test]
fn ctrl_c_ends_it_between_two_batches_and_a_repeat_goes_on() {
    let all = 60_000;
    let place = Place::new(&format!(
        "INSERT INTO sessions VALUES (1, 's', NULL, NULL, NULL, NULL, NULL, '2026-01-01 00:00:00Z', '2026-01-01 00:00:00Z');
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {all})
         INSERT INTO messages (role, content, timestamp, session_messages)
         SELECT 'user', 'message ' || i, '2026-01-01 00:00:00Z', 1 FROM n;"
    ));
    let mut command = place.command(&["sessions", "import", "--from", "lango", "go.db"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    while place.stored() == 0 && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(2));
    }
    let interrupted = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(interrupted.success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_snapshot!(String::from_utf8(output.stderr).unwrap(), @"lango: the import was interrupted; what came stays, and a repeat goes on from there");

    let came = place.stored();
    assert!(came > 0 && came < all && came % 500 == 0, "{came}");
    let told = place.import();
    assert_eq!(
        told,
        format!("came: 0 sessions, {} messages\nthere already: 1 session, {came} messages\n", all - came)
    );
    let conn = Connection::open(place.at("home/lango.db")).unwrap();
    let sql = "SELECT COUNT(*) FROM messages WHERE content = 'message ' || (seq - 1)";
    let in_order: i64 = conn.query_row(sql, [], |row| row.get(0)).unwrap();
    assert_eq!(in_order, all);
}
