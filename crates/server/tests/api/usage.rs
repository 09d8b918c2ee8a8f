//! Usage, the context of a session, its compaction, and pages of sessions.

use super::test_app::{TestApp, message, message_from};
use serde_json::{Value, json};

const SESSIONS: &str = "/apps/echo/users/u/sessions";

#[tokio::test]
async fn a_page_of_sessions_has_a_cursor_that_survives_changes() {
    let app = TestApp::new();
    for id in ["a", "b", "c", "d", "e"] {
        app.post(&format!("{SESSIONS}/{id}")).json(&json!({"k": id})).send().await.expect_status(200);
    }
    let (mut listed, mut after) = (Vec::new(), String::new());
    loop {
        let page = app.get(&format!("{SESSIONS}?limit=2{after}")).send().await.expect_status(200);
        for session in page.json().as_array().unwrap() {
            assert_eq!(session["state"]["k"], session["id"]);
            listed.push(session["id"].as_str().unwrap().to_owned());
        }
        let Some(next) = page.header("x-next-after") else { break };
        after = format!("&after={next}");
        // A listed session and one that is not listed yet change, and one that is not listed yet is deleted.
        for id in ["e", "a"] {
            let delta = json!({"stateDelta": {"changed": listed.len()}});
            app.patch(&format!("{SESSIONS}/{id}")).json(&delta).send().await.expect_status(200);
        }
        app.delete(&format!("{SESSIONS}/b")).send().await.expect_status(200);
    }
    assert_eq!(listed, ["e", "d", "c", "a"]);
    let zero = app.get(&format!("{SESSIONS}?limit=0")).send().await.expect_status(200);
    assert_eq!(zero.json(), json!([]));
    let all = app.get(SESSIONS).send().await.expect_status(200);
    assert_eq!(all.json().as_array().unwrap().len(), 4);
    assert_eq!(all.header("x-next-after"), None);
}

#[tokio::test]
async fn a_user_sees_only_their_own_usage() {
    let app = TestApp::builder().with_auth().build();
    let (ann, bob, admin) = (app.user_token("ann"), app.user_token("bob"), app.admin_token());
    for path in ["/usage", "/usage?by=user,session&from=2026-01-01&to=2026-12-31"] {
        for token in [&ann, &bob, &admin] {
            let usage = app.get(path).token(token).send().await.expect_status(200).json();
            assert_eq!(usage["usage"], json!([]));
            assert_eq!(usage["total"]["calls"], 0);
        }
    }
    app.get("/usage?user=ann").token(&ann).send().await.expect_status(200);
    app.get("/usage?user=ann").token(&admin).send().await.expect_status(200);
    let refused = app.get("/usage?user=ann").token(&bob).send().await.expect_status(403);
    assert_eq!(refused.detail(), "only administrators see the usage of other users");
    app.get("/usage").send().await.expect_status(401);
}

#[tokio::test]
async fn invalid_parameters_of_usage_are_named() {
    let app = TestApp::new();
    let by = app.get("/usage?by=day,moon").send().await.expect_status(400);
    assert!(by.detail().contains("\"moon\""), "{}", by.detail());
    let from = app.get("/usage?from=2026-02-30").send().await.expect_status(400);
    assert!(from.detail().contains("must be a day"), "{}", from.detail());
}

#[tokio::test]
async fn context_and_usage_of_a_session_add_nothing_to_it() {
    let app = TestApp::new();
    let session = app.create_session().await;
    app.post("/run").json(&message("hello")).send().await.expect_status(200);
    let stored = app.get(session).send().await.expect_status(200).json();
    let context = app.get(&format!("{session}/context")).send().await.expect_status(200).json();
    assert_eq!((&context["agent"], &context["events"]), (&json!("echo_agent"), &json!(2)));
    assert_eq!((&context["budget"], &context["advances"]), (&json!(32_000), &json!(false)));
    assert!(context["history"].as_u64().unwrap() > 0);
    let usage = app.get(&format!("{session}/usage")).send().await.expect_status(200).json();
    assert_eq!(usage["session"]["cost"], Value::Null);
    assert_eq!(app.get(session).send().await.expect_status(200).json(), stored);
    for path in ["context", "usage"] {
        app.get(&format!("{SESSIONS}/none/{path}")).send().await.expect_status(404);
    }
    app.post(&format!("{SESSIONS}/none/compact")).send().await.expect_status(404);
}

#[tokio::test]
async fn compact_leaves_the_older_part_out_of_requests_and_keeps_the_log() {
    let app = TestApp::new();
    let session = app.create_session().await;
    for n in 0..6 {
        app.post("/run").json(&message(&format!("question number {n}"))).send().await.expect_status(200);
    }
    let before = app.get(&format!("{session}/context")).send().await.expect_status(200).json();
    let compacted = app.post(&format!("{session}/compact")).send().await.expect_status(200).json();
    assert_eq!(before["events"], 12);
    let shown = compacted["shownEvents"].as_u64().unwrap();
    assert_eq!(compacted["leftOutEvents"].as_u64().unwrap() + shown, 12);
    assert!((2..=6).contains(&shown), "{compacted}");
    let after = app.get(&format!("{session}/context")).send().await.expect_status(200).json();
    assert_eq!((&after["events"], &after["front"]), (&compacted["shownEvents"], &compacted["front"]));
    let stored = app.get(session).send().await.expect_status(200).json();
    assert_eq!(stored["events"].as_array().unwrap().len(), 12);
    // Messages continue from the new front, which stays.
    app.post("/run").json(&message("and another")).send().await.expect_status(200);
    let next = app.get(&format!("{session}/context")).send().await.expect_status(200).json();
    assert_eq!((&next["front"], next["events"].as_u64()), (&after["front"], Some(shown + 2)));
    while app.post(&format!("{session}/compact")).send().await.expect_status(200).json()["leftOutEvents"] != 0
    {
    }
    let least = app.get(&format!("{session}/context")).send().await.expect_status(200).json();
    assert!(least["events"].as_u64().unwrap() <= 2, "{least}");
}

#[tokio::test]
async fn context_usage_and_compaction_of_another_user_are_not_found() {
    let app = TestApp::builder().with_auth().build();
    let (ann, bob) = (app.user_token("ann"), app.user_token("bob"));
    let session = "/apps/echo/users/ann/sessions/s";
    app.post(session).token(&ann).send().await.expect_status(200);
    app.post("/run").token(&ann).json(&message_from("ann", "hello")).send().await.expect_status(200);
    for path in ["context", "usage"] {
        let own = app.get(&format!("{session}/{path}")).token(&ann);
        own.send().await.expect_status(200);
        app.get(&format!("{session}/{path}")).token(&bob).send().await.expect_status(404);
    }
    app.post(&format!("{session}/compact")).token(&bob).send().await.expect_status(404);
}
