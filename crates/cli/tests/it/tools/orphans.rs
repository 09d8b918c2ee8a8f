//! Commands end with the program, even after `kill -9`.

use super::{call, exec};
use crate::{common::TestEnv, serve::client::TestServer};
use rustix::fs::{CWD, FileType, Mode};
use serde_json::{Value, json};
use std::{fs::File, io::Read};

/// Starts a child of the shell, which would survive a signal to the shell alone. It holds a named pipe open.
const CHILD: &str = "(trap '' HUP; exec sleep 1000) > NAME.pipe & wait";

fn create_pipe(env: &TestEnv, name: &str) {
    let path = env.workdir().join(format!("{name}.pipe"));
    rustix::fs::mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
}

#[test]
fn killed_server_leaves_no_commands_jobs_or_tools_running() {
    let toml = r#"user = "u"
[approval]
execute = "allow"
[commands.own]
description = "Waits."
command = ["sh", "-c", "(exec sleep 1000) > own.pipe & wait"]
"#;
    let job = call("exec_start", json!({"command": CHILD.replace("NAME", "job")}));
    let calls = [exec(&CHILD.replace("NAME", "waited")), job, call("own", json!({}))];
    let calls: Vec<Value> = calls.iter().map(|call| json!({"call": call})).collect();
    let script = json!({"rules": [{"when": {"first_word": "go", "turn": 0}, "reply": calls}]});
    let env = TestEnv::scripted(toml, &script.to_string());
    let names = ["waited", "job", "own"];
    for name in names {
        create_pipe(&env, name);
    }
    let server = TestServer::start(&env);
    let session = server.create_session("lango", "s");
    server.start_run(&session, "go");
    // Opening a pipe waits for the process that writes to it.
    let started = names.map(|name| File::open(env.workdir().join(format!("{name}.pipe"))).unwrap());
    server.kill();
    for mut pipe in started {
        // It ends when the last process that holds the pipe is gone.
        pipe.read_to_end(&mut Vec::new()).unwrap();
    }
}
