//! Scopes of rules: this call, this session, this folder and working directory.

use super::{asked, write};
use crate::{
    common::{QUESTION, Terminal, TestEnv},
    serve::client::TestServer,
    tools::{call, exec, one_by_one, tool_results},
};
use serde_json::{Value, json};
use std::{fs, os::unix::fs::PermissionsExt};

/// Runs the script unattended: calls that ask are refused.
fn outcomes(env: &TestEnv, session: &str) -> Vec<bool> {
    let output = env.lango(&["run", "--json", "--session", session, "go"]).success();
    tool_results(&output).iter().map(|result| result["error"].is_null()).collect()
}

/// Answers the first question, and rejects all others.
fn answer_first(env: &TestEnv, key: &str, others: usize) {
    let mut terminal = asked(env);
    terminal.type_line(key);
    for _ in 0..others {
        terminal.wait_for(QUESTION);
        terminal.type_line("n");
    }
    terminal.wait_for("done");
    terminal.quit();
}

#[test]
fn rule_for_the_session_survives_a_restart_and_does_not_reach_another_session() {
    let env = TestEnv::scripted("", &one_by_one(&[write("src/a", "1")]));
    answer_first(&env, "s", 0);
    assert_eq!(env.lango(&["rules", "list"]).success().out, "", "it is not in the file of rules");
    assert_eq!(outcomes(&env, "k"), [true]);
    assert_eq!(outcomes(&env, "other"), [false]);
}

/// Both calls are in one step, so that their answers are stored together.
#[test]
fn rules_of_two_calls_in_one_step_are_both_kept() {
    let calls = [write("src/a", "1"), write("docs/b", "1")];
    let both: Vec<Value> = calls.iter().map(|call| json!({"call": call})).collect();
    let script = json!({"rules": [
        {"when": {"tool": "any"}, "reply": [{"text": "done"}]},
        {"when": {"first_word": "go"}, "reply": both},
        {"reply": [{"text": "done"}]},
    ]});
    let env = TestEnv::scripted("", &script.to_string());
    let server = TestServer::start(&env);
    let session = server.create_session("lango", "s");
    server.send_message("lango", "s", "go").success();
    let events = server.get(&session)["events"].clone();
    let parts =
        events.as_array().unwrap().iter().flat_map(|event| event["content"]["parts"].as_array().unwrap());
    let questions =
        parts.map(|part| &part["functionCall"]).filter(|call| call["name"] == "adk_request_confirmation");
    let answer = |question: &Value| {
        let response = json!({"confirmed": true, "payload": {"session": true}});
        let name = "adk_request_confirmation";
        json!({"functionResponse": {"id": question["id"], "name": name, "response": response}})
    };
    let answers: Vec<Value> = questions.map(answer).collect();
    assert_eq!(answers.len(), 2);
    let body = json!({
        "appName": "lango", "userId": "u", "sessionId": "s",
        "newMessage": {"role": "user", "parts": answers},
    });
    server.request("POST", "/run", &body).success();
    let events = server.send_message("lango", "s", "go").success().to_string();
    assert!(!events.contains("adk_request_confirmation"), "{events}");
}

fn script(env: &TestEnv, path: &str) {
    env.file(path, "#!/bin/sh\necho ran >> runs\n");
    fs::set_permissions(env.workdir().join(path), PermissionsExt::from_mode(0o755)).unwrap();
}

#[test]
fn rule_is_bound_to_its_folder_and_working_directory() {
    let in_sub = call("exec", json!({"command": "./build.sh", "workdir": "sub"}));
    let calls: [Value; 3] = [exec("./build.sh"), exec("cd sub && ./build.sh"), in_sub];
    let env = TestEnv::scripted("", &one_by_one(&calls));
    for path in ["build.sh", "sub/build.sh", "other/build.sh"] {
        script(&env, path);
    }
    answer_first(&env, "a", 2);
    assert_eq!(outcomes(&env, "2"), [true, false, false]);
    assert!(!env.workdir().join("sub/runs").exists());
    let listed = env.lango(&["rules", "list"]).success().out;
    assert!(
        listed.contains("allow `./build.sh`  in ") && listed.contains("here  (user of lango)"),
        "{listed}"
    );

    // Another folder of the same user.
    for file in ["lango.toml", "script.yaml"] {
        fs::copy(env.workdir().join(file), env.workdir().join("other").join(file)).unwrap();
    }
    let mut command = env.command(["run", "--json", "--session", "3", "go"]);
    let output = env.run(command.current_dir(env.workdir().join("other"))).success();
    assert!(tool_results(&output)[0]["error"].as_str().unwrap().contains("no one is available"));
    assert!(!env.workdir().join("other/runs").exists());
}

