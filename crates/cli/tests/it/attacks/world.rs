//! A server with two users and an administrator, canaries in everything that an attacker must not see, and its database.

use super::engine::{Seen, TIMEOUT};
use crate::{
    common::{AuthServer, TestEnv},
    serve_auth::{added, jwt::Issuer, local},
};
use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};
use std::{ffi::OsString, fs, os::unix::fs::symlink, thread, time::Instant};

/// In the messages, the state and the artifacts of Ann.
const OF_ANN: &str = "canary-of-ann";
/// In the environment of the server.
const OF_ENV: &str = "canary-of-the-environment";
/// In `lango.toml`.
const OF_CONFIG: &str = "canary-of-the-configuration";
/// In files outside the directory of the page.
const OF_FILE: &str = "canary-of-a-file";
/// Of `/etc/passwd`.
const OF_SYSTEM: &str = "root:x:0:";

/// `mark` needs no approval and leaves a file.
const SETTINGS: &str = r#"
[providers.team]
api = "chat"
baseUrl = "http://127.0.0.1:9/v1"
key = "${TEAM_KEY}"
headers = { "X-Team" = "canary-of-the-configuration" }
[commands.mark]
description = "Leaves a mark."
command = ["touch", "ran"]
safety = "read"
[stubs.danger]
confirm = true
response = { done = true }
[server.jwt]
jwks = "jwks.json"
issuer = "https://issuer.example"
audience = "lango"
[server]
"#;

const SCRIPT: &str = "rules:\n- {when: {tool: any}, reply: [{text: done}]}\n\
    - {when: {first_word: danger}, reply: [{call: {name: danger, args: {}}}]}\n\
    - {when: {first_word: mark}, reply: [{call: {name: mark, args: {}}}]}\n\
    - {reply: [{text: noted}]}\n";

pub(super) struct World {
    pub(super) env: TestEnv,
    pub(super) server: AuthServer,
    pub(super) ann: String,
    pub(super) bob: String,
    pub(super) expired: String,
    pub(super) revoked: String,
    /// The cookie of an administrator's browser.
    pub(super) cookie: String,
    pub(super) issuer: Issuer,
    /// A run of Ann that waits for an answer to `question`.
    pub(super) run: String,
    pub(super) question: String,
    canaries: Vec<String>,
    database: Connection,
}

