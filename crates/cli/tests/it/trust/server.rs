//! Agents that change while a server runs in a trusted folder.

use super::{agent, lango};
use crate::{common::TestEnv, serve::client::TestServer};
use serde_json::{Value, json};

fn broken(server: &TestServer) -> Value {
    server.get("/readyz")["apps"]["broken"].clone()
}

#[test]
fn agent_that_does_more_is_not_loaded_until_it_is_trusted() {
    let env = TestEnv::new();
    env.file("agents/guide/root_agent.yaml", agent("one", "{name: now}"));
    lango(&env, &["trust", "add"]).success();
    let server = TestServer::spawn(&mut env.command_without_trust(["serve", "--port", "0", "--no-auth"]));
    let tools = || server.get("/apps/guide/app-info")["agents"]["guide"]["tools"].to_string();
    let before = tools();
    env.file("agents/guide/root_agent.yaml", agent("a longer instruction", "{name: now}"));
    assert_eq!((tools(), broken(&server)), (before.clone(), json!([])));
    env.file("agents/guide/root_agent.yaml", agent("two", "{name: now}, {name: exec}"));
    assert_eq!(tools(), before, "the previous version stays in use");
    let fault = &broken(&server)[0];
    assert_eq!((&fault["kind"], &fault["servesPrevious"]), (&json!("untrusted"), &json!(true)));
    server.wait_for_log("the app guide cannot be loaded: ");
    assert!(server.log().contains("review and trust it again with: lango trust add /"), "{}", server.log());
    env.file("agents/new/root_agent.yaml", agent("three", ""));
    server.wait_for_log("the app new cannot be loaded: ");
    lango(&env, &["trust", "add"]).success();
    server.wait_for_log("the app guide can be loaded again");
    assert!(tools().contains("exec"), "{}", tools());
}
