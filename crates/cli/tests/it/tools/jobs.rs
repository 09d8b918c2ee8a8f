//! Jobs of one user are not there for another.

use super::{answers_in, call};
use crate::{
    common::{Place, Running},
    serve_auth::added,
};
use serde_json::{Value, json};

#[test]
fn another_user_does_not_list_read_or_stop_a_job() {
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
    let place = Place::scripted("[approval]\nexecute = \"allow\"\n", &script.to_string());
    let server = Running::start(&place, &[]);
    let (ann, bob) = (added(&place, &["a", "--user", "ann"]), added(&place, &["b", "--user", "bob"]));
    let say = |token: &str, user: &str, session: &str, word: &str| {
        let ask = |path: &str, body: &Value| {
            server.ask("POST", path, &[("authorization", token)], body.to_string().as_bytes())
        };
        ask(&format!("/apps/lango/users/{user}/sessions"), &json!({"sessionId": session}));
        let answer = ask(
            "/run",
            &json!({
                "appName": "lango", "userId": user, "sessionId": session,
                "newMessage": {"role": "user", "parts": [{"text": word}]},
            }),
        );
        answers_in(answer.json().as_array().unwrap())
    };
    assert_eq!(say(&ann, "ann", "s", "begin")[0]["job"], "job-1");
    let pried = say(&bob, "bob", "s", "pry");
    assert_eq!(pried[0], json!({"jobs": []}));
    for answer in &pried[1..] {
        assert!(answer["error"].as_str().unwrap().contains("job `job-1` does not exist"), "{answer}");
    }
    // It is hers in another conversation, too.
    let seen = &say(&ann, "ann", "t", "look")[0];
    assert_eq!((&seen["state"], &seen["new_output"]), (&json!("running"), &json!("word-of-ann\n")));
    assert_eq!(say(&ann, "ann", "u", "end")[0]["state"], "stopped");
}
