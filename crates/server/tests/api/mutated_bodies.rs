//! Bodies of requests with faults, for each route that takes one: each request succeeds, or is refused with one clear error and
//! changes nothing.
//!
//! `LANGO_MUTATION_CASES` and `LANGO_MUTATION_SEED` set the number of cases and the seed.

use super::test_app::TestApp;
use axum::http::Method;
use serde_json::{Value, json};
use std::time::Duration;
use testkit::mutation::{MutationCases, library_wording, mutate_bytes, mutate_json};

const CASES: u64 = 600;

/// The time after which a case counts as hanging.
const LIMIT: Duration = Duration::from_secs(20);

const SESSION: &str = "/apps/echo/users/u/sessions/s";

/// The routes with a body, and a body that each accepts.
fn routes() -> Vec<(Method, String, Value)> {
    let message = json!({"role": "user", "parts": [
        {"text": "hello", "thought": false},
        {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo=", "displayName": "a.png"}},
    ]});
    let run = json!({
        "appName": "echo", "userId": "u", "sessionId": "s", "newMessage": message, "streaming": true,
        "stateDelta": {"a": [1, {"b": null}], "user:c": "x"}, "invocationId": "e-1", "functionCallEventId": "x",
        "customMetadata": {"k": "v"},
    });
    let event = json!({
        "author": "user", "id": "1", "invocationId": "e-0", "timestamp": 1.5, "content": message, "partial": false,
        "actions": {"stateDelta": {}}, "usageMetadata": {"promptTokenCount": 1},
    });
    let answer = json!({"role": "user", "parts": [{"functionResponse": {"id": "x", "name": "f", "response": {"a": 1}}}]});
    let at = |path: &str| format!("{SESSION}{path}");
    vec![
        (
            Method::POST,
            "/apps/echo/users/u/sessions".to_owned(),
            json!({"sessionId": "n", "state": {"a": 1}, "events": [event]}),
        ),
        (Method::POST, "/apps/echo/users/u/sessions/m".to_owned(), json!({"a": {"b": [1]}, "user:c": 2})),
        (Method::PATCH, at(""), json!({"stateDelta": {"a": 1, "temp:b": 2, "c": {"d": []}}})),
        (Method::PATCH, "/apps/echo/users/u/memory".to_owned(), json!({"sessionId": "s"})),
        (
            Method::POST,
            at("/artifacts"),
            json!({
                "filename": "a.txt", "artifact": {"inlineData": {"mimeType": "text/plain", "data": "aGk="}}, "customMetadata": {"k": 1},
            }),
        ),
        (Method::POST, "/run".to_owned(), run.clone()),
        (Method::POST, "/run_sse".to_owned(), run.clone()),
        (
            Method::POST,
            "/run".to_owned(),
            json!({"appName": "echo", "userId": "u", "sessionId": "s", "newMessage": answer}),
        ),
        (
            Method::POST,
            at("/runs"),
            json!({"newMessage": message, "streaming": false, "stateDelta": {"a": 1}}),
        ),
        (Method::POST, at("/runs/none/cancel"), json!({})),
        (Method::POST, "/login".to_owned(), json!({})),
        (Method::POST, "/config/telemetry".to_owned(), json!({"telemetry": true})),
        (Method::POST, "/dev/apps/echo/eval-sets".to_owned(), json!({"evalSet": {"evalSetId": "x"}})),
    ]
}

/// The session, the sessions of the user, and the artifacts.
async fn snapshot(app: &TestApp) -> Value {
    let mut session = app.get(SESSION).send().await.json();
    let list = app.get("/apps/echo/users/u/sessions").send().await.json();
    let artifacts = app.get(&format!("{SESSION}/artifacts")).send().await.json();
    let ids: Vec<Value> = list.as_array().unwrap().iter().map(|session| session["id"].clone()).collect();
    session["lastUpdateTime"] = Value::Null;
    json!([session, ids, artifacts])
}

/// What is wrong with a response, if anything.
fn fault_of(status: u16, text: &str) -> Option<String> {
    if status >= 500 && status != 501 {
        return Some("a server error".to_owned());
    }
    if status < 400 {
        return None;
    }
    let Ok(body) = serde_json::from_str::<Value>(text) else {
        return Some("the error is not JSON".to_owned());
    };
    let messages: Vec<String> = match &body["detail"] {
        Value::String(message) => vec![message.clone()],
        Value::Array(errors) => {
            errors.iter().map(|error| error["msg"].as_str().unwrap_or_default().to_owned()).collect()
        }
        _ => Vec::new(),
    };
    if messages.is_empty() || messages.iter().any(|message| message.trim().is_empty()) {
        return Some("the error has no message".to_owned());
    }
    messages
        .iter()
        .find_map(|message| library_wording(message))
        .map(|words| format!("library wording: {words}"))
}

#[tokio::test]
async fn mutated_body_is_accepted_or_refused_without_effect() {
    let cases = MutationCases::from_env(CASES);
    let (mut faults, mut refused) = (Vec::new(), 0);
    let mut app = TestApp::new();
    app.create_session().await;
    for number in 0..cases.count {
        // The log of a session grows with each run.
        if number % 50 == 49 {
            app = TestApp::new();
            app.create_session().await;
        }
        let mut random = cases.random(number);
        let (method, path, mut value) = random.choose(&routes()).unwrap().clone();
        let mut changes: Vec<String> =
            (0..=random.below(2)).map(|_| mutate_json(&mut random, &mut value)).collect();
        let mut body = value.to_string().into_bytes();
        if random.below(8) == 0 {
            changes.push(mutate_bytes(&mut random, &mut body));
        }
        let before = snapshot(&app).await;
        let request = app.request(method.clone(), &path).body("application/json", body);
        let case = format!("case {number} ({method} {path}: {:.300})", changes.join("; "));
        let Ok(response) = tokio::time::timeout(LIMIT, request.send()).await else {
            faults.push(format!("{case}: hangs"));
            continue;
        };
        let (status, text) = (response.status.as_u16(), response.text().to_owned());
        let mut wrong = fault_of(status, &text);
        if status >= 400 {
            refused += 1;
            let after = snapshot(&app).await;
            wrong = wrong.or((before != after).then(|| "a refused request has an effect".to_owned()));
        }
        if let Some(why) = wrong {
            faults.push(format!("{case}: {why}: {status} {text:.600}"));
        }
    }
    assert!(refused > cases.count / 10, "{refused} of {} cases are refused", cases.count);
    assert!(faults.is_empty(), "seed {}, {} faults:\n{}", cases.seed, faults.len(), faults.join("\n"));
}
