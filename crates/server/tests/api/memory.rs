//! Search, and ADK's memory route.

use super::test_app::{TestApp, message};
use serde_json::json;

#[tokio::test]
async fn messages_are_found_by_their_words() {
    let app = TestApp::new();
    app.create_session().await;
    app.post("/run").json(&message("my zebra is called Zoe")).send().await.expect_status(200);
    let found =
        app.get("/apps/echo/users/u/search?query=ZEBRA&limit=1").send().await.expect_status(200).json();
    assert_eq!(
        (&found["hits"][0]["sessionId"], &found["isComplete"]),
        (&json!("s"), &json!(true)),
        "{found}"
    );
    assert_eq!(found["hits"].as_array().map(Vec::len), Some(1));
    assert!(found["hits"][0]["snippet"].as_str().is_some_and(|snippet| snippet.contains("zebra")), "{found}");
    let other = app.get("/apps/echo/users/bob/search?query=zebra").send().await.expect_status(200).json();
    assert_eq!(other["hits"], json!([]));
    app.get("/apps/echo/users/u/search").send().await.expect_status(400);
}

#[tokio::test]
async fn users_search_only_their_own_messages() {
    let app = TestApp::builder().with_auth().build();
    let token = format!("Bearer {}", app.user_token("bob"));
    let foreign = app.get("/apps/echo/users/ann/search?query=zebra").header("authorization", &token);
    foreign.send().await.expect_status(404);
    let own = app.get("/apps/echo/users/bob/search?query=zebra").header("authorization", &token);
    own.send().await.expect_status(200);
}

#[tokio::test]
async fn a_session_is_added_to_the_memory() {
    let app = TestApp::new();
    let memory = || app.patch("/apps/echo/users/u/memory").json(&json!({"sessionId": "s"}));
    memory().send().await.expect_status(404);
    app.create_session().await;
    assert_eq!(memory().send().await.expect_status(200).text(), "null");
}
