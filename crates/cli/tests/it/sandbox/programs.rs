//! MCP servers and configured commands in the sandbox.

use super::{Condition, Project};
use crate::common::fixtures;
use serde_json::json;
use std::fs;

#[test]
fn configured_command_can_be_confined() {
    for condition in Condition::all() {
        let project = Project::new(condition);
        project.file(
            "here/lango.toml",
            r#"model = "scripted/script.yaml"
[approval]
execute = "allow"
[commands.own]
description = "Tries to write."
command = ["sh", "-c", "read -r line; echo \"$line\" > got; echo x > ../outside/new; echo x > lango.toml; ls got"]
sandbox = "workspace"
"#,
        );
        let answer = project.run(&[json!({"name": "own", "args": {"n": 1}})], &[]).remove(0);
        assert_eq!(answer["output"], "got\n", "{condition:?}: {answer}");
        assert!(fs::read_to_string(project.path("here/got")).unwrap().contains("\"n\""));
        assert!(!project.path("outside/new").exists(), "{condition:?}");
    }
}

#[test]
fn mcp_server_can_be_confined() {
    let project = Project::new(Condition::Plain);
    fs::copy(fixtures().join("mcp/fake.sh"), project.path("here/fake.sh")).unwrap();
    project.file(
        "here/lango.toml",
        r#"model = "scripted/script.yaml"
[approval]
execute = "allow"
[mcp.fake]
command = "sh"
args = ["-c", "echo x > ../outside/new; exec sh fake.sh"]
env = { FAKE_DIR = "." }
sandbox = "workspace"
"#,
    );
    let answer = project.run(&[json!({"name": "fake__echo", "args": {"text": "hello"}})], &[]).remove(0);
    assert!(answer.to_string().contains("hello"), "{answer}");
    assert!(project.path("here/log").exists() && !project.path("outside/new").exists());
}
