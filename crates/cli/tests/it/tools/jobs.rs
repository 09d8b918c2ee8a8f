//! Jobs are visible to their user only.

use super::{call, tool_results_in};
use crate::{
    common::{AuthServer, TestEnv},
    serve_auth::added,
};
use serde_json::{Value, json};

#[test]
fn jobs_of_another_user_cannot_be_listed_read_or_stopped() {
    let rule = |word: &str, calls: &[Value]| {
        let calls: Vec<Value> = calls.iter().map(|call| json!({"call": call})).collect();
        json!({"when": {"first_word": word, "turn": 0}, "reply": calls})
    };
    let job = json!({"job": "job-1"});
    let script = json!({"rules": [
        rule("begin", &[call("exec_start", json!({"command": "echo word-of-ann; sleep 1000"}))]),
        rule("pry", &[call("exec_status", json!({})), call("exec_status", job.clone()), call("exec_stop", job.clone())]),
        rule("look", &[call("exec_status", json!({"job": "job-1", "wait_s": 30}))]),
        rule("end", &[call("exec_stop", job)]),
        {"reply": [{"text": "done"}]},
    ]});
    let env = TestEnv::scripted("[approval]\nexecute = \"allow\"\n", &script.to_string());
    let server = AuthServer::start(&env, &[]);
    let (ann, bob) = (added(&env, &["a", "--user", "ann"]), added(&env, &["b", "--user", "bob"]));
    let say = |token: &str, user: &str, session: &str, word: &str| {
        let ask = |path: &str, body: &Value| {
            server.request("POST", path, &[("authorization", token)], body.to_string().as_bytes())
        };
        ask(&format!("/apps/lango/users/{user}/sessions"), &json!({"sessionId": session}));
        let answer = ask(
            "/run",
            &json!({
                "appName": "lango", "userId": user, "sessionId": session,
                "newMessage": {"role": "user", "parts": [{"text": word}]},
            }),
        );
        tool_results_in(answer.json().as_array().unwrap())
    };
    assert_eq!(say(&ann, "ann", "s", "begin")[0]["job"], "job-1");
    let pried = say(&bob, "bob", "s", "pry");
    assert_eq!(pried[0], json!({"jobs": []}));
    for answer in &pried[1..] {
        assert!(answer["error"].as_str().unwrap().contains("job `job-1` does not exist"), "{answer}");
    }
    // The user can access the job from another session.
    let seen = &say(&ann, "ann", "t", "look")[0];
    assert_eq!((&seen["state"], &seen["new_output"]), (&json!("running"), &json!("word-of-ann\n")));
    assert_eq!(say(&ann, "ann", "u", "end")[0]["state"], "stopped");
}
