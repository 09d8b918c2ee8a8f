//! Modes and scopes on a server: the operator sets the mode, an administrator that of a session, a guest none.

use super::write;
use crate::{
    common::{AuthServer, TestEnv},
    serve_auth::{added, local},
    tools::call,
};
use serde_json::{Value, json};

struct ModeFixture {
    env: TestEnv,
    server: AuthServer,
    owner: String,
    ann: String,
}

const SESSION: &str = "/apps/lango/users/ann/sessions/s";

impl ModeFixture {
    fn new(toml: &str) -> Self {
        let script = json!({"rules": [
            {"when": {"tool": "any"}, "reply": [{"text": "done"}]},
            {"when": {"first_word": "page"}, "reply": [{"call": call("page", json!({}))}]},
            {"when": {"first_word": "edit"}, "reply": [{"call": write("src/a", "1")}]},
            {"when": {"first_word": "more"}, "reply": [{"call": write("src/b", "1")}]},
            {"reply": [{"text": "done"}]},
        ]});
        let env =
            TestEnv::scripted(&format!("{toml}\n[stubs.page]\nuntrusted = true\n"), &script.to_string());
        let server = AuthServer::start(&env, &[]);
        let (owner, ann) = (local(&env), added(&env, &["laptop", "--user", "ann"]));
        let fixture = Self { env, server, owner, ann };
        assert_eq!(fixture.request(&fixture.owner, "POST", SESSION, &json!({})).0, 200);
        fixture
    }

    fn request(&self, who: &str, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let answer =
            self.server.request(method, path, &[("authorization", who)], body.to_string().as_bytes());
        (answer.status, answer.json())
    }

    fn set_mode(&self, who: &str, mode: &Value) -> u16 {
        self.request(who, "PATCH", SESSION, &json!({"stateDelta": {"lango:mode": mode}})).0
    }

    /// Whether the call that the message leads to was run.
    fn runs(&self, who: &str, text: &str) -> bool {
        let message = json!({"role": "user", "parts": [{"text": text}]});
        let body = json!({"appName": "lango", "userId": "ann", "sessionId": "s", "newMessage": message});
        let (status, events) = self.request(who, "POST", "/run", &body);
        assert_eq!(status, 200, "{events}");
        !events.to_string().contains("\"error\":")
    }
}

#[test]
fn guest_cannot_set_the_mode_of_a_session() {
    let fixture = ModeFixture::new("");
    assert_eq!(fixture.set_mode(&fixture.ann, &json!("auto")), 403);
    let (status, _) = fixture.request(
        &fixture.ann,
        "POST",
        "/apps/lango/users/ann/sessions/t",
        &json!({"lango:mode": "auto"}),
    );
    assert_eq!(status, 403);
    assert!(!fixture.runs(&fixture.ann, "edit"));
    assert!(!fixture.env.workdir().join("src/a").exists());
}

#[test]
fn administrator_sets_the_mode_of_a_session() {
    let fixture = ModeFixture::new("");
    assert_eq!(fixture.set_mode(&fixture.owner, &json!("all")), 400);
    assert_eq!(fixture.set_mode(&fixture.owner, &json!("edits")), 200);
    assert!(fixture.runs(&fixture.ann, "edit"));
    assert_eq!(fixture.set_mode(&fixture.owner, &Value::Null), 200);
    assert!(!fixture.runs(&fixture.ann, "more"));
}

#[test]
fn untrusted_text_ends_the_mode_of_the_server_until_an_administrator_sets_it() {
    let fixture = ModeFixture::new("[approval]\nmode = \"edits\"\n");
    assert!(fixture.runs(&fixture.ann, "edit") && fixture.runs(&fixture.ann, "page"));
    assert!(!fixture.runs(&fixture.ann, "more"));
    assert_eq!(fixture.set_mode(&fixture.ann, &json!("edits")), 403);
    assert_eq!(fixture.set_mode(&fixture.owner, &json!("edits")), 200);
    assert!(fixture.runs(&fixture.ann, "more"));
}
