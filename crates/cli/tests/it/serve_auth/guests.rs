//! Approval on a server: by the local and other administrators, and by guests only if the configuration allows it.

use super::{added, local};
use crate::common::{AuthServer, TestEnv};
use serde_json::{Value, json};
use std::fs;

/// A model that calls a tool for each known message.
const SCRIPT: &str = r#"{"rules":[
    {"when":{"tool":"any"},"reply":[{"text":"done"}]},
    {"when":{"first_word":"touch"},"reply":[{"call":{"name":"exec","args":{"command":"echo x >> made"}}}]},
    {"when":{"first_word":"danger"},"reply":[{"call":{"name":"danger","args":{}}}]},
    {"when":{"first_word":"old"},"reply":[{"call":{"name":"exec","args":{"command":"touch old"}}}]},
    {"reply":[{"text":"done"}]}]}"#;

const STUB: &str = "[stubs.danger]\nconfirm = true\nresponse = { done = true }\n";

struct GuestFixture {
    env: TestEnv,
    server: AuthServer,
    /// The tokens of the local administrator, of another administrator and of a guest.
    owner: String,
    root: String,
    ann: String,
}

impl GuestFixture {
    fn new(toml: &str) -> Self {
        let env = TestEnv::scripted(&format!("{toml}\n{STUB}"), SCRIPT);
        let server = AuthServer::start(&env, &[]);
        let (owner, ann) = (local(&env), added(&env, &["laptop", "--user", "ann"]));
        let root = added(&env, &["office", "--admin"]);
        let fixture = Self { env, server, owner, root, ann };
        fixture.create_session("ann", "s");
        fixture
    }

    fn create_session(&self, user: &str, id: &str) {
        let path = format!("/apps/lango/users/{user}/sessions/{id}");
        assert_eq!(self.server.request("POST", &path, &[("authorization", &self.owner)], b"{}").status, 200);
    }

    /// Sends a part to Ann's session, and returns the events.
    fn send(&self, who: &str, part: &Value) -> Value {
        self.send_to(who, ("ann", "s"), part)
    }

    fn send_to(&self, who: &str, (user, session): (&str, &str), part: &Value) -> Value {
        let body = json!({
            "appName": "lango", "userId": user, "sessionId": session,
            "newMessage": {"role": "user", "parts": [part]},
        });
        self.server.request("POST", "/run", &[("authorization", who)], body.to_string().as_bytes()).json()
    }

    fn made(&self) -> usize {
        fs::read_to_string(self.env.workdir().join("made")).unwrap_or_default().lines().count()
    }
}

fn text(text: &str) -> Value {
    json!({"text": text})
}

/// The approval question of a run.
fn question(events: &Value) -> Option<Value> {
    let mut parts =
        events.as_array()?.iter().map(|event| event["content"]["parts"][0]["functionCall"].clone());
    parts.find(|call| call["name"] == "adk_request_confirmation")
}

fn yes(question: &Value, more: &Value) -> Value {
    let mut response = json!({"confirmed": true});
    response.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
    json!({"functionResponse": {"id": question["id"], "name": "adk_request_confirmation", "response": response}})
}

/// The first error result of a run.
fn refusal(events: &Value) -> String {
    let answer =
        |event: &Value| event["content"]["parts"][0]["functionResponse"]["response"]["error"].clone();
    let mut answers = events.as_array().unwrap().iter().map(answer);
    answers.find_map(|answer| answer.as_str().map(str::to_owned)).unwrap_or_default()
}

