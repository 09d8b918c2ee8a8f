//! Health, readiness, metrics and apps.

use super::{
    client::TestRequest,
    test_app::{TestApp, message},
};
use serde_json::json;

#[tokio::test]
async fn health_and_readiness_are_public() {
    let app = TestApp::builder().with_auth().build();
    let health = app.get("/health").send().await.expect_status(200);
    assert_eq!(health.json(), json!({"status": "ok"}));
    assert_eq!(app.get("/readyz").send().await.expect_status(200).json()["status"], "ready");
}

const REASON: &str = "/srv/agents/broken/root_agent.yaml:3:1: invalid";

#[tokio::test]
async fn readiness_names_broken_apps_and_shows_the_reason_to_administrators_only() {
    let app = TestApp::builder().with_auth().build();
    let ready = async |token: &str| {
        app.get("/readyz").header("authorization", token).send().await.expect_status(200).json()
    };
    let named = json!({"name": "broken", "kind": "invalid", "servesPrevious": false});
    let public = json!({"apps": {"broken": [named]}, "recovery": {"stalled": []}, "status": "ready"});
    let user = format!("Bearer {}", app.user_token("ann"));
    for token in ["", "Bearer guess", &user] {
        assert_eq!(ready(token).await, public, "{token}");
    }
    let admin = format!("Bearer {}", app.admin_token());
    assert_eq!(ready(&admin).await["apps"]["broken"][0]["reason"], REASON);
    let open = TestApp::new().get("/readyz").send().await.expect_status(200).json();
    assert_eq!(
        open["apps"]["broken"][0]["reason"], REASON,
        "without authentication, everyone is an administrator"
    );
}

