//! Resources of MCP servers in messages, `@server:uri`: what is stored, what is refused, and the mark of untrusted text.

use super::{by_word, fake, test_env, tool_results};
use crate::{
    common::{AuthServer, CliOutput, TestEnv},
    serve_auth::added,
};
use serde_json::{Value, json};

const RULES: &str = "[approval]\nexecute = \"allow\"\n";

pub(super) fn with_resources(more: &str, calls: &[(&str, Value)]) -> TestEnv {
    let env = test_env(|env| format!("{RULES}{}", fake(env, more)), calls);
    env.file("offers", "");
    env
}

pub(super) fn send(env: &TestEnv, message: &str) -> CliOutput {
    env.lango(&["run", "--json", "--session", "k", message])
}

/// The parts of the stored messages of the user.
pub(super) fn stored_parts(env: &TestEnv) -> Vec<Value> {
    let events = env.lango(&["sessions", "show", "k", "--json"]).success().json_lines();
    let messages = events.into_iter().filter(|event| event["author"] == "user");
    messages.flat_map(|event| event["content"]["parts"].as_array().cloned().unwrap_or_default()).collect()
}

#[test]
fn named_resources_are_added_to_the_message() {
    let env = with_resources("trusted = true", &[]);
    send(&env, "What is in @fake:note://1, and (@fake:note://picture)? Tell bob@fake:25 and @nobody:x://1.")
        .success();
    let parts: Vec<String> = stored_parts(&env).iter().map(Value::to_string).collect();
    insta::assert_snapshot!(parts.join("\n"), @r#"
    {"text":"What is in @fake:note://1, and (@fake:note://picture)? Tell bob@fake:25 and @nobody:x://1."}
    {"text":"\n\n[Resource fake:note://1]\nBuy milk."}
    {"text":"\n\n[Resource fake:note://picture, image/png]\n"}
    {"inlineData":{"data":"iVBORw0KGgo=","mimeType":"image/png"}}
    "#);
    let request = env.lango(&["sessions", "show", "k", "--as", "anthropic"]).success().out;
    assert!(request.contains("[Resource fake:note://1]") && request.contains("Buy milk."), "{request}");
}

#[test]
fn long_resource_is_shortened_and_stored_whole() {
    let env = with_resources("trusted = true", &[]);
    send(&env, "sum up @fake:note://long").success();
    let parts = stored_parts(&env);
    let text = parts[1]["text"].as_str().unwrap();
    assert!(text.len() < 50_000, "{}", text.len());
    assert!(text.contains("bytes left out") && text.contains("bytes, stored as out-"), "{text}");
}

#[test]
fn message_with_an_unavailable_resource_is_not_sent() {
    let broken = "[mcp.broken]\ncommand = \"no-such-program\"\nsandbox = \"off\"\n";
    let env = with_resources(broken, &[]);
    let error = |message: &str| send(&env, message).failure().err.lines().last().unwrap().to_owned();
    insta::assert_snapshot!(error("read @fake:note://9"), @"lango: the message was not sent: the MCP server `fake` (lango.toml) did not return the resource `note://9`: Resource not found");
    insta::assert_snapshot!(error("read @broken:note://1"), @"lango: the message was not sent: the MCP server `broken` (lango.toml) does not start: the program `no-such-program` is not on the PATH; install it, or set `command` to its full path");
    let many: Vec<String> = (0..11).map(|at| format!("@fake:note://{at}")).collect();
    insta::assert_snapshot!(error(&many.join(" ")), @"lango: the message was not sent: it names 11 resources; at most 10 are possible");
    // The refused message did not create the session.
    assert!(env.lango(&["sessions", "show", "k"]).failure().err.contains("there is no session"));
}

#[test]
fn resource_of_an_untrusted_server_marks_the_session() {
    // The scripted model matches the last text of the message.
    let act = by_word(&[("[Resource", "exec", json!({"command": "touch x"}))]);
    let results = |more: &str| {
        let env = with_resources(more, &[]);
        env.file("script.yaml", &act);
        tool_results(&send(&env, "go by @fake:note://1").success().json_lines())
    };
    let refused = results("")[0]["error"].as_str().unwrap().to_owned();
    assert!(
        refused.contains("untrusted text is in the conversation (from the MCP server fake)"),
        "{refused}"
    );
    assert_eq!(results("trusted = true")[0]["exit_code"], 0);
}

#[test]
fn piped_input_cannot_name_resources() {
    let env = with_resources("", &[]);
    env.lango_with_stdin(&["run", "--session", "k", "sum this up"], b"see @fake:note://1").success();
    let parts = stored_parts(&env);
    assert_eq!(parts.len(), 1, "{parts:?}");
    assert_eq!(parts[0]["text"], "sum this up\n\nStandard input:\nsee @fake:note://1");
}

#[test]
fn chat_adds_resources_and_reports_unknown_ones() {
    let env = with_resources("", &[]);
    let chat = env.lango_with_stdin(&["chat", "--session", "k"], b"read @fake:note://1\n").success();
    assert!(chat.out.contains("done"), "{chat:?}");
    assert_eq!(stored_parts(&env)[1]["text"], "\n\n[Resource fake:note://1]\nBuy milk.");
    let chat = env.lango_with_stdin(&["chat", "--session", "k"], b"read @fake:note://9\n").failure();
    assert!(chat.err.contains("Resource not found"), "{chat:?}");
}

#[test]
fn user_of_a_server_names_only_resources_of_servers_that_the_app_uses() {
    let env = with_resources("", &[]);
    for (app, tool) in [("with", "\"fake__*\""), ("without", "exec")] {
        let text = format!(
            "name: {app}\nmodel: scripted/../../script.yaml\ninstruction: x\ntools:\n  - name: {tool}\n"
        );
        env.file(&format!("agents/{app}/root_agent.yaml"), text);
    }
    let server = AuthServer::start(&env, &[]);
    let ann = added(&env, &["laptop", "--user", "ann"]);
    let auth = [("authorization", ann.as_str()), ("idempotency-key", "once")];
    let run = |app: &str, text: &str| {
        let session = format!("/apps/{app}/users/ann/sessions/s");
        server.request("POST", &session, &auth[..1], b"{}");
        let body = json!({
            "appName": app, "userId": "ann", "sessionId": "s",
            "newMessage": {"role": "user", "parts": [{"text": text}]},
        });
        let answer = server.request("POST", "/run", &auth, body.to_string().as_bytes());
        (answer, server.get(&session, &auth[..1]).json())
    };
    let (refused, session) = run("without", "read @fake:note://1");
    assert_eq!(refused.status, 400);
    insta::assert_snapshot!(refused.detail(), @"the message was not sent: the agents of this app do not use the MCP server `fake`");
    assert_eq!(session["events"], json!([]));
    let (refused, session) = run("with", "read @fake:note://picture");
    assert_eq!((refused.status, &session["events"]), (400, &json!([])));
    insta::assert_snapshot!(refused.detail(), @"the message was not sent: the MCP server `fake` does not list the resource `note://picture`, and only an administrator may name others");
    let (answer, session) = run("with", "read @fake:note://1");
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(session["state"]["lango:untrusted"], "from the MCP server fake");
    assert_eq!(
        session["events"][0]["content"]["parts"][1]["text"],
        "\n\n[Resource fake:note://1]\nBuy milk."
    );
    // A repeated request gets the run of the first one, although the resource is gone.
    env.file("gone", "");
    let (repeated, again) = run("with", "read @fake:note://1");
    assert_eq!((repeated.status, &again["events"]), (200, &session["events"]));
}