#[test]
fn guest_call_that_needs_approval_is_refused_with_the_reason() {
    let fixture = GuestFixture::new("");
    let events = fixture.send(&fixture.ann, &text("touch"));
    assert_eq!(question(&events), None);
    insta::assert_snapshot!(refusal(&events), @r#"this call was not run: a redirection writes to `made`, and on this server only an administrator may approve that. An administrator can allow it by a rule in [approval] of lango.toml, or let users decide with `users = "ask"` there"#);
    assert_eq!(fixture.made(), 0);
    // A guest may confirm a tool that requires approval only because of `confirm`.
    let confirmation = question(&fixture.send(&fixture.ann, &text("danger"))).unwrap();
    let events = fixture.send(&fixture.ann, &yes(&confirmation, &json!({}))).to_string();
    assert!(events.contains(r#""response":{"done":true}"#), "{events}");
}

#[test]
fn owner_and_administrators_are_asked_in_any_session() {
    let fixture = GuestFixture::new("");
    let mut made = 0;
    for who in [&fixture.owner, &fixture.root] {
        // A guest's earlier message in the session has no effect on the next one.
        fixture.send(&fixture.ann, &text("touch"));
        let confirmation = question(&fixture.send(who, &text("touch"))).unwrap();
        fixture.send(who, &yes(&confirmation, &json!({})));
        made += 1;
        assert_eq!(fixture.made(), made);
    }
}

#[test]
fn guest_cannot_approve_an_administrators_call() {
    let fixture = GuestFixture::new("");
    let confirmation = question(&fixture.send(&fixture.owner, &text("touch"))).unwrap();
    let events = fixture.send(&fixture.ann, &yes(&confirmation, &json!({"payload": {"always": true}})));
    assert!(refusal(&events).contains("only an administrator may approve"), "{events}");
    assert_eq!((fixture.made(), fixture.env.lango(&["rules", "list"]).success().out.as_str()), (0, ""));
}

#[test]
fn guests_approve_their_own_calls_if_configured() {
    let fixture = GuestFixture::new("[approval]\nusers = \"ask\"\n");
    let bob = added(&fixture.env, &["phone", "--user", "bob"]);
    fixture.create_session("bob", "s");
    let confirmation = question(&fixture.send(&fixture.ann, &text("old"))).unwrap();
    fixture.send(&fixture.ann, &yes(&confirmation, &json!({"payload": {"always": true}})));
    assert!(fixture.env.workdir().join("old").exists());
    assert_eq!(fixture.env.lango(&["rules", "list"]).success().out, "", "only administrators store rules");
    let confirmation = question(&fixture.send(&fixture.ann, &text("old"))).unwrap();
    assert_eq!(confirmation["args"]["toolConfirmation"]["payload"], json!({"session": false}));
    fixture.send(&fixture.ann, &yes(&confirmation, &json!({"payload": {"session": true}})));
    assert_eq!(question(&fixture.send(&fixture.ann, &text("old"))), None, "it is allowed in Ann's session");
    let events = fixture.send_to(&bob, ("bob", "s"), &text("old"));
    assert!(question(&events).is_some(), "a rule applies to its session only");
    drop(fixture.server);

    // Stored rules of guests do not apply if guests may no longer decide.
    let text_of = fs::read_to_string(fixture.env.workdir().join("lango.toml")).unwrap();
    fixture.env.file("lango.toml", text_of.replace("users = \"ask\"", "users = \"deny\""));
    let fixture = GuestFixture { server: AuthServer::start(&fixture.env, &[]), ..fixture };
    assert!(refusal(&fixture.send(&fixture.ann, &text("old"))).contains("only an administrator may approve"));
}

/// The author of a message is stored with its run.
#[test]
fn author_of_a_message_is_known_after_a_restart() {
    let fixture = GuestFixture::new("");
    let confirmation = question(&fixture.send(&fixture.owner, &text("touch"))).unwrap();
    drop(fixture.server);
    let fixture = GuestFixture { server: AuthServer::start(&fixture.env, &[]), ..fixture };
    let events = fixture.send(&fixture.ann, &yes(&confirmation, &json!({})));
    assert!(refusal(&events).contains("only an administrator may approve"), "{events}");
    // A user of the terminal is not a guest.
    let mut command = fixture.env.command(["run", "--session", "s", "--json", "touch"]);
    let output = fixture.env.run(command.env("LANGO_USER", "ann")).success().out;
    assert!(output.contains("no one is available to approve it"), "{output}");
}

#[test]
fn approval_users_accepts_only_deny_or_ask() {
    let env = TestEnv::scripted("[approval]\nusers = \"allow\"\n", SCRIPT);
    insta::assert_snapshot!(env.lango(&["run", "hello"]).failure().snapshot(), @"
    lango: lango.toml:3:9: `allow` is not a valid value; expected deny or ask
    [exit 1]
    ");
}
