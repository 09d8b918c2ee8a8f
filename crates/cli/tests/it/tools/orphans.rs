//! Commands do not outlive the program: not even `kill -9` leaves them behind.

use super::{call, exec};
use crate::{common::Place, serve::client::Served};
use rustix::process::{Pid, test_kill_process};
use serde_json::{Value, json};
use std::{
    fs, thread,
    time::{Duration, Instant},
};

/// Far beyond what a signal takes.
const PATIENCE: Duration = Duration::from_secs(30);
/// A child of the shell, that a signal to the shell alone would leave behind.
const CHILD: &str = "sleep 1000 & echo $! > NAME.new; mv NAME.new NAME; wait";

fn is_alive(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    test_kill_process(pid).is_ok() && !stat.contains(") Z ")
}

fn pid_in(place: &Place, name: &str) -> Pid {
    let began = Instant::now();
    loop {
        if let Ok(text) = fs::read_to_string(place.here().join(name)) {
            return Pid::from_raw(text.trim().parse().unwrap()).unwrap();
        }
        assert!(began.elapsed() < PATIENCE, "{name} did not start");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_program_that_is_killed_takes_its_commands_jobs_and_tools_along() {
    let toml = r#"user = "u"
[approval]
execute = "allow"
[commands.own]
description = "Waits."
command = ["sh", "-c", "sleep 1000 & echo $! > own.new; mv own.new own; wait"]
"#;
    let job = call("exec_start", json!({"command": CHILD.replace("NAME", "job")}));
    let calls = [exec(&CHILD.replace("NAME", "waited")), job, call("own", json!({}))];
    let calls: Vec<Value> = calls.iter().map(|call| json!({"call": call})).collect();
    let script = json!({"rules": [{"when": {"first_word": "go", "turn": 0}, "reply": calls}]});
    let place = Place::scripted(toml, &script.to_string());
    let server = Served::start(&place);
    let session = server.session("lango", "s");
    server.begin(&session, "go");
    let started = ["waited", "job", "own"].map(|name| (name, pid_in(&place, name)));
    for (name, pid) in started {
        assert!(is_alive(pid), "{name}");
    }
    server.kill();
    let began = Instant::now();
    for (name, pid) in started {
        while is_alive(pid) {
            assert!(began.elapsed() < PATIENCE, "{name} outlives the program");
            thread::sleep(Duration::from_millis(5));
        }
    }
}
