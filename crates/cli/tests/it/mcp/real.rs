//! Servers from the registries, unchanged: two in JavaScript, and one made with Python's library. `cargo xtask check` installs
//! them and says where.

use super::{answers, place, run};
use crate::common::{Place, fixtures};
use serde_json::{Value, json};
use std::{
    env, fs,
    io::{BufRead, BufReader},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

/// Where they are; `None` where they are not installed. In CI they have to be.
fn installed() -> Option<PathBuf> {
    let place = env::var_os("LANGO_TEST_MCP").map(PathBuf::from);
    assert!(
        place.is_some() || env::var_os("CI").is_none(),
        "`cargo xtask check` installs MCP servers and sets LANGO_TEST_MCP"
    );
    place
}

fn javascript(peers: &Path, name: &str, args: &str) -> String {
    let program = peers.join("node_modules/.bin").join(format!("mcp-server-{name}"));
    format!("[mcp.{name}]\ncommand = {:?}\nargs = [{args}]\ntrusted = true\n", program.display().to_string())
}

fn python(peers: &Path) -> String {
    let (program, script) = (peers.join("venv/bin/python"), fixtures().join("mcp/server.py"));
    let (program, script) = (program.display().to_string(), script.display().to_string());
    format!("[mcp.python]\ncommand = {program:?}\nargs = [{script:?}]\ntrusted = true\n")
}

/// All three, and rules that let them run.
fn all(peers: &Path) -> String {
    let files = javascript(peers, "filesystem", "\".\"");
    let everything = javascript(peers, "everything", "\"stdio\"");
    format!("[approval]\nexecute = \"allow\"\nwrite = \"allow\"\n{everything}{files}{}", python(peers))
}

#[test]
fn their_tools_are_listed_and_called() {
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
    let place = place(|_| all(&peers), &calls);
    let listed = place.lango(&["tools", "--json"]).well().json_lines();
    for (name, _) in &calls {
        assert!(listed.iter().any(|tool| tool["name"] == *name), "{name} is not among {listed:?}");
    }
    assert!(listed.iter().all(|line| line.get("problem").is_none()), "{listed:?}");
    let answers = answers(&run(&place).well().json_lines());
    assert_eq!(answers[0]["output"], "Echo: hello");
    assert!(answers[1]["data"]["temperature"].is_number(), "{answers:?}");
    assert_eq!(answers[2]["files"][0]["mime_type"], "image/png");
    assert_eq!(fs::read_to_string(place.here().join("a.txt")).unwrap(), "written");
    assert_eq!(answers[4]["output"].as_str().or(answers[4]["data"]["content"].as_str()), Some("written"));
    assert!(answers[5]["error"].as_str().unwrap().contains("denied"), "{answers:?}");
    assert_eq!(answers[6]["data"]["result"], 3);
}

/// Kills a server as soon as it is time, and gives what the run's calls were answered.
fn killed(place: &Place, server: &str, is_time: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    let mut lango = place.command(["run", "--json", "go"]).stdout(Stdio::piped()).spawn().unwrap();
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
    answers(&seen)
}

/// The child of a process whose command line has this word.
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
fn a_server_that_is_killed_in_a_call_answers_the_next_one() {
    let Some(peers) = installed() else { return };
    let calls = [
        ("python__wait", json!({"seconds": 600, "marker": "it-waits"})),
        ("python__add", json!({"a": 2, "b": 2})),
    ];
    let place = place(|_| all(&peers), &calls);
    let marker = place.here().join("it-waits");
    let answers = killed(&place, "server.py", |seen| {
        if seen.is_empty() {
            return false;
        }
        // The call is shown before it is made.
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
fn a_server_that_is_killed_between_calls_is_not_missed() {
    let Some(peers) = installed() else { return };
    let echo = |message: &str| ("everything__echo", json!({"message": message}));
    let place = place(|_| all(&peers), &[echo("one"), echo("two"), echo("three")]);
    let answers = killed(&place, "mcp-server-everything", |seen| !answers(seen).is_empty());
    let said: Vec<&str> = answers.iter().filter_map(|answer| answer["output"].as_str()).collect();
    assert_eq!(said, ["Echo: one", "Echo: two", "Echo: three"]);
}

/// A server at an address, while it is needed.
struct Far(Child, u16);

impl Far {
    fn start(peers: &Path) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut command = Command::new(peers.join("node_modules/.bin/mcp-server-everything"));
        command.arg("streamableHttp").env("PORT", port.to_string());
        let mut process = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        assert!(lines.any(|line| line.is_ok_and(|line| line.contains("listening"))), "the server ended");
        // It goes on to say things, and must not wait for somebody to read them.
        std::thread::spawn(move || lines.for_each(drop));
        Self(process, port)
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_server_at_an_address_is_used_like_one_that_is_started_here() {
    let Some(peers) = installed() else { return };
    let far = Far::start(&peers);
    let servers = |_: &Place| {
        let url = format!("http://127.0.0.1:{}/mcp", far.1);
        format!(
            "[approval]\nnetwork = \"allow\"\n[mcp.far]\nurl = {url:?}\nheaders = {{ X-Who = \"lango\" }}\n"
        )
    };
    let place = place(servers, &[("far__echo", json!({"message": "hello"}))]);
    assert_eq!(answers(&run(&place).well().json_lines())[0]["output"], "Echo: hello");
    drop(far);
    let said = run(&place).well();
    assert!(said.err.contains("the MCP server `far` (lango.toml) cannot be reached"), "{}", said.err);
}
