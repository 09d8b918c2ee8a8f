//! Who may say yes to what the server's machine does: its owner and administrators, and users only if the configuration says so.

use super::{added, local};
use crate::common::{Place, Running};
use serde_json::{Value, json};
use std::fs;

/// A model that calls what it is told to, and says what came of it.
const SCRIPT: &str = r#"{"rules":[
    {"when":{"tool":"any"},"reply":[{"text":"done"}]},
    {"when":{"first_word":"touch"},"reply":[{"call":{"name":"exec","args":{"command":"echo x >> made"}}}]},
    {"when":{"first_word":"danger"},"reply":[{"call":{"name":"danger","args":{}}}]},
    {"when":{"first_word":"old"},"reply":[{"call":{"name":"exec","args":{"command":"touch old"}}}]},
    {"reply":[{"text":"done"}]}]}"#;

const STUB: &str = "[stubs.danger]\nconfirm = true\nresponse = { done = true }\n";

struct Town {
    place: Place,
    server: Running,
    /// Whoever sits at the machine, an administrator elsewhere, and a user.
    owner: String,
    root: String,
    ann: String,
}

impl Town {
    fn new(toml: &str) -> Self {
        let place = Place::scripted(&format!("{toml}\n{STUB}"), SCRIPT);
        let server = Running::start(&place, &[]);
        let (owner, ann) = (local(&place), added(&place, &["laptop", "--user", "ann"]));
        let root = added(&place, &["office", "--admin"]);
        let town = Self { place, server, owner, root, ann };
        town.session("ann", "s");
        town
    }

    fn session(&self, user: &str, id: &str) {
        let path = format!("/apps/lango/users/{user}/sessions/{id}");
        assert_eq!(self.server.ask("POST", &path, &[("authorization", &self.owner)], b"{}").status, 200);
    }

    /// What came of a message of Ann's session that this one sends.
    fn send(&self, who: &str, part: &Value) -> Value {
        self.send_to(who, ("ann", "s"), part)
    }

    fn send_to(&self, who: &str, (user, session): (&str, &str), part: &Value) -> Value {
        let body = json!({
            "appName": "lango", "userId": user, "sessionId": session,
            "newMessage": {"role": "user", "parts": [part]},
        });
        self.server.ask("POST", "/run", &[("authorization", who)], body.to_string().as_bytes()).json()
    }

    fn made(&self) -> usize {
        fs::read_to_string(self.place.here().join("made")).unwrap_or_default().lines().count()
    }
}

fn text(said: &str) -> Value {
    json!({"text": said})
}

/// The question that a run ended with.
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

/// What the first call of a run was answered.
fn refusal(events: &Value) -> String {
    let answer =
        |event: &Value| event["content"]["parts"][0]["functionResponse"]["response"]["error"].clone();
    let mut answers = events.as_array().unwrap().iter().map(answer);
    answers.find_map(|answer| answer.as_str().map(str::to_owned)).unwrap_or_default()
}

#[test]
fn a_user_is_not_asked_whether_the_machine_may_act_and_is_told_who_can_allow_it() {
    let town = Town::new("");
    let events = town.send(&town.ann, &text("touch"));
    assert_eq!(question(&events), None);
    insta::assert_snapshot!(refusal(&events), @r#"this call was not run: a redirection writes to `made`, and on this server only an administrator may approve that. An administrator can allow it by a rule in [approval] of lango.toml, or let users decide with `users = "ask"` there"#);
    assert_eq!(town.made(), 0);
    // A tool that only wants to be confirmed is anybody's.
    let asked = question(&town.send(&town.ann, &text("danger"))).unwrap();
    let events = town.send(&town.ann, &yes(&asked, &json!({}))).to_string();
    assert!(events.contains(r#""response":{"done":true}"#), "{events}");
}

#[test]
fn the_owner_and_administrators_are_asked_in_anybodys_session() {
    let town = Town::new("");
    let mut made = 0;
    for who in [&town.owner, &town.root] {
        // A user who was there before leaves nothing behind.
        town.send(&town.ann, &text("touch"));
        let asked = question(&town.send(who, &text("touch"))).unwrap();
        town.send(who, &yes(&asked, &json!({})));
        made += 1;
        assert_eq!(town.made(), made);
    }
}

#[test]
fn a_users_yes_to_an_administrators_question_does_not_count() {
    let town = Town::new("");
    let asked = question(&town.send(&town.owner, &text("touch"))).unwrap();
    let events = town.send(&town.ann, &yes(&asked, &json!({"payload": {"always": true}})));
    assert!(refusal(&events).contains("only an administrator may approve"), "{events}");
    assert_eq!((town.made(), town.place.lango(&["rules", "list"]).well().out.as_str()), (0, ""));
}

#[test]
fn users_decide_where_the_configuration_says_so_each_for_themselves() {
    let town = Town::new("[approval]\nusers = \"ask\"\n");
    let bob = added(&town.place, &["phone", "--user", "bob"]);
    town.session("bob", "s");
    let asked = question(&town.send(&town.ann, &text("old"))).unwrap();
    town.send(&town.ann, &yes(&asked, &json!({"payload": {"always": true}})));
    assert!(town.place.here().join("old").exists());
    assert_eq!(question(&town.send(&town.ann, &text("old"))), None, "it is a rule of hers now");
    let events = town.send_to(&bob, ("bob", "s"), &text("old"));
    assert!(question(&events).is_some(), "a rule of one user is none of another's");
    drop(town.server);

    // Rules that users have made count no longer when they may not decide any more.
    let text_of = fs::read_to_string(town.place.here().join("lango.toml")).unwrap();
    town.place.file("lango.toml", text_of.replace("users = \"ask\"", "users = \"deny\""));
    let town = Town { server: Running::start(&town.place, &[]), ..town };
    assert!(refusal(&town.send(&town.ann, &text("old"))).contains("only an administrator may approve"));
}

/// A run that a crash cut off is still that of whoever began it.
#[test]
fn whose_message_it_was_outlives_the_server() {
    let town = Town::new("");
    let asked = question(&town.send(&town.owner, &text("touch"))).unwrap();
    drop(town.server);
    let town = Town { server: Running::start(&town.place, &[]), ..town };
    let events = town.send(&town.ann, &yes(&asked, &json!({})));
    assert!(refusal(&events).contains("only an administrator may approve"), "{events}");
    // At the machine itself, nobody is a guest.
    let mut command = town.place.command(["run", "--session", "s", "--json", "touch"]);
    let said = town.place.said(command.env("LANGO_USER", "ann")).well().out;
    assert!(said.contains("no one is available to approve it"), "{said}");
}

#[test]
fn the_configuration_lets_users_ask_or_denies_it_and_nothing_else() {
    let place = Place::scripted("[approval]\nusers = \"allow\"\n", SCRIPT);
    insta::assert_snapshot!(place.lango(&["run", "hello"]).badly().picture(), @"
    lango: lango.toml:3:9: there is no `allow` here; there is deny or ask
    [exit 1]
    ");
}
