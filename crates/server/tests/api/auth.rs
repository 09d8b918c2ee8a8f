//! Authentication, other users' resources, login links, Host and Origin.

use super::test_app::{HOST, TestApp, message_from};
use serde_json::{Value, json};

#[tokio::test]
async fn a_request_without_a_valid_token_is_unauthorized() {
    let app = TestApp::builder().with_auth().build();
    for path in ["/list-apps", "/apps/echo/users/u/sessions", "/metrics", "/no-such-route"] {
        let missing = app.get(path).send().await.expect_status(401);
        assert_eq!(missing.header("www-authenticate"), Some("Bearer realm=\"lango\""), "{path}");
        assert!(missing.detail().starts_with("authentication required"), "{path}");
    }
    for token in ["guess", &app.expired_token("ann")] {
        let invalid = app.get("/list-apps").token(token).send().await.expect_status(401);
        let challenge = "Bearer realm=\"lango\", error=\"invalid_token\"";
        assert_eq!(invalid.header("www-authenticate"), Some(challenge));
        assert_eq!(invalid.detail(), "the token is unknown, expired or revoked");
    }
    app.post("/login").send().await.expect_status(401);
    app.post("/run").json(&message_from("ann", "hello")).send().await.expect_status(401);
}

#[tokio::test]
async fn whoami_names_the_principal_of_a_token() {
    let app = TestApp::builder().with_auth().build();
    let whoami =
        |token: String| async { app.get("/whoami").token(&{ token }).send().await.expect_status(200).json() };
    assert_eq!(whoami(app.user_token("ann")).await, json!({"user": "ann", "admin": false}));
    assert_eq!(whoami(app.admin_token()).await, json!({"user": null, "admin": true}));
}

#[tokio::test]
async fn resources_of_another_user_are_not_found() {
    let app = TestApp::builder().with_auth().build();
    let (ann, bob, admin) = (app.user_token("ann"), app.user_token("bob"), app.admin_token());
    let session = "/apps/echo/users/ann/sessions/s";
    app.post(session).token(&ann).send().await.expect_status(200);
    let run =
        app.post("/run").token(&ann).json(&message_from("ann", "hello")).send().await.expect_status(200);
    let run = run.header("x-run-id").unwrap();
    let artifact = json!({"filename": "a.txt", "artifact": {"text": "t"}});
    app.post(&format!("{session}/artifacts")).token(&ann).json(&artifact).send().await.expect_status(200);
    for path in [
        "/apps/echo/users/ann/sessions".to_owned(),
        session.to_owned(),
        format!("{session}/artifacts"),
        format!("{session}/artifacts/a.txt"),
        format!("{session}/runs"),
        format!("{session}/runs/{run}"),
        format!("{session}/runs/{run}/events"),
        format!("/dev{session}/events/none/graph"),
    ] {
        app.get(&path).token(&ann).send().await.expect_status(200);
        app.get(&path).token(&admin).send().await.expect_status(200);
        let hidden = app.get(&path).token(&bob).send().await.expect_status(404);
        assert_eq!(hidden.detail(), "Session not found", "{path}");
    }
    for request in [
        app.delete(session),
        app.patch(session).json(&json!({"stateDelta": {"k": 1}})),
        app.post(&format!("{session}/runs/{run}/cancel")),
        app.post(&format!("{session}/runs")).json(&json!({})),
    ] {
        request.token(&bob).send().await.expect_status(404);
    }
    for path in ["/run", "/run_sse"] {
        let hidden =
            app.post(path).token(&bob).json(&message_from("ann", "hello")).send().await.expect_status(404);
        assert_eq!(hidden.detail(), "Session not found: s");
    }
    app.get(session).token(&ann).send().await.expect_status(200);
}

#[tokio::test]
async fn a_user_cannot_write_shared_or_managed_state() {
    let app = TestApp::builder().with_auth().build();
    let (ann, admin) = (app.user_token("ann"), app.admin_token());
    let session = "/apps/echo/users/ann/sessions/s";
    app.post(session).token(&admin).json(&json!({"app:motto": "all"})).send().await.expect_status(200);
    let patch = |token: &str, delta: Value| {
        app.patch(session).token(token).json(&json!({"stateDelta": delta})).send()
    };
    let shared = patch(&ann, json!({"app:motto": "mine"})).await.expect_status(403);
    assert_eq!(
        shared.detail(),
        "app:motto is shared by all users and read-only; an administrator can change it"
    );
    let managed = patch(&admin, json!({"lango:guest": false})).await.expect_status(403);
    assert_eq!(managed.detail(), "lango:guest is managed by the server and read-only");
    // A client may return a state as it was read.
    let returned = patch(&ann, json!({"app:motto": "all", "own": 1})).await.expect_status(200).json();
    assert_eq!(returned["state"], json!({"app:motto": "all", "own": 1}));
}