#[test]
fn rule_for_another_directory_of_the_folder_is_listed_with_it() {
    let in_sub = call("exec", json!({"command": "./build.sh", "workdir": "sub"}));
    let env = TestEnv::scripted("", &one_by_one(&[in_sub, exec("./build.sh")]));
    script(&env, "sub/build.sh");
    script(&env, "build.sh");
    answer_first(&env, "a", 1);
    assert_eq!(outcomes(&env, "2"), [true, false]);
    let listed = env.lango(&["rules", "list"]).success().out;
    assert!(listed.contains("here/sub, folder "), "{listed}");
}

#[test]
fn file_tools_are_allowed_by_path_pattern_and_never_on_protected_paths() {
    let calls = [
        write("src/a", "1"),
        write("src/deep/b", "1"),
        write("c", "1"),
        write("src/.git/config", "1"),
        write("src/lango.toml", "1"),
    ];
    let env = TestEnv::scripted("", &one_by_one(&calls));
    answer_first(&env, "a", 3);
    assert_eq!(outcomes(&env, "2"), [true, true, false, false, false]);
}

#[test]
fn wide_prefixes_are_not_offered() {
    let commands = [
        "make test",
        "git commit -m x",
        "cargo test -q",
        "npm run build",
        "git diff --output=x",
        "go test ./...",
    ];
    for command in commands {
        let env = TestEnv::scripted("", &one_by_one(&[exec(command)]));
        let mut terminal = Terminal::open(&env, &["chat", "--session", "k"]);
        terminal.wait_for("› ");
        terminal.type_line("go");
        terminal.wait_for(&format!("the rule would be: allow `{command}`."));
        terminal.wait_for(QUESTION);
    }
}

#[test]
fn rule_of_an_older_version_is_confirmed_once_more() {
    let env = TestEnv::scripted("", &one_by_one(&[exec("make all")]));
    fs::create_dir_all(env.home()).unwrap();
    let old = r#"{"id":"0ld","app":"lango","user":"user","decision":"allow","command":["make"]}"#;
    fs::write(env.home().join("rules.jsonl"), format!("{old}\n")).unwrap();
    assert_eq!(outcomes(&env, "1"), [false]);
    insta::assert_snapshot!(env.lango(&["rules", "list"]).success().out, @r#"0ld  allow `make …`  of an older version: not in force; the next matching call asks, and "always" confirms it  (user of lango)"#);
    let mut terminal = Terminal::open(&env, &["chat", "--session", "k"]);
    terminal.wait_for("› ");
    terminal.type_line("go");
    terminal.wait_for("0ld");
    terminal.wait_for(QUESTION);
    terminal.type_line("a");
    terminal.wait_for("done");
    terminal.quit();
    assert_eq!(outcomes(&env, "2"), [true]);
    let listed = env.lango(&["rules", "list"]).success().out;
    assert!(listed.contains("allow `make all`  in ") && !listed.contains("0ld"), "{listed}");
}

#[test]
fn rule_of_one_user_does_not_apply_to_another() {
    let env = TestEnv::scripted("", &one_by_one(&[write("src/a", "1")]));
    answer_first(&env, "a", 0);
    assert_eq!(outcomes(&env, "2"), [true]);
    let mut command = env.command(["run", "--json", "go"]);
    let output = env.run(command.env("LANGO_USER", "ann")).success();
    assert!(!tool_results(&output)[0]["error"].is_null());
}
