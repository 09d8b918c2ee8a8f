//! The router nested under a path of another router.

use super::test_app::{TestApp, message_from, text};
use axum::{Router, http::Method, routing::get};
use serde_json::json;

fn nested() -> TestApp {
    TestApp::builder().with_auth().nest("/agents").build()
}

#[tokio::test]
async fn public_routes_stay_public_and_others_need_a_token() {
    let app = nested();
    for path in
        ["/agents/health", "/agents/readyz", "/agents/docs", "/agents/openapi.json", "/agents/dev-ui/config"]
    {
        app.get(path).send().await.expect_status(200);
    }
    for path in ["/agents/list-apps", "/agents/metrics", "/agents/no-such-route"] {
        app.get(path).send().await.expect_status(401);
    }
    let admin = app.admin_token();
    assert_eq!(app.get("/agents/list-apps").token(&admin).send().await.json(), json!(["broken", "echo"]));
    let unknown = app.get("/agents/no-such-route").token(&admin).send().await.expect_status(404);
    assert_eq!(unknown.detail(), "Not Found");
    let wrong_method = app.delete("/agents/list-apps").token(&admin).send().await.expect_status(405);
    assert_eq!(wrong_method.detail(), "Method Not Allowed");
    app.get("/health").send().await.expect_status(404);
}

#[tokio::test]
async fn sessions_and_runs_work_below_the_prefix_for_their_owner_only() {
    let app = nested();
    let (ann, bob) = (app.user_token("ann"), app.user_token("bob"));
    let session = "/agents/apps/echo/users/ann/sessions/s";
    app.post(session).token(&ann).send().await.expect_status(200);
    let stream = app.post("/agents/run_sse").token(&ann).json(&message_from("ann", "hello")).stream().await;
    let run = format!("{session}/runs/{}/events", stream.run_id());
    let streamed = stream.all().await.pop().unwrap().data;
    assert_eq!(text(&streamed), "echo: hello");
    let read = app.get(&run).token(&ann).stream().await.all().await.pop().unwrap();
    assert_eq!((read.data, read.id.as_deref()), (streamed, Some("1")));
    for path in [session, &run] {
        app.get(path).token(&bob).send().await.expect_status(404);
    }
}

#[tokio::test]
async fn redirects_links_and_descriptions_start_with_the_prefix() {
    let app = nested();
    for path in ["/agents", "/agents/dev-ui"] {
        let redirect = app.get(path).send().await.expect_status(307);
        assert_eq!(redirect.header("location"), Some("/agents/dev-ui/"), "{path}");
    }
    let config = app.get("/agents/dev-ui/assets/config/runtime-config.json").send().await.expect_status(200);
    assert_eq!(config.json()["backendUrl"], "/agents");
    let description = app.get("/agents/openapi.json").send().await.expect_status(200).json();
    assert_eq!(description["servers"], json!([{"url": "/agents"}]));
    let docs = app.get("/agents/docs").send().await.expect_status(200);
    assert!(docs.text().contains("href=\"openapi.json\""), "the link is relative");
    assert!(!docs.text().contains("href=\"/"), "no link is absolute");
}

#[tokio::test]
async fn a_login_link_and_its_cookie_belong_to_the_prefix() {
    let app = nested();
    let link = app.post("/agents/login").token(&app.admin_token()).send().await.expect_status(200).json();
    let link = link["path"].as_str().unwrap();
    assert!(link.starts_with("/agents/login?code="), "{link}");
    let entered = app.get(link).send().await.expect_status(303);
    assert_eq!(entered.header("location"), Some("/agents"));
    let cookie = entered.header("set-cookie").unwrap();
    assert!(cookie.contains("; Path=/agents; "), "{cookie}");
    let cookie = cookie.split(';').next().unwrap();
    app.get("/agents/list-apps").header("cookie", cookie).send().await.expect_status(200);
}

#[tokio::test]
async fn host_and_origin_are_checked_below_the_prefix() {
    let app = nested();
    app.get("/agents/health").header("host", "evil.example").send().await.expect_status(403);
    let preflight = app
        .request(Method::OPTIONS, "/agents/run")
        .header("origin", "https://evil.example")
        .header("access-control-request-method", "POST");
    preflight.send().await.expect_status(403);
}

#[tokio::test]
async fn a_router_that_is_nested_twice_joins_the_prefixes() {
    let mut app = nested();
    app.router = Router::new().route("/health", get("outer")).nest("/v1", app.router);
    let redirect = app.get("/v1/agents").send().await.expect_status(307);
    assert_eq!(redirect.header("location"), Some("/v1/agents/dev-ui/"));
    assert_eq!(app.get("/v1/agents/health").send().await.expect_status(200).json(), json!({"status": "ok"}));
    assert_eq!(app.get("/health").send().await.expect_status(200).text(), "outer");
}