impl World {
    pub(super) fn new(settings: &str) -> Self {
        let env = TestEnv::scripted(&format!("{SETTINGS}{settings}"), SCRIPT);
        let issuer = Issuer::new();
        env.file("jwks.json", issuer.jwks());
        env.file("outside.txt", OF_FILE);
        env.file("page/index.html", "a page");
        env.file("page/deep/index.html", "a page");
        symlink("../outside.txt", env.workdir().join("page/link.txt")).unwrap();
        symlink("..", env.workdir().join("page/up")).unwrap();
        symlink("/etc", env.workdir().join("page/etc")).unwrap();
        let expired = added(&env, &["old", "--user", "ann", "--expires", "1s"]);
        expire(&env);
        let server = AuthServer::start_with(&env, &[], &[("TEAM_KEY", OF_ENV), ("OPENAI_API_KEY", OF_ENV)]);
        let (ann, bob) = (added(&env, &["a", "--user", "ann"]), added(&env, &["b", "--user", "bob"]));
        let revoked = added(&env, &["gone", "--user", "ann"]);
        env.lango(&["token", "revoke", "gone"]).success();
        let entered = server.get(&server.link, &[]);
        let cookie = entered.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
        let bare = |token: &str| token.trim_start_matches("Bearer ").to_owned();
        let dir = env.workdir().parent().unwrap().to_string_lossy().into_owned();
        let mut canaries: Vec<String> =
            [OF_ANN, OF_ENV, OF_CONFIG, OF_FILE, OF_SYSTEM].map(str::to_owned).into();
        canaries.extend([bare(&local(&env)), bare(&ann), dir]);
        let database = Connection::open_with_flags(env.database(), OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
        let (run, question) = (String::new(), String::new());
        let mut world = Self {
            env,
            server,
            ann,
            bob,
            expired,
            revoked,
            cookie,
            issuer,
            run,
            question,
            canaries,
            database,
        };
        world.fill();
        world
    }

    /// Creates a session `s` of each user; Ann's has an open question and an artifact.
    fn fill(&mut self) {
        let state = json!({"sessionId": "s", "state": {"plain": OF_ANN, "user:own": OF_ANN}});
        self.ask(&self.ann, "POST", "/apps/lango/users/ann/sessions", &state);
        self.ask(&self.bob, "POST", "/apps/lango/users/bob/sessions", &json!({"sessionId": "s"}));
        for name in ["f.txt", "user:f.txt"] {
            let file = json!({"filename": name, "artifact": {"text": OF_ANN}});
            self.ask(&self.ann, "POST", "/apps/lango/users/ann/sessions/s/artifacts", &file);
            let file = json!({"filename": name, "artifact": {"text": "Bob's"}});
            self.ask(&self.bob, "POST", "/apps/lango/users/bob/sessions/s/artifacts", &file);
        }
        let text = format!("danger {OF_ANN}");
        let events = self.ask(&self.ann, "POST", "/run", &message("ann", &json!([{"text": text}])));
        let part = &events[1]["content"]["parts"][0]["functionCall"];
        part["id"].as_str().unwrap().clone_into(&mut self.question);
        events[0]["invocationId"].as_str().unwrap().clone_into(&mut self.run);
        self.check_detectors();
    }

    /// Checks that a leak and a tool call would be seen.
    fn check_detectors(&self) {
        let own = self.server.get("/apps/lango/users/ann/sessions/s", &[("authorization", &self.ann)]);
        assert_eq!(self.leaked(&Seen { status: own.status, text: own.body }), Some(OF_ANN));
        let before = self.stored(false);
        self.ask(&self.bob, "POST", "/run", &message("bob", &json!([{"text": "mark"}])));
        assert!(self.tool_ran() && self.stored(false) != before);
        fs::remove_file(self.env.workdir().join("ran")).unwrap();
    }

    pub(super) fn ask(&self, token: &str, method: &str, path: &str, body: &Value) -> Value {
        let body = body.to_string();
        let response = self.server.request(method, path, &[("authorization", token)], body.as_bytes());
        assert!((200..300).contains(&response.status), "{method} {path}: {response:?}");
        response.json()
    }

    pub(super) fn address(&self) -> String {
        self.server.address.to_string()
    }

    /// The canaries in a response.
    pub(super) fn leaked(&self, seen: &Seen) -> Option<&str> {
        self.canaries.iter().map(String::as_str).find(|canary| seen.text.contains(canary))
    }

    /// Everything that is stored, or only what is Ann's or belongs to no user.
    pub(super) fn stored(&self, of_ann: bool) -> String {
        let sql = format!(
            "SELECT (SELECT json_group_array(app_name || user_id || session_id || last_seq) FROM sessions {who})
             || (SELECT json_group_array(message_id) FROM messages JOIN sessions USING (session_key) {who})
             || (SELECT json_group_array(key || value) FROM session_state JOIN sessions USING (session_key) {who})
             || (SELECT json_group_array(user_id || key || value) FROM user_state {who})
             || (SELECT json_group_array(key || value) FROM app_state)
             || (SELECT json_group_array(user_id || session_id || name || version) FROM artifacts {who})
             || (SELECT json_group_array(run_id || status) FROM runs JOIN sessions USING (session_key) {who})
             || (SELECT json_group_array(key) FROM request_keys {who})",
            who = if of_ann { "WHERE user_id = 'ann'" } else { "" }
        );
        let rows: String = self.database.query_row(&sql, [], |row| row.get(0)).unwrap();
        format!("{rows} {:?}", self.files())
    }

    /// The names in the working directory, in the one above it and in that of the page.
    fn files(&self) -> Vec<OsString> {
        let work = self.env.workdir();
        let directories = [work.join(".."), work.join("page"), work];
        let entries = directories.iter().flat_map(|directory| fs::read_dir(directory).unwrap());
        let mut names: Vec<OsString> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    }

    /// Waits until no run is active.
    pub(super) fn settle(&self) {
        let deadline = Instant::now() + TIMEOUT;
        let active = "SELECT count(*) FROM runs WHERE status IN ('queued', 'running')";
        while self.database.query_row(active, [], |row| row.get::<_, i64>(0)).unwrap() > 0 {
            assert!(Instant::now() < deadline, "a run does not end");
            thread::yield_now();
        }
    }

    /// Whether the tool `mark` ran.
    pub(super) fn tool_ran(&self) -> bool {
        self.env.workdir().join("ran").exists()
    }
}

fn expire(env: &TestEnv) {
    let path = env.home().join("tokens.json");
    let mut tokens: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    tokens["tokens"][0]["expiresAt"] = json!(1_000_000_000);
    fs::write(path, tokens.to_string()).unwrap();
}

/// The body of a run in the session `s`.
pub(super) fn message(user: &str, parts: &Value) -> Value {
    json!({
        "appName": "lango", "userId": user, "sessionId": "s",
        "newMessage": {"role": "user", "parts": parts},
    })
}