#[tokio::test]
async fn server_without_a_usable_app_is_not_ready() {
    let app = TestApp::builder().with_auth().without_usable_apps().build();
    app.get("/health").send().await.expect_status(200);
    let response = app.get("/readyz").send().await.expect_status(503);
    let body = response.json();
    assert_eq!((&body["kind"], &body["detail"]), (&json!("no_app"), &json!("no app can be loaded")));
    let names: Vec<&str> =
        body["apps"]["broken"].as_array().unwrap().iter().map(|app| app["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["broken", "echo"]);
    assert!(!response.text().contains("/srv"), "{}", response.text());
}

/// Every request that needs a broken app.
fn requests_to_broken(app: &TestApp) -> Vec<TestRequest> {
    let mut message = message("hello");
    message["appName"] = "broken".into();
    let graph = "/dev/apps/broken/users/ann/sessions/s/events/e/graph";
    let paths = ["/apps/broken/app-info", "/dev/apps/broken/build_graph", "/dev/apps/broken/graph", graph];
    let mut requests: Vec<TestRequest> = paths.map(|path| app.get(path)).into();
    requests.extend(["/run", "/run_sse"].map(|path| {
        message["userId"] = "ann".into();
        app.post(path).json(&message)
    }));
    let runs = "/apps/broken/users/ann/sessions/s/runs";
    requests.push(app.post(runs).json(&json!({"newMessage": message["newMessage"]})));
    requests
}

#[tokio::test]
async fn only_administrators_see_why_a_requested_app_is_broken() {
    let app = TestApp::builder().with_auth().build();
    let (ann, admin) = (app.user_token("ann"), app.admin_token());
    for request in requests_to_broken(&app) {
        let refused = request.token(&ann).send().await.expect_status(500);
        assert_eq!(refused.json(), json!({"detail": "the app broken cannot be loaded", "kind": "invalid"}));
    }
    for request in requests_to_broken(&app) {
        let refused = request.token(&admin).send().await.expect_status(500);
        assert_eq!(refused.json(), json!({"detail": REASON, "kind": "invalid"}));
    }
}

/// ADK's page reads the events of `/run_sse` and shows their `error`; it ignores the status and other bodies.
#[tokio::test]
async fn adk_page_gets_the_error_of_a_run_as_an_event() {
    let app = TestApp::new();
    let mut to_broken = message("hello");
    to_broken["appName"] = "broken".into();
    let accept = |kind: &str| app.post("/run_sse").json(&to_broken).header("accept", kind);
    let shown = accept("text/event-stream").send().await.expect_status(500);
    assert_eq!(shown.header("content-type"), Some("text/event-stream; charset=utf-8"));
    let event = shown.text().strip_prefix("data: ").unwrap().strip_suffix("\n\n").unwrap();
    let event: serde_json::Value = serde_json::from_str(event).unwrap();
    assert_eq!(event["error"], format!("invalid: {REASON}"));
    for kind in ["*/*", "application/json", "text/event-stream, application/json"] {
        assert_eq!(accept(kind).send().await.expect_status(500).detail(), REASON, "{kind}");
    }
    let unknown = app.post("/run_sse").json(&message("hello")).header("accept", "text/event-stream");
    let unknown = unknown.send().await.expect_status(404);
    assert!(
        unknown.text().starts_with(r#"data: {"error": "RequestError: Session not found: s""#),
        "{unknown:?}"
    );
}

#[tokio::test]
async fn list_apps_returns_all_names_and_the_details_of_usable_apps() {
    let app = TestApp::new();
    let names = app.get("/list-apps").send().await.expect_status(200);
    assert_eq!(names.json(), json!(["broken", "echo"]));
    let detailed = app.get("/list-apps?detailed=true").send().await.expect_status(200).json();
    assert_eq!(detailed["apps"].as_array().unwrap().len(), 1);
    assert_eq!(detailed["apps"][0]["rootAgentName"], "echo_agent");
    let invalid = app.get("/list-apps?detailed=maybe").send().await.expect_status(422);
    assert_eq!(invalid.validation_errors(), ["bool_parsing query.detailed"]);
}

#[tokio::test]
async fn app_info_describes_the_agents_of_an_app() {
    let app = TestApp::new();
    let info = app.get("/apps/echo/app-info").send().await.expect_status(200).json();
    assert_eq!(info["agents"]["echo_agent"]["description"], "Repeats.");
    let unknown = app.get("/apps/none/app-info").send().await.expect_status(404);
    assert_eq!(unknown.detail(), "Agent not found: 'none'.");
    let broken = app.get("/apps/broken/app-info").send().await.expect_status(500);
    assert_eq!(broken.detail(), REASON);
}

#[tokio::test]
async fn unknown_routes_and_methods_have_fastapis_errors() {
    let app = TestApp::new();
    let unknown = app.get("/nope").send().await.expect_status(404);
    assert_eq!(unknown.detail(), "Not Found");
    for path in ["/list-apps", "/health"] {
        let wrong_method = app.delete(path).send().await.expect_status(405);
        assert_eq!(wrong_method.detail(), "Method Not Allowed", "{path}");
    }
    let invalid = app.get("/apps/%ff/app-info").send().await.expect_status(400);
    assert_eq!(invalid.detail(), "the path is not valid UTF-8");
}

#[tokio::test]
async fn metrics_count_requests_by_route_and_status() {
    let app = TestApp::new();
    for _ in 0..2 {
        app.get("/apps/echo/app-info").send().await.expect_status(200);
    }
    let first = app.get("/nope").send().await;
    let metrics = app.get("/metrics").send().await.expect_status(200);
    let line = r#"lango_requests_total{method="GET",route="/apps/{app}/app-info",status="200"} 2"#;
    assert!(metrics.text().lines().any(|found| found == line), "{}", metrics.text());
    let line = r#"lango_requests_total{method="GET",route="none",status="404"} 1"#;
    assert!(metrics.text().lines().any(|found| found == line), "{}", metrics.text());
    assert_eq!((first.header("x-request-id"), metrics.header("x-request-id")), (Some("3"), Some("4")));
}

#[tokio::test]
async fn the_web_page_redirects_and_names_the_missing_package() {
    let app = TestApp::new();
    for path in ["/", "/dev-ui"] {
        let redirect = app.get(path).send().await.expect_status(307);
        assert_eq!(redirect.header("location"), Some("/dev-ui/"), "{path}");
    }
    let missing = app.get("/dev-ui/").send().await.expect_status(404);
    assert!(missing.detail().contains("install google-adk"), "{}", missing.text());
    let config = app.get("/dev-ui/assets/config/runtime-config.json").send().await.expect_status(200);
    assert_eq!(config.text(), r#"{"backendUrl":"","telemetry":null}"#);
}
