//! Apps that do not exist: no session is created for them. The sessions of an app that was removed can be read and deleted.

use super::test_app::{TestApp, message, texts};
use serde_json::{Value, json};

#[tokio::test]
async fn a_session_is_created_only_for_an_app_that_exists() {
    let app = TestApp::new();
    let unknown = "Agent not found: 'none'.";
    let sessions = "/apps/none/users/u/sessions";
    for request in [app.post(sessions).json(&json!({"state": {"k": 1}})), app.post(&format!("{sessions}/s"))]
    {
        assert_eq!(request.send().await.expect_status(404).detail(), unknown);
    }
    assert_eq!(app.get(sessions).send().await.expect_status(200).json(), json!([]));
    let missing = app.get(&format!("{sessions}/s")).send().await.expect_status(404);
    assert_eq!(missing.detail(), "Session not found");
    let artifact = json!({"filename": "a", "artifact": {"text": "t"}});
    let artifacts = format!("{sessions}/s/artifacts");
    assert_eq!(app.post(&artifacts).json(&artifact).send().await.expect_status(404).detail(), unknown);
    assert_eq!(app.get(&artifacts).send().await.expect_status(200).json(), json!([]));
    app.patch("/apps/none/users/u/memory").json(&json!({"sessionId": "s"})).send().await.expect_status(404);
    app.delete(&format!("{sessions}/s")).send().await.expect_status(200);
    // The configuration of this app is invalid, but the app exists.
    app.post("/apps/broken/users/u/sessions").send().await.expect_status(200);
}

#[tokio::test]
async fn an_invalid_name_is_an_unknown_app() {
    let app = TestApp::new();
    let names = [
        ("%2E%2E", "'..'"),
        ("%2E", "'.'"),
        ("a%2Fb", "'a/b'"),
        ("..%2F..%2Fetc", "'../../etc'"),
        ("%00", r"'\0'"),
        ("a%0Ab", r"'a\nb'"),
        ("echo%20", "'echo '"),
        ("%C3%BC", "'ü'"),
        ("a-b", "'a-b'"),
        ("%1B%5B31m", r"'\u{1b}[31m'"),
    ];
    let reason = |name: &str| {
        format!(
            "Invalid agent name: {name}. Agent names must be valid Python identifiers (letters, digits, and underscores only)."
        )
    };
    for (segment, name) in names {
        for request in [
            app.post(&format!("/apps/{segment}/users/u/sessions")),
            app.post(&format!("/apps/{segment}/users/u/sessions/s")),
            app.get(&format!("/apps/{segment}/app-info")),
        ] {
            assert_eq!(request.send().await.expect_status(404).detail(), reason(name), "{segment}");
        }
        let listed = app.get(&format!("/apps/{segment}/users/u/sessions")).send().await.expect_status(200);
        assert_eq!(listed.json(), json!([]), "{segment}");
    }
    // Only the beginning of a long name is quoted.
    let mut body = message("hello");
    body["appName"] = json!("x".repeat(10_000));
    let long = app.post("/run").json(&body).send().await.expect_status(404);
    assert_eq!(long.detail(), reason(&format!("'{}…'", "x".repeat(255))));
    app.post("/apps//users/u/sessions").send().await.expect_status(404);
    body["appName"] = json!("");
    app.post("/run").json(&body).send().await.expect_status(400);
}

#[tokio::test]
async fn sessions_of_a_removed_app_are_read_and_deleted_but_get_no_messages() {
    let app = TestApp::new();
    let session = app.create_session().await;
    let artifacts = format!("{session}/artifacts");
    let artifact = json!({"filename": "a.txt", "artifact": {"text": "t"}});
    app.post(&artifacts).json(&artifact).send().await.expect_status(200);
    let ran = app.post("/run").json(&message("hello")).send().await.expect_status(200);
    let run = format!("{session}/runs/{}", ran.header("x-run-id").unwrap());
    app.remove_echo();

    assert_eq!(texts(&app.get(session).send().await.expect_status(200).json()["events"]).len(), 2);
    let listed = app.get("/apps/echo/users/u/sessions").send().await.expect_status(200).json();
    assert_eq!(listed.as_array().unwrap().len(), 1);
    assert_eq!(app.get(&run).send().await.expect_status(200).json()["status"], "done");
    assert_eq!(app.get(&format!("{run}/events")).stream().await.all().await.len(), 1);
    assert_eq!(app.get(&artifacts).send().await.expect_status(200).json(), json!(["a.txt"]));
    app.get(&format!("{artifacts}/a.txt")).send().await.expect_status(200);

    let runs = format!("{session}/runs");
    let delta = json!({"stateDelta": {"k": 1}});
    for request in [
        app.post("/run").json(&message("hello")),
        app.post("/run_sse").json(&message("hello")),
        app.post(&runs).json(&message("hello")),
        app.post("/apps/echo/users/u/sessions"),
        app.post(&artifacts).json(&artifact),
        app.patch(session).json(&delta),
        app.patch("/apps/echo/users/u/memory").json(&json!({"sessionId": "s"})),
    ] {
        assert_eq!(request.send().await.expect_status(404).detail(), "Agent not found: 'echo'.");
    }
    let listed = app.get(&runs).send().await.expect_status(200).json();
    assert_eq!(listed.as_array().unwrap().len(), 1);

    app.delete(&format!("{artifacts}/a.txt")).send().await.expect_status(200);
    assert_eq!(app.delete(session).send().await.expect_status(200).json(), Value::Null);
    app.get(session).send().await.expect_status(404);
}
