//! Real MCP servers: two in JavaScript from the registry, and one with the Python SDK. `cargo xtask check` installs them and sets
//! `LANGO_TEST_MCP`.

use super::{run, test_env, tool_results};
use crate::common::{TestEnv, fixtures};
use serde_json::{Value, json};
use std::{
    env, fs,
    io::{BufRead, BufReader},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

/// The directory of the servers; `None` if they are not installed. In CI they must be.
fn installed() -> Option<PathBuf> {
    let dir = env::var_os("LANGO_TEST_MCP").map(PathBuf::from);
    assert!(
        dir.is_some() || env::var_os("CI").is_none(),
        "`cargo xtask check` installs MCP servers and sets LANGO_TEST_MCP"
    );
    dir
}

fn javascript(peers: &Path, name: &str, args: &str) -> String {
    let program = peers.join("node_modules/.bin").join(format!("mcp-server-{name}"));
    format!(
        "[mcp.{name}]\ncommand = {:?}\nargs = [{args}]\ntrusted = true\nsandbox = \"off\"\n",
        program.display().to_string()
    )
}

fn python(peers: &Path) -> String {
    let (program, script) = (peers.join("venv/bin/python"), fixtures().join("mcp/server.py"));
    let (program, script) = (program.display().to_string(), script.display().to_string());
    format!("[mcp.python]\ncommand = {program:?}\nargs = [{script:?}]\ntrusted = true\nsandbox = \"off\"\n")
}

/// The configuration of all three servers, with rules that allow their tools.
fn all(peers: &Path) -> String {
    let files = javascript(peers, "filesystem", "\".\"");
    let everything = javascript(peers, "everything", "\"stdio\"");
    format!("[approval]\nexecute = \"allow\"\nwrite = \"allow\"\n{everything}{files}{}", python(peers))
}

#[test]
fn tools_of_real_mcp_servers_are_listed_and_called() {
    let Some(peers) = installed() else { return };
    let calls = [
        ("everything__echo", json!({"message": "hello"})),
        ("everything__get-structured-content", json!({"location": "New York"})),
        ("everything__get-tiny-image", json!({})),
        ("filesystem__write_file", json!({"path": "a.txt", "content": "written"})),
        ("filesystem__read_text_file", json!({"path": "a.txt"})),
        ("filesystem__read_text_file", json!({"path": "../outside.txt"})),
        ("python__add", json!({"a": 1, "b": 2})),
    ];
    let env = test_env(|_| all(&peers), &calls);
    let listed = env.lango(&["tools", "--json"]).success().json_lines();
    for (name, _) in &calls {
        assert!(listed.iter().any(|tool| tool["name"] == *name), "{name} is not among {listed:?}");
    }
    assert!(listed.iter().all(|line| line.get("problem").is_none()), "{listed:?}");
    let answers = tool_results(&run(&env).success().json_lines());
    assert_eq!(answers[0]["output"], "Echo: hello");
    assert!(answers[1]["data"]["temperature"].is_number(), "{answers:?}");
    assert_eq!(answers[2]["files"][0]["mime_type"], "image/png");
    assert_eq!(fs::read_to_string(env.workdir().join("a.txt")).unwrap(), "written");
    assert_eq!(answers[4]["output"].as_str().or(answers[4]["data"]["content"].as_str()), Some("written"));
    assert!(answers[5]["error"].as_str().unwrap().contains("denied"), "{answers:?}");
    assert_eq!(answers[6]["data"]["result"], 3);
}

/// Kills a server once `is_time` holds, and returns the results of the run's calls.
fn killed(env: &TestEnv, server: &str, is_time: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    let mut lango = env.command(["run", "--json", "go"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(lango.stdout.take().unwrap())
        .lines()
        .map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    let mut seen = Vec::new();
    while !is_time(&seen) {
        seen.push(lines.next().unwrap());
    }
    let pid = child_of(lango.id(), server);
    let killed = Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap();
    assert!(killed.success());
    seen.extend(lines);
    assert!(lango.wait().unwrap().success());
    tool_results(&seen)
}

/// The child process whose command line contains `word`.
fn child_of(parent: u32, word: &str) -> u32 {
    let pids =
        fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let is_it = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let after_name = stat.rsplit(')').next().unwrap_or_default();
        let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        after_name.split_whitespace().nth(1) == Some(&parent.to_string()) && line.contains(word)
    };
    pids.into_iter().find(is_it).unwrap()
}

#[test]
fn real_mcp_server_killed_during_a_call_answers_the_next_one() {
    let Some(peers) = installed() else { return };
    let calls = [
        ("python__wait", json!({"seconds": 600, "marker": "it-waits"})),
        ("python__add", json!({"a": 2, "b": 2})),
    ];
    let env = test_env(|_| all(&peers), &calls);
    let marker = env.workdir().join("it-waits");
    let answers = killed(&env, "server.py", |seen| {
        if seen.is_empty() {
            return false;
        }
        // The event of a call is printed before the call runs.
        while !marker.exists() {
            std::thread::yield_now();
        }
        true
    });
    let first = answers[0]["error"].as_str().unwrap();
    assert!(first.contains("its outcome is unknown"), "{first}");
    assert_eq!(answers[1]["data"]["result"], 4);
}

#[test]
fn real_mcp_server_killed_between_calls_is_restarted() {
    let Some(peers) = installed() else { return };
    let echo = |message: &str| ("everything__echo", json!({"message": message}));
    let env = test_env(|_| all(&peers), &[echo("one"), echo("two"), echo("three")]);
    let answers = killed(&env, "mcp-server-everything", |seen| !tool_results(seen).is_empty());
    let outputs: Vec<&str> = answers.iter().filter_map(|answer| answer["output"].as_str()).collect();
    assert_eq!(outputs, ["Echo: one", "Echo: two", "Echo: three"]);
}

/// An MCP server process over HTTP. Dropping it kills the process.
struct HttpMcpServer(Child, u16);

impl HttpMcpServer {
    fn start(peers: &Path) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut command = Command::new(peers.join("node_modules/.bin/mcp-server-everything"));
        command.arg("streamableHttp").env("PORT", port.to_string());
        let mut process = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        assert!(lines.any(|line| line.is_ok_and(|line| line.contains("listening"))), "the server ended");
        // Drains standard error, so that the server does not block on it.
        std::thread::spawn(move || lines.for_each(drop));
        Self(process, port)
    }
}

impl Drop for HttpMcpServer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn real_mcp_server_is_used_over_http() {
    let Some(peers) = installed() else { return };
    let far = HttpMcpServer::start(&peers);
    let servers = |_: &TestEnv| {
        let url = format!("http://127.0.0.1:{}/mcp", far.1);
        format!(
            "[approval]\nnetwork = \"allow\"\n[mcp.far]\nurl = {url:?}\nheaders = {{ dir-Who = \"lango\" }}\n"
        )
    };
    let env = test_env(servers, &[("far__echo", json!({"message": "hello"}))]);
    assert_eq!(tool_results(&run(&env).success().json_lines())[0]["output"], "Echo: hello");
    drop(far);
    let output = run(&env).success();
    assert!(output.err.contains("the MCP server `far` (lango.toml) cannot be reached"), "{}", output.err);
}
