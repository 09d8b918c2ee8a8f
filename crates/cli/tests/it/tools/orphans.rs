//! Commands end with the program, even after `kill -9`.

use super::{call, exec};
use crate::{common::TestEnv, serve::client::TestServer};
use rustix::process::{Pid, test_kill_process};
use serde_json::{Value, json};
use std::{
    fs, thread,
    time::{Duration, Instant},
};

/// Timeout, far longer than the delivery of a signal.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Starts a child of the shell, which would survive a signal to the shell alone.
const CHILD: &str = "sleep 1000 & echo $! > NAME.new; mv NAME.new NAME; wait";

fn is_alive(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    test_kill_process(pid).is_ok() && !stat.contains(") Z ")
}

fn pid_in(env: &TestEnv, name: &str) -> Pid {
    let began = Instant::now();
    loop {
        if let Ok(text) = fs::read_to_string(env.workdir().join(name)) {
            return Pid::from_raw(text.trim().parse().unwrap()).unwrap();
        }
        assert!(began.elapsed() < TIMEOUT, "{name} did not start");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn killed_server_leaves_no_commands_jobs_or_tools_running() {
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
    let env = TestEnv::scripted(toml, &script.to_string());
    let server = TestServer::start(&env);
    let session = server.create_session("lango", "s");
    server.start_run(&session, "go");
    let started = ["waited", "job", "own"].map(|name| (name, pid_in(&env, name)));
    for (name, pid) in started {
        assert!(is_alive(pid), "{name}");
    }
    server.kill();
    let began = Instant::now();
    for (name, pid) in started {
        while is_alive(pid) {
            assert!(began.elapsed() < TIMEOUT, "{name} outlives the program");
            thread::sleep(Duration::from_millis(5));
        }
    }
}
