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

/// The same settings, found in the folder and named by `--config`.
#[test]
fn programs_that_came_with_a_folder_are_confined_by_default() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    for condition in Condition::all() {
        for (place, is_confined) in [("here/lango.toml", true), ("outside/named.toml", false)] {
            let project = Project::new(condition);
            fs::copy(fixtures().join("mcp/fake.sh"), project.path("here/fake.sh")).unwrap();
            let outside = project.path("outside").display().to_string();
            let attempt = |name: &str| {
                format!(
                    "echo x > {outside}/{name}; exec 3<>/dev/tcp/127.0.0.1/{port} && echo x > connected-{name}"
                )
            };
            let (server, command) = (attempt("server"), attempt("command"));
            let settings = format!(
                "model = \"scripted/{}\"\n[approval]\nexecute = \"allow\"\n\
                 [commands.own]\ndescription = \"d\"\ncommand = [\"bash\", \"-c\", \"cat > /dev/null; {command}\"]\n\
                 [mcp.fake]\ncommand = \"bash\"\nargs = [\"-c\", \"({server}) 2>/dev/null; exec sh fake.sh\"]\n\
                 env = {{ FAKE_DIR = \".\" }}\n",
                project.path("here/script.yaml").display()
            );
            fs::remove_file(project.path("here/lango.toml")).unwrap();
            project.file(place, &settings);
            let named = project.path(place).display().to_string();
            let calls = [
                json!({"name": "own", "args": {}}),
                json!({"name": "fake__echo", "args": {"text": "hello"}}),
            ];
            project.script(&calls);
            let named = if is_confined { vec![] } else { vec!["--config", named.as_str()] };
            let output = project.output(&[named.as_slice(), &["run", "--json", "go"]].concat(), &[]);
            assert!(output.contains("hello"), "{condition:?}, {place}: {output}");
            for name in ["server", "command"] {
                let written = project.path("outside").join(name).exists();
                let connected = project.path("here").join(format!("connected-{name}")).exists();
                assert_eq!(
                    (written, connected),
                    (!is_confined, !is_confined),
                    "{condition:?}, {place}, {name}: {output}"
                );
            }
            let accepted = std::iter::from_fn(|| listener.accept().ok()).count();
            assert_eq!(accepted > 0, !is_confined);
        }
    }
}

/// A server of `.mcp.json` has no key for the sandbox; `[mcp]` of a named configuration replaces it.
#[test]
fn server_of_a_project_file_is_confined() {
    let project = Project::new(Condition::Plain);
    fs::copy(fixtures().join("mcp/fake.sh"), project.path("here/fake.sh")).unwrap();
    let server = json!({"command": "sh", "args": ["-c", "echo x > ../outside/new; exec sh fake.sh"], "env": {"FAKE_DIR": "."}});
    project.file("here/.mcp.json", &json!({"mcpServers": {"fake": server}}).to_string());
    let call = json!({"name": "fake__echo", "args": {"text": "hello"}});
    let answer = project.run(std::slice::from_ref(&call), &[]).remove(0);
    assert!(answer.to_string().contains("hello"), "{answer}");
    assert!(!project.path("outside/new").exists());
}

/// As `npx` does that downloads a server to its cache.
#[test]
fn confined_server_that_needs_the_network_names_the_settings() {
    let project = Project::new(Condition::Plain);
    let script =
        "mkdir /usr/.npm; (exec 3<>/dev/tcp/192.0.2.1/443) || echo 'npm error code EAI_AGAIN' >&2; exit 1";
    let server = json!({"command": "bash", "args": ["-c", script]});
    project.file("here/.mcp.json", &json!({"mcpServers": {"far": server}}).to_string());
    let output = project.output(&["tools"], &[]);
    for setting in ["[tools] network = true", "[tools] writable", "sandbox = \"off\""] {
        assert!(output.contains(setting), "{setting}: {output}");
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