#[tokio::test]
async fn a_login_link_is_redeemed_once_for_a_cookie() {
    let app = TestApp::builder().with_auth().build();
    let refused = app.post("/login").token(&app.user_token("ann")).send().await.expect_status(403);
    assert_eq!(refused.detail(), "only an administrator can create login links");
    let link = app.post("/login").token(&app.admin_token()).send().await.expect_status(200).json();
    let link = link["path"].as_str().unwrap();
    assert!(link.starts_with("/login?code="), "{link}");
    let entered = app.get(link).send().await.expect_status(303);
    assert_eq!(entered.header("location"), Some("/"));
    let cookie = entered.header("set-cookie").unwrap();
    assert!(cookie.starts_with("lango-18789=") && cookie.contains("; Path=/; "), "{cookie}");
    let cookie = cookie.split(';').next().unwrap();
    app.get("/list-apps").header("cookie", cookie).send().await.expect_status(200);
    app.get(link).send().await.expect_status(401);
}

#[tokio::test]
async fn requests_for_another_host_or_from_another_origin_are_forbidden() {
    let app = TestApp::new();
    for (name, value, text) in [
        ("host", "evil.example", "Forbidden: host not allowed"),
        ("origin", "https://evil.example", "Forbidden: origin not allowed"),
    ] {
        for path in ["/health", "/list-apps", "/no-such-route"] {
            let forbidden = app.get(path).header(name, value).send().await.expect_status(403);
            assert_eq!(forbidden.text(), text, "{path}");
        }
    }
    let own = app.get("/health").header("origin", &format!("http://{HOST}")).send().await.expect_status(200);
    assert_eq!(own.header("access-control-allow-origin"), None);
}

#[tokio::test]
async fn an_allowed_origin_gets_cors_headers_on_every_response() {
    let origin = "https://page.example";
    let app = TestApp::builder().with_auth().allow_origin(origin).build();
    let preflight = app
        .request(axum::http::Method::OPTIONS, "/run")
        .header("origin", origin)
        .header("access-control-request-method", "POST")
        .send()
        .await
        .expect_status(204);
    assert_eq!(preflight.header("access-control-allow-origin"), Some(origin));
    for path in ["/health", "/list-apps"] {
        let response = app.get(path).header("origin", origin).send().await;
        assert_eq!(response.header("access-control-allow-origin"), Some(origin), "{path}");
    }
}

#[tokio::test]
async fn metrics_are_for_administrators() {
    let app = TestApp::builder().with_auth().build();
    let refused = app.get("/metrics").token(&app.user_token("ann")).send().await.expect_status(403);
    assert_eq!(refused.detail(), "only an administrator can read metrics");
    app.get("/metrics").token(&app.admin_token()).send().await.expect_status(200);
    TestApp::new().get("/metrics").send().await.expect_status(200);
}

#[tokio::test]
async fn another_site_can_open_public_pages_and_nothing_else() {
    let app = TestApp::builder().with_auth().build();
    let admin = app.admin_token();
    let open = |path: &str| {
        let request = app.get(path).header("sec-fetch-site", "cross-site");
        request.header("sec-fetch-mode", "navigate").header("sec-fetch-dest", "document")
    };
    for (path, status) in [("/", 307), ("/docs", 200), ("/health", 200), ("/openapi.json", 200)] {
        open(path).send().await.expect_status(status);
        let embedded = app.get(path).header("sec-fetch-site", "cross-site").send().await.expect_status(403);
        assert_eq!(embedded.text(), "Forbidden: request of another site", "{path}");
    }
    open("/list-apps").token(&admin).send().await.expect_status(403);
    app.post("/login").token(&admin).header("sec-fetch-site", "cross-site").send().await.expect_status(403);
    for site in ["none", "same-origin"] {
        app.get("/list-apps").token(&admin).header("sec-fetch-site", site).send().await.expect_status(200);
    }
}

#[tokio::test]
async fn a_login_link_on_another_site_asks_before_it_logs_in() {
    let app = TestApp::builder().with_auth().build();
    let link = app.post("/login").token(&app.admin_token()).send().await.expect_status(200).json();
    let link = link["path"].as_str().unwrap();
    for _ in 0..2 {
        let request = app.get(link).header("sec-fetch-site", "cross-site");
        let page = request.header("sec-fetch-mode", "navigate").header("sec-fetch-dest", "document");
        let page = page.send().await.expect_status(200);
        assert_eq!(page.header("set-cookie"), None);
        assert!(page.text().contains(link.strip_prefix("/login?code=").unwrap()), "{}", page.text());
    }
    let entered = app.get(link).header("sec-fetch-site", "same-origin").send().await.expect_status(303);
    assert!(entered.header("set-cookie").is_some());
}
