//! Reloading of apps, readiness and metrics.

use super::client::{TIMEOUT, TestServer, message};
use crate::common::TestEnv;
use serde_json::{Value, json};
use std::{collections::BTreeSet, fs, thread, time::Instant};

fn description(server: &TestServer) -> String {
    server.get("/apps/one/app-info")["description"].as_str().unwrap().to_owned()
}

/// Waits for the description: file timestamps may be coarse.
fn wait_for_description(server: &TestServer, wanted: &str) {
    let deadline = Instant::now() + TIMEOUT;
    while description(server) != wanted {
        assert!(Instant::now() < deadline, "the description stays {}", description(server));
        thread::yield_now();
    }
}

#[test]
fn changed_agent_file_is_reloaded_and_an_invalid_one_keeps_the_previous() {
    let env = TestEnv::new();
    let file = "agents/one/root_agent.yaml";
    env.file(file, "name: one\nmodel: demo\ndescription: first\n");
    let server = TestServer::start(&env);
    assert_eq!(description(&server), "first");
    env.file(file, "name: one\nmodel: demo\ndescription: second\n");
    wait_for_description(&server, "second");
    env.file(file, "name: one\nmodel: demo\ndescription: [this is no text\n");
    assert_eq!(description(&server), "second");
    env.file(file, "name: one\nmodel: demo\ndescription: third, and mended\n");
    wait_for_description(&server, "third, and mended");
}

#[test]
fn sessions_of_a_removed_agent_are_read_listed_and_deleted_but_get_no_messages() {
    let env = TestEnv::canned();
    let server = TestServer::start(&env);
    let session = server.create_session("canned", "s");
    server.send_message("canned", "s", "hi").success();
    fs::remove_dir_all(env.workdir().join("agents/canned")).unwrap();
    let missing = "Agent not found: 'canned'. No matching directory or module exists in 'agents/canned'.";
    let deadline = Instant::now() + TIMEOUT;
    while server.send_message("canned", "s", "hi").status != 404 {
        assert!(Instant::now() < deadline, "the app is still served");
    }
    let stored = server.get(&session);
    let sessions = "/apps/canned/users/u/sessions";
    for (method, path, body) in [
        ("POST", "/run", message("canned", "s", "hi")),
        ("POST", "/run_sse", message("canned", "s", "hi")),
        ("POST", &format!("{session}/runs"), message("canned", "s", "hi")),
        ("POST", sessions, json!({})),
    ] {
        let refused = server.request(method, path, &body);
        assert_eq!((refused.status, &refused.body["detail"]), (404, &json!(missing)), "{path}");
    }
    assert_eq!(server.get(&session)["events"], stored["events"], "nothing was stored");
    assert_eq!(server.get(sessions).as_array().unwrap().len(), 1);
    let user = ["--config", "lango.toml"];
    env.file("lango.toml", "user = \"u\"\n");
    let shown = env.lango(&[&["sessions", "show", "s"][..], &user].concat()).success();
    assert!(shown.out.contains("Hello from canned model"), "{shown:?}");
    server.request("DELETE", &session, &Value::Null).success();
    assert_eq!(server.request("GET", &session, &Value::Null).status, 404);
}

#[test]
fn readiness_and_metrics_are_served() {
    let env = TestEnv::canned();
    let server = TestServer::start(&env);
    assert_eq!(server.get("/readyz")["status"], "ready");
    server.create_session("canned", "s");
    server.send_message("canned", "s", "hi").success();
    let metrics = server.get("/metrics");
    let metrics = metrics.as_str().unwrap();
    for line in [
        r#"lango_requests_total{method="POST",route="/run",status="200"} 1"#,
        r#"lango_runs_finished_total{status="done"} 1"#,
        "lango_runs_running 0",
        "lango_events_total 1",
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line} is not in\n{metrics}");
    }
}

/// The names of metrics in the queries of a Grafana dashboard.
fn dashboard_metrics() -> BTreeSet<String> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/dashboards/lango.json");
    let dashboard: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().unwrap());
    let expressions: Vec<&str> = targets.map(|target| target["expr"].as_str().unwrap()).collect();
    let words = expressions.iter().flat_map(|query| query.split(|c: char| !c.is_alphanumeric() && c != '_'));
    words.filter(|word| word.starts_with("lango_")).map(str::to_owned).collect()
}

#[test]
fn each_metric_of_the_dashboard_is_served() {
    let env = TestEnv::canned();
    let server = TestServer::start(&env);
    server.create_session("canned", "s");
    server.send_message("canned", "s", "tool").success();
    server.send_message("canned", "s", "hi").success();
    let metrics = server.get("/metrics");
    let metrics = metrics.as_str().unwrap();
    let samples: BTreeSet<&str> = metrics
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split(['{', ' ']).next())
        .collect();
    let wanted = dashboard_metrics();
    assert!(wanted.len() > 10, "{wanted:?}");
    for metric in &wanted {
        assert!(samples.contains(metric.as_str()), "{metric} is not in\n{metrics}");
    }
    for line in [
        "lango_queue_wait_seconds_count 2",
        r#"lango_queue_wait_seconds_bucket{le="+Inf"} 2"#,
        r#"lango_model_call_seconds_count{provider="scripted",outcome="ok"} 3"#,
        r#"lango_model_first_token_seconds_count{provider="scripted",outcome="ok"} 3"#,
        r#"lango_tool_call_seconds_count{tool="get_weather",outcome="ok"} 1"#,
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line} is not in\n{metrics}");
    }
    let histograms =
        metrics.lines().filter(|line| line.starts_with("# TYPE") && line.ends_with(" histogram"));
    let names = histograms.filter_map(|line| line.split(' ').nth(2));
    for name in names {
        assert!(wanted.iter().any(|metric| metric.starts_with(name)), "the dashboard does not show {name}");
    }
}
