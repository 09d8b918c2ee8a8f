//! Approval of calls: by rules, on the terminal, over HTTP; unattended calls are refused.

use super::{call, exec, one_by_one, run, tool_results};
use crate::{
    common::{QUESTION, Terminal, TestEnv},
    serve::client::TestServer,
};
use serde_json::{Value, json};
use std::fs;

fn write(content: &str) -> Value {
    call("write_file", json!({"path": "a.txt", "content": content}))
}

#[test]
fn unattended_call_that_needs_approval_is_refused_with_the_reason() {
    let env = TestEnv::scripted("", &one_by_one(&[write("new\n")]));
    let output = env.lango(&["run", "--session", "k", "go"]).success();
    insta::assert_snapshot!(output.err.lines().nth(1).unwrap(), @r#"← write_file {"error":"this call was not run: `write_file` writes files, and no one is available to approve it"}"#);
    assert!(!env.workdir().join("a.txt").exists());
}

#[test]
fn configured_rules_decide_by_class_tool_and_command() {
    let toml = r#"
[approval]
write = "allow"
tools = { now = "deny" }
commands = { "touch" = "allow", "touch b" = "deny", "rm" = "deny" }
"#;
    let calls = [write("x"), call("now", json!({})), exec("touch a"), exec("touch b"), exec("ls; /bin/rm a")];
    let env = TestEnv::scripted(toml, &one_by_one(&calls));
    let results = tool_results(&run(&env).success());
    assert_eq!((&results[0]["bytes"], &results[2]["exit_code"]), (&json!(1), &json!(0)));
    let refused: Vec<&str> = [1, 3, 4].map(|at: usize| results[at]["error"].as_str().unwrap()).to_vec();
    insta::assert_snapshot!(refused.join("\n"), @r"
    this call is not allowed: a rule says: deny the tool now
    this call is not allowed: a rule says: deny `touch b …`
    this call is not allowed: a rule says: deny `rm …` (command 2 of 2)
    ");
}

#[test]
fn approval_prompt_shows_the_diff_and_takes_one_key() {
    let env = TestEnv::scripted("", &one_by_one(&[write("new\n")]));
    env.file("a.txt", "old\n");
    let mut terminal = Terminal::open(&env, &["chat"]);
    terminal.type_line("go");
    for shown in ["write_file  a.txt  +1 −1", "-old", "+new", "May write_file run?", QUESTION] {
        terminal.wait_for(shown);
    }
    terminal.type_line("y");
    terminal.wait_for("← write_file");
    terminal.quit();
    assert_eq!(fs::read_to_string(env.workdir().join("a.txt")).unwrap(), "new\n");
}

#[test]
fn rejected_call_is_not_run() {
    let env = TestEnv::scripted("", &one_by_one(&[exec("touch made")]));
    let mut terminal = Terminal::open(&env, &["chat"]);
    terminal.type_line("go");
    terminal.wait_for("touch made");
    terminal.wait_for(QUESTION);
    terminal.type_line("n");
    terminal.wait_for("This tool call is rejected.");
    terminal.quit();
    assert!(!env.workdir().join("made").exists());
}

#[test]
fn always_stores_a_rule_that_can_be_listed_and_revoked() {
    let env = TestEnv::scripted("", &one_by_one(&[exec("touch made"), exec("touch also")]));
    let mut terminal = Terminal::open(&env, &["chat"]);
    terminal.type_line("go");
    terminal.wait_for("For this session or folder, the rule would be: allow `touch …`.");
    terminal.wait_for(QUESTION);
    terminal.type_line("a");
    terminal.wait_for("done");
    terminal.quit();
    assert!(env.workdir().join("made").exists() && env.workdir().join("also").exists());

    let listed = env.lango(&["rules", "list"]).success().out;
    let id = listed.split_whitespace().next().unwrap().to_owned();
    let folder = env.workdir().canonicalize().unwrap();
    assert_eq!(listed, format!("{id}  allow `touch …`  in {}  (user of lango)\n", folder.display()));
    let results = tool_results(&env.lango(&["run", "--json", "go"]).success());
    assert_eq!(results[0]["exit_code"], 0);
    env.lango(&["rules", "revoke", &id]).success();
    assert_eq!(env.lango(&["rules", "list"]).success().out, "");
    let results = tool_results(&env.lango(&["run", "--json", "go"]).success());
    assert!(results[0]["error"].as_str().unwrap().contains("no one is available to approve it"));
    env.lango(&["rules", "revoke", &id]).failure();
}

#[test]
fn approval_question_survives_a_kill() {
    let env = TestEnv::scripted("", &one_by_one(&[exec("echo once >> made")]));
    let mut terminal = Terminal::open(&env, &["chat", "--session", "k"]);
    terminal.type_line("go");
    terminal.wait_for(QUESTION);
    drop(terminal);
    let mut terminal = Terminal::open(&env, &["chat", "--session", "k"]);
    terminal.wait_for("echo once >> made");
    terminal.wait_for(QUESTION);
    terminal.type_line("y");
    terminal.wait_for("← exec");
    terminal.quit();
    assert_eq!(fs::read_to_string(env.workdir().join("made")).unwrap(), "once\n");
}

/// The question as ADK's web page receives it, and the answer as it sends it.
#[test]
fn approval_uses_adk_tool_confirmation_over_http() {
    let env = TestEnv::scripted("", &one_by_one(&[exec("echo once >> made")]));
    let server = TestServer::start(&env);
    let session = server.create_session("lango", "s");
    server.send_message("lango", "s", "go").success();
    let events = server.get(&session)["events"].clone();
    let part = |event: &Value| event["content"]["parts"][0]["functionCall"].clone();
    let question =
        events.as_array().unwrap().iter().map(part).find(|call| call["name"] == "adk_request_confirmation");
    let question = question.unwrap();
    let confirmation = &question["args"]["toolConfirmation"];
    insta::assert_snapshot!(confirmation["hint"].as_str().unwrap());
    assert_eq!(confirmation["confirmed"], false);
    server.kill();

    let server = TestServer::start(&env);
    let answer =
        json!({"id": question["id"], "name": "adk_request_confirmation", "response": {"confirmed": true}});
    let body = json!({
        "appName": "lango", "userId": "u", "sessionId": "s",
        "newMessage": {"role": "user", "parts": [{"functionResponse": answer}]},
    });
    server.request("POST", "/run", &body).success();
    let repeated = server.request("POST", "/run", &body);
    assert_eq!(repeated.status, 409, "an answer is accepted once");
    assert_eq!(fs::read_to_string(env.workdir().join("made")).unwrap(), "once\n");
}
