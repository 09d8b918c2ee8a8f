//! Health, readiness, metrics and apps.

use super::test_app::TestApp;
use serde_json::json;

#[tokio::test]
async fn health_and_readiness_are_public() {
    let app = TestApp::builder().with_auth().build();
    let health = app.get("/health").send().await.expect_status(200);
    assert_eq!(health.json(), json!({"status": "ok"}));
    let ready = app.get("/readyz").send().await.expect_status(200);
    assert_eq!(ready.json(), json!({"status": "ready"}));
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
    assert_eq!(broken.detail(), "root_agent.yaml is invalid");
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
async fn the_web_page_redirects_and_says_what_to_install() {
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
