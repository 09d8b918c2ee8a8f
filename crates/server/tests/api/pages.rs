//! Responses to web pages: invisible characters are shown as escapes, and programs get them unchanged.

use super::{
    client::TestRequest,
    test_app::{TestApp, message},
};
use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use serde_json::{Value, json};

/// Tag characters, a bidi override and a zero-width space.
const HIDDEN: &str = "a\u{e0041}\u{e0042}\u{202e}\u{200b}z";
const SHOWN: &str = "a<U+E0041><U+E0042><U+202E><U+200B>z";

fn of_page(request: TestRequest) -> TestRequest {
    request.header("sec-fetch-site", "same-origin").header("sec-fetch-dest", "empty")
}

/// Whether any character of a response is one of the hidden ones, also as an escape. Two backslashes are a visible one.
fn is_hidden(text: &str) -> bool {
    text.contains(['\u{e0041}', '\u{e0042}', '\u{202e}', '\u{200b}'])
        || text.replace("\\\\", "").contains("\\u")
}

/// Reads a path as a program and as a page, and returns both JSON values. The lengths are those of the bodies.
async fn both(app: &TestApp, path: &str) -> (Value, Value) {
    let program = app.get(path).send().await;
    let page = of_page(app.get(path)).send().await;
    assert!(!is_hidden(page.text()), "{path}: {}", page.text());
    assert_eq!(program.status, page.status, "{path}");
    for response in [&program, &page] {
        if let Some(length) = response.header("content-length") {
            assert_eq!(length, response.text().len().to_string(), "{path}");
        }
    }
    (program.json(), page.json())
}

async fn stored() -> (TestApp, &'static str) {
    let app = TestApp::new();
    let session = app.create_session().await;
    let delta = json!({"stateDelta": {HIDDEN: {HIDDEN: [HIDDEN]}}});
    app.patch(session).json(&delta).send().await.expect_status(200);
    app.post("/run").json(&message(HIDDEN)).send().await.expect_status(200);
    let file = json!({"filename": HIDDEN, "artifact": {"text": HIDDEN}});
    app.post(&format!("{session}/artifacts")).json(&file).send().await.expect_status(200);
    (app, session)
}

#[tokio::test]
async fn a_page_sees_hidden_characters_in_sessions_and_a_program_gets_them() {
    let (app, session) = stored().await;
    let (program, page) = both(&app, session).await;
    assert_eq!(program["state"][HIDDEN][HIDDEN][0], HIDDEN);
    assert_eq!(page["state"][SHOWN][SHOWN][0], SHOWN);
    assert_eq!(program["events"][1]["content"]["parts"][0]["text"], format!("echo: {HIDDEN}"));
    assert_eq!(page["events"][1]["content"]["parts"][0]["text"], format!("echo: {SHOWN}"));
    let (program, page) = both(&app, &format!("{session}/artifacts")).await;
    assert_eq!((program, page), (json!([HIDDEN]), json!([SHOWN])));
    for path in ["/apps/echo/users/u/sessions", "/dev/apps/echo/debug/trace/session/s"] {
        both(&app, path).await;
    }
}

#[tokio::test]
async fn a_text_file_is_shown_and_other_files_are_unchanged() {
    let (app, session) = stored().await;
    for (kind, shown) in [("text/plain", SHOWN), ("application/json", SHOWN), ("image/svg+xml", HIDDEN)] {
        let artifact = json!({"inlineData": {"mimeType": kind, "data": BASE64.encode(HIDDEN)}});
        let file = json!({"filename": "f", "artifact": artifact});
        app.post(&format!("{session}/artifacts")).json(&file).send().await.expect_status(200);
        let (program, page) = both(&app, &format!("{session}/artifacts/f")).await;
        assert_eq!(program["inlineData"]["data"], BASE64.encode(HIDDEN), "{kind}");
        assert_eq!(page["inlineData"]["data"], BASE64.encode(shown), "{kind}");
        let (_, version) = both(&app, &format!("{session}/artifacts/f/versions/0")).await;
        assert_eq!(version["inlineData"]["data"], BASE64.encode(SHOWN), "{kind}");
    }
}

#[tokio::test]
async fn a_page_sees_hidden_characters_in_streams_and_errors() {
    let app = TestApp::new();
    app.create_session().await;
    let mut body = message(HIDDEN);
    for streaming in [false, true] {
        body["streaming"] = json!(streaming);
        let events = of_page(app.post("/run_sse")).json(&body).stream().await.all().await;
        let events: Vec<String> = events.iter().map(|event| event.data.to_string()).collect();
        assert!(events.iter().all(|event| !is_hidden(event)), "{events:?}");
        assert!(events.last().unwrap().contains(SHOWN), "{events:?}");
    }
    body["appName"] = json!(HIDDEN);
    for path in ["/run", "/run_sse"] {
        let refused = of_page(app.post(path)).json(&body).send().await;
        assert!(refused.status.is_client_error() && !is_hidden(refused.text()), "{}", refused.text());
    }
    let invalid = of_page(app.post("/run")).json(&json!({HIDDEN: HIDDEN})).send().await.expect_status(422);
    assert!(!is_hidden(invalid.text()) && invalid.text().contains(SHOWN), "{}", invalid.text());
}

#[tokio::test]
async fn long_responses_of_many_chunks_are_complete() {
    let app = TestApp::new();
    let session = app.create_session().await;
    let long = format!("{HIDDEN}{}", "\u{e9}\u{1f469}\u{200d}\u{1f467}\\\"".repeat(50_000));
    for _ in 0..3 {
        app.post("/run").json(&message(&long)).send().await.expect_status(200);
    }
    let (program, page) = both(&app, session).await;
    let expected: Value = serde_json::from_str(&program.to_string().replace(HIDDEN, SHOWN)).unwrap();
    assert!(page == expected, "the values differ");
}

#[tokio::test]
async fn the_login_cookie_marks_a_page_on_a_network_without_sec_fetch_headers() {
    let app = TestApp::builder().with_auth().build();
    let admin = app.admin_token();
    let body = json!({HIDDEN: 1});
    let request = || app.post("/run").json(&body);
    let program = request().token(&admin).send().await.expect_status(422);
    assert!(is_hidden(program.text()), "{}", program.text());
    let page = request().token(&admin).header("cookie", "lango-18789=x").send().await.expect_status(422);
    assert!(!is_hidden(page.text()) && page.text().contains(SHOWN), "{}", page.text());
}
