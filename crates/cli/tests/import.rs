//! `lango sessions import` through the binary: imported sessions are shown and continued.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test at its line")]

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

/// A data directory, and a working directory with `go.db`, a database of Lango in Go.
struct TestEnv {
    dir: TempDir,
}

impl TestEnv {
    fn new(sql: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let env = Self { dir };
        Connection::open(env.at("go.db")).unwrap().execute_batch(&format!("{SCHEMA}{sql}")).unwrap();
        env
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

    /// Standard output of a command that succeeds.
    #[track_caller]
    fn success(&self, args: &[&str]) -> String {
        let output = self.command(args).output().unwrap();
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    #[track_caller]
    fn failure(&self, args: &[&str]) -> String {
        let output = self.command(args).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{args:?}: {output:?}");
        let dir = format!("{}/", self.dir.path().canonicalize().unwrap().display());
        String::from_utf8(output.stderr).unwrap().replace(&dir, "")
    }

    fn import(&self) -> String {
        self.success(&["sessions", "import", "--from", "lango", "go.db"])
    }

    /// The number of stored messages.
    fn stored(&self) -> i64 {
        let Ok(conn) = Connection::open(self.at("home/lango.db")) else { return 0 };
        conn.query_row("SELECT COUNT(*) FROM messages", [], |row| row.get(0)).unwrap_or(0)
    }
}

#[test]
fn import_is_idempotent() {
    let env = TestEnv::new(CONVERSATIONS);
    let before = fs::read(env.at("go.db")).unwrap();
    assert_snapshot!(env.import(), @"
    imported: 8 sessions, 24 messages
    anomaly: 1 × message with an unknown role: imported with that role (roles #19)
    ");
    assert_snapshot!(env.import(), @"
    imported: 0 sessions, 0 messages
    already present: 8 sessions, 24 messages
    ");
    assert_eq!(fs::read(env.at("go.db")).unwrap(), before);
}

#[test]
fn spec_n1_n2_f3_to_f5_hold_for_imported_conversations() {
    let env = TestEnv::new(CONVERSATIONS);
    env.import();
    let shown: Vec<String> = SESSIONS
        .iter()
        .map(|session| format!("{session}\n{}", env.success(&["sessions", "show", session])))
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

/// The roles of a request to OpenAI, with the ids of calls and of the calls that results belong to.
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
fn imported_sessions_produce_requests_with_a_result_for_each_call() {
    let env = TestEnv::new(CONVERSATIONS);
    env.import();
    let mut outlines = Vec::new();
    for session in SESSIONS.iter().filter(|session| **session != "empty") {
        for provider in ["openai", "anthropic", "gemini"] {
            let request = env.success(&["sessions", "show", session, "--as", provider]);
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
fn imported_sessions_continue_with_their_history() {
    let env = TestEnv::new(CONVERSATIONS);
    env.import();
    for session in SESSIONS {
        let answer = env.success(&["run", "--session", session, "what is 6*7?"]);
        assert!(answer.contains("42"), "{session}: {answer}");
    }
    let answer = env.success(&["run", "--session", "talk", "what did I say first?"]);
    assert!(answer.contains("I am Ann."), "{answer}");
    assert_snapshot!(env.import(), @"
    imported: 0 sessions, 0 messages
    already present: 8 sessions, 24 messages
    ");
}

#[test]
fn failed_import_reports_the_cause_and_creates_no_files() {
    let env = TestEnv::new(CONVERSATIONS);
    fs::write(env.at("text.db"), "hello ".repeat(1000)).unwrap();
    let import = |file: &str| env.failure(&["sessions", "import", "--from", "lango", file]);
    assert_snapshot!(import("none.db"), @"lango: there is no file none.db");
    assert_snapshot!(import("text.db"), @"lango: text.db is encrypted or not a database; if Lango in Go has encrypted it, its `lango security db-decrypt` makes it readable");
    assert!(!env.at("home").exists());
}

#[test]
fn importing_the_own_database_is_refused_with_the_fix() {
    let env = TestEnv::new(CONVERSATIONS);
    fs::create_dir(env.at("home")).unwrap();
    fs::copy(env.at("go.db"), env.at("home/lango.db")).unwrap();
    let error = env.failure(&["sessions", "import", "--from", "lango", "home/lango.db"]);
    assert_snapshot!(error, @"lango: home/lango.db is the path of this program's own database; move the file away with those beside it, and import it from there");
    let error = env.failure(&["run", "hello"]);
    assert_snapshot!(error, @"lango: home/lango.db holds the sessions of Lango in Go; move it away with the files beside it, then `lango sessions import --from lango FILE` brings them along");
}

#[test]
fn interrupted_import_stops_between_batches_and_resumes() {
    let all = 60_000;
    let env = TestEnv::new(&format!(
        "INSERT INTO sessions VALUES (1, 's', NULL, NULL, NULL, NULL, NULL, '2026-01-01 00:00:00Z', '2026-01-01 00:00:00Z');
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {all})
         INSERT INTO messages (role, content, timestamp, session_messages)
         SELECT 'user', 'message ' || i, '2026-01-01 00:00:00Z', 1 FROM n;"
    ));
    let mut command = env.command(&["sessions", "import", "--from", "lango", "go.db"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    while env.stored() == 0 && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(2));
    }
    let interrupted = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(interrupted.success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_snapshot!(String::from_utf8(output.stderr).unwrap(), @"lango: the import was interrupted; imported messages are stored, and a repeated import continues after them");

    let came = env.stored();
    assert!(came > 0 && came < all && came % 500 == 0, "{came}");
    let report = env.import();
    assert_eq!(
        report,
        format!(
            "imported: 0 sessions, {} messages\nalready present: 1 session, {came} messages\n",
            all - came
        )
    );
    let conn = Connection::open(env.at("home/lango.db")).unwrap();
    let sql = "SELECT COUNT(*) FROM messages WHERE content = 'message ' || (seq - 1)";
    let in_order: i64 = conn.query_row(sql, [], |row| row.get(0)).unwrap();
    assert_eq!(in_order, all);
}
