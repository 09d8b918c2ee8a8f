//! Apps are read again when their files change, and the server says how it is.

use super::client::{PATIENCE, Served};
use crate::common::Place;
use std::{thread, time::Instant};

fn description(server: &Served) -> String {
    server.get("/apps/one/app-info")["description"].as_str().unwrap().to_owned()
}

/// The clock of files may be coarse.
fn changes_to(server: &Served, wanted: &str) {
    let deadline = Instant::now() + PATIENCE;
    while description(server) != wanted {
        assert!(Instant::now() < deadline, "it stays {}", description(server));
        thread::yield_now();
    }
}

#[test]
fn an_agent_is_read_again_when_its_file_changes_and_a_broken_one_leaves_the_old() {
    let place = Place::new();
    let file = "agents/one/root_agent.yaml";
    place.file(file, "name: one\nmodel: demo\ndescription: first\n");
    let server = Served::start(&place);
    assert_eq!(description(&server), "first");
    place.file(file, "name: one\nmodel: demo\ndescription: second\n");
    changes_to(&server, "second");
    place.file(file, "name: one\nmodel: demo\ndescription: [this is no text\n");
    assert_eq!(description(&server), "second");
    place.file(file, "name: one\nmodel: demo\ndescription: third, and mended\n");
    changes_to(&server, "third, and mended");
}

#[test]
fn the_server_says_that_it_is_ready_and_counts_what_it_does() {
    let place = Place::canned();
    let server = Served::start(&place);
    assert_eq!(server.get("/readyz")["status"], "ready");
    server.session("canned", "s");
    server.say("canned", "s", "hi").well();
    let metrics = server.get("/metrics");
    let metrics = metrics.as_str().unwrap();
    for line in [
        r#"lango_requests_total{method="POST",route="/run",status="200"} 1"#,
        r#"lango_runs_finished_total{status="done"} 1"#,
        "lango_runs_running 0",
        "lango_events_total 1",
    ] {
        assert!(metrics.lines().any(|told| told == line), "{line} is not in\n{metrics}");
    }
}
