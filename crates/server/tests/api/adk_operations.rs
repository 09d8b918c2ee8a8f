//! Every operation of ADK's own OpenAPI document is served, or answers 501 with a reason.

use super::test_app::TestApp;
use axum::http::Method;
use insta::assert_snapshot;
use serde_json::{Value, json};
use std::{fs, path::Path};

/// The methods and paths of ADK 2.13.0, with values for the parameters.
fn operations() -> Vec<(Method, String)> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/adk-api/openapi.json");
    let document: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    let mut all = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        let path = path.replace("{app_name}", "echo").replace("{user_id}", "u").replace("{session_id}", "s");
        let segments = path.split('/').map(|segment| if segment.starts_with('{') { "x" } else { segment });
        let path = segments.collect::<Vec<_>>().join("/");
        let methods = methods.as_object().unwrap().keys();
        all.extend(methods.map(|method| (method.to_uppercase().parse().unwrap(), path.clone())));
    }
    assert_eq!(all.len(), 67);
    all
}

#[tokio::test]
async fn every_operation_of_adk_is_served_or_answers_501_with_a_reason() {
    let app = TestApp::new();
    app.create_session().await;
    let mut unsupported = Vec::new();
    for (method, path) in operations() {
        let response = app.request(method.clone(), &path).json(&json!({})).send().await;
        let is_routed = response.status != 405 && !response.text().contains(r#""detail":"Not Found""#);
        assert!(is_routed, "{method} {path}: {} {}", response.status, response.text());
        if response.status == 501 {
            assert!(response.detail().contains("this server"), "{method} {path}: {}", response.text());
            unsupported.push(format!("{method} {path}"));
        } else {
            assert!(response.status.as_u16() < 500, "{method} {path}: {}", response.text());
        }
    }
    unsupported.sort();
    assert_snapshot!(unsupported.join("\n"), @"
    DELETE /dev/apps/echo/eval-sets/x/eval-cases/x
    DELETE /dev/apps/echo/eval_sets/x/evals/x
    DELETE /dev/apps/echo/tests/x
    GET /dev/apps/echo/deploy/defaults
    POST /agent-identity/finalize
    POST /dev/apps/echo/builder/cancel
    POST /dev/apps/echo/builder/save
    POST /dev/apps/echo/deploy/agent_engine
    POST /dev/apps/echo/deploy/cloud_run
    POST /dev/apps/echo/deploy/gke
    POST /dev/apps/echo/eval-sets
    POST /dev/apps/echo/eval-sets/x/add-session
    POST /dev/apps/echo/eval-sets/x/run
    POST /dev/apps/echo/eval_sets/x
    POST /dev/apps/echo/eval_sets/x/add_session
    POST /dev/apps/echo/eval_sets/x/run_eval
    POST /dev/apps/echo/tests/rebuild
    POST /dev/apps/echo/tests/run
    PUT /dev/apps/echo/eval-sets/x/eval-cases/x
    PUT /dev/apps/echo/eval_sets/x/evals/x
    PUT /dev/apps/echo/tests/x
    ");
}

#[tokio::test]
async fn unsupported_operations_need_a_token() {
    let app = TestApp::builder().with_auth().build();
    let ann = app.user_token("ann");
    let run = "/dev/apps/echo/eval-sets/x/run";
    app.post(run).send().await.expect_status(401);
    app.post(run).token(&ann).send().await.expect_status(501);
    app.delete(run).token(&ann).send().await.expect_status(405);
}

/// As ADK answers if an app has no evaluations and no tests.
#[tokio::test]
async fn reading_evaluations_and_tests_finds_none() {
    let app = TestApp::new();
    let mut answers = Vec::new();
    for path in [
        "eval_sets",
        "eval-sets",
        "eval_sets/s/evals",
        "eval_sets/s/evals/c",
        "eval-sets/s/eval-cases/c",
        "eval_results",
        "eval-results",
        "eval_results/r",
        "eval-results/r",
        "metrics-info",
        "tests",
        "tests/t.json",
        "builder",
        "builder?tmp=true&file_path=helper.yaml",
    ] {
        let response = app.get(&format!("/dev/apps/echo/{path}")).send().await;
        answers
            .push(format!("{path}: {} {}", response.status.as_u16(), response.text()).trim_end().to_owned());
    }
    assert_snapshot!(answers.join("\n"), @r#"
    eval_sets: 200 []
    eval-sets: 200 {"evalSetIds":[]}
    eval_sets/s/evals: 400 {"detail":"Eval set `s` not found."}
    eval_sets/s/evals/c: 404 {"detail":"Eval set `s` or Eval `c` not found."}
    eval-sets/s/eval-cases/c: 404 {"detail":"Eval set `s` or Eval `c` not found."}
    eval_results: 200 []
    eval-results: 200 {"evalResultIds":[]}
    eval_results/r: 404 {"detail":"Eval set result `r` not found."}
    eval-results/r: 404 {"detail":"Eval set result `r` not found."}
    metrics-info: 400 {"detail":"evaluation is not installed in this server; evaluate agents with google-adk"}
    tests: 200 []
    tests/t.json: 404 {"detail":"Test file not found"}
    builder: 200
    builder?tmp=true&file_path=helper.yaml: 200
    "#);
}
