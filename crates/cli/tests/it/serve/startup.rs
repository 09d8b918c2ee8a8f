//! The start of the server: every agent is loaded before it listens, broken ones are reported, and the printed addresses work.

use super::client::{TestServer, message};
use crate::common::{AuthServer, TestEnv};
use serde_json::{Value, json};
use std::{fs, os::unix::fs::PermissionsExt};

const GOOD: &str = "name: good\nmodel: demo\n";

/// The broken apps of `/readyz` as `name kind reason`.
fn broken(server: &TestServer) -> Vec<String> {
    describe(&server.get("/readyz"))
}

fn describe(ready: &Value) -> Vec<String> {
    let text = |app: &Value, key: &str| app[key].as_str().unwrap_or_default().to_owned();
    let apps = ready["apps"]["broken"].as_array().unwrap_or_else(|| panic!("{ready}")).iter();
    apps.map(|app| format!("{} {} {}", text(app, "name"), text(app, "kind"), text(app, "reason"))).collect()
}

/// One good app, and one for each way to be broken.
fn broken_apps() -> TestEnv {
    let env = TestEnv::new();
    env.file(
        "lango.toml",
        "model = \"demo\"\n[providers.locked]\nbaseUrl = \"http://m\"\nkey = \"${NOT_SET}\"\n",
    );
    env.file("agents/good/root_agent.yaml", GOOD);
    env.file("agents/key/root_agent.yaml", "name: key\nmodel: locked/m\n");
    env.file("agents/script/root_agent.yaml", "name: script\nmodel: scripted/none.yaml\n");
    env.file("agents/sub/root_agent.yaml", "name: sub\nsub_agents: [{config_path: child.yaml}]\n");
    env.file("agents/sub/child.yaml", "name: child\ntools: [{name: lamp}]\n");
    env.file("agents/syntax/root_agent.yaml", "name: syntax\nmodel: demo\ndescription: [no text\n");
    env.file("agents/twice/root_agent.yaml", "name: twice\nsub_agents: [{config_path: child.yaml}]\n");
    env.file("agents/twice/child.yaml", "name: twice\n");
    fs::create_dir(env.workdir().join("agents/link")).unwrap();
    std::os::unix::fs::symlink("gone.yaml", env.workdir().join("agents/link/root_agent.yaml")).unwrap();
    fs::create_dir(env.workdir().join("agents/no-agent")).unwrap();
    fs::create_dir_all(env.workdir().join("agents/folder/root_agent.yaml")).unwrap();
    env.file("agents/device/root_agent.yaml", "name: device\nsub_agents: [{config_path: child.yaml}]\n");
    std::os::unix::fs::symlink("/dev/zero", env.workdir().join("agents/device/child.yaml")).unwrap();
    env
}

#[test]
fn spec_a1_broken_agents_are_reported_at_the_start_and_the_others_are_served() {
    let env = broken_apps();
    let server = TestServer::start(&env);
    let log = server.log();
    let before_listening = log.split("listening on").next().unwrap();
    let found = broken(&server);
    insta::assert_snapshot!(found.join("\n"), @r#"
    device unreadable agents/device/child.yaml cannot be read: it is not a regular file
    folder unreadable agents/folder/root_agent.yaml cannot be read: it is not a regular file
    key model agents/key/root_agent.yaml: the key of locked is ${NOT_SET}, which is not set: set it to the key
    link unreadable agents/link/root_agent.yaml cannot be read: No such file or directory
    script model agents/script/root_agent.yaml names agents/script/none.yaml, which does not exist
    sub tools agents/sub/child.yaml: there is no tool "lamp"; the tools are now, calculate, read_file, list_files, search_files, write_file, edit_file, undo_edit, exec, exec_start, exec_status, exec_stop, read_output, fetch, recall, load_memory, preload_memory
    syntax invalid agents/syntax/root_agent.yaml:3:14: a bracket is not closed
    twice invalid agents/twice/root_agent.yaml: two agents are named twice; names must be unique in the whole tree
    "#);
    for app in &found {
        let (name, rest) = app.split_once(' ').unwrap();
        let reason = rest.split_once(' ').unwrap().1;
        let line = format!("the app {name} cannot be loaded: {reason}\n");
        assert!(before_listening.contains(&line), "{line} is not in\n{before_listening}");
    }
    server.create_session("good", "s");
    server.send_message("good", "s", "hi").success();
    let refused = server.request("GET", "/apps/syntax/app-info", &Value::Null);
    assert_eq!((refused.status, &refused.body["kind"]), (500, &json!("invalid")));
}

#[test]
fn readiness_shows_reasons_to_administrators_only() {
    let env = broken_apps();
    let server = AuthServer::start(&env, &[]);
    let public = server.get("/readyz", &[]).body;
    for detail in ["agents/", "reason", "NOT_SET", "lamp", "yaml"] {
        assert!(!public.contains(detail), "{detail} is in {public}");
    }
    assert!(public.contains(r#"{"name":"sub","kind":"tools","servesPrevious":false}"#), "{public}");
    let token = fs::read_to_string(env.home().join("server-token")).unwrap();
    let token = format!("Bearer {}", token.trim());
    let ready = server.get("/readyz", &[("authorization", &token)]).json();
    assert!(describe(&ready).iter().any(|app| app.contains("agents/sub/child.yaml")), "{ready}");
}

#[test]
fn server_without_a_usable_app_is_not_ready_until_one_is_repaired() {
    let env = TestEnv::new();
    env.file("agents/one/root_agent.yaml", "name: [one\n");
    let server = TestServer::start(&env);
    assert!(server.log().contains("no app can be loaded: /readyz answers 503 until one can"));
    let ready = server.request("GET", "/readyz", &Value::Null);
    assert_eq!((ready.status, &ready.body["kind"]), (503, &json!("no_app")));
    assert_eq!(server.get("/health")["status"], "ok");
    env.file("agents/one/root_agent.yaml", "name: one\nmodel: demo\n");
    // No request asks for the app: the server notices the repair by itself.
    server.wait_for_log("the app one can be loaded again");
    assert_eq!(server.get("/readyz")["status"], "ready");
}

#[test]
fn added_changed_and_removed_apps_are_noticed_without_a_request() {
    let env = TestEnv::new();
    env.file("agents/good/root_agent.yaml", GOOD);
    let server = TestServer::start(&env);
    assert_eq!(broken(&server), [""; 0]);

    env.file("agents/good/root_agent.yaml", "name: good\nmodel: demo\ntools: [{name: lamp}]\n");
    server.wait_for_log(
        "the app good cannot be loaded: agents/good/root_agent.yaml: there is no tool \"lamp\"",
    );
    let ready = server.get("/readyz");
    assert_eq!(ready["apps"]["broken"][0]["servesPrevious"], true, "{ready}");
    server.create_session("good", "s");
    server.send_message("good", "s", "hi").success();

    env.file("agents/new/root_agent.yaml", "name: new\nmodel: nobody/x\n");
    server.wait_for_log("the app new cannot be loaded: agents/new/root_agent.yaml: there is no provider");
    assert_eq!(server.get("/list-apps"), json!(["good", "new"]));

    fs::remove_dir_all(env.workdir().join("agents/new")).unwrap();
    server.wait_until("/readyz", |ready| describe(ready).len() == 1);
    assert_eq!(server.request("GET", "/apps/new/app-info", &Value::Null).status, 404);

    env.file("agents/good/root_agent.yaml", GOOD);
    server.wait_until("/readyz", |ready| describe(ready).is_empty());
    let log = server.log();
    for app in ["good", "new"] {
        let reports = log.matches(&format!("the app {app} cannot be loaded")).count();
        assert_eq!(reports, 1, "each fault is reported once:\n{log}");
    }
}

#[test]
fn runs_that_wait_for_a_broken_agent_are_shown_and_continue_after_its_repair() {
    let env = TestEnv::new();
    env.file("agents/good/root_agent.yaml", GOOD);
    let agent = "name: one\nmodel: scripted/script.yaml\n";
    env.file("agents/one/root_agent.yaml", agent);
    env.file("agents/one/script.yaml", "rules:\n  - reply: [{text: begin}, hang]\n");
    let server = TestServer::start(&env);
    let session = server.create_session("one", "s");
    let mut body = message("one", "s", "go");
    body["streaming"] = true.into();
    let mut events = server.stream(&body);
    events.next().unwrap();
    let run = format!("{session}/runs/{}", events.run);
    server.kill();

    env.file("agents/one/root_agent.yaml", "name: [one\n");
    let server = TestServer::start(&env);
    let waits = json!([{"app": "one", "runs": 1}]);
    server.wait_until("/readyz", |ready| ready["recovery"]["stalled"] == waits);
    env.file("agents/one/script.yaml", "rules:\n  - reply: [{text: done}]\n");
    env.file("agents/one/root_agent.yaml", agent);
    server.wait_until(&run, |run| run["status"] == "done");
    server.wait_until("/readyz", |ready| ready["recovery"]["stalled"] == json!([]));
}

#[test]
fn dead_mcp_server_does_not_delay_the_start() {
    let env = TestEnv::new();
    // The program never answers; the limit for its start is longer than the test may take.
    env.file(
        "lango.toml",
        "model = \"demo\"\n[mcp.dead]\ncommand = \"sleep\"\nargs = [\"600\"]\nstartTimeoutS = 600\n",
    );
    env.file("agents/good/root_agent.yaml", "name: good\ntools: [{name: dead__x}]\n");
    let server = TestServer::start(&env);
    assert_eq!(broken(&server), [""; 0]);
}

#[test]
fn reasons_contain_no_secrets() {
    let env = TestEnv::new();
    let key = "[providers.mine]\nbaseUrl = \"http://m\"\nkey = \"${CANARY}\"\n";
    env.file("lango.toml", format!("model = \"demo\"\n{key}"));
    env.file(
        "agents/one/root_agent.yaml",
        format!("name: one\noutput_key: {}\nmodel: [x]\n", crate::common::CANARY),
    );
    env.file(
        "agents/two/root_agent.yaml",
        format!("name: two\ninclude_contents: {}\n", crate::common::CANARY),
    );
    let mut command = env.command(["serve", "--port", "0", "--no-auth"]);
    let server = TestServer::spawn(command.env("CANARY", crate::common::CANARY));
    assert_eq!(server.request("GET", "/readyz", &Value::Null).status, 503);
    let ready = server.request("GET", "/readyz", &Value::Null).body;
    assert_eq!(describe(&ready).len(), 2);
    let shown = format!("{ready}{}", server.log());
    assert!(!shown.contains(crate::common::CANARY), "{shown}");
}

/// A `PATH` whose `python3` has no google-adk.
fn without_adk(env: &TestEnv) -> std::path::PathBuf {
    env.file("bin/python3", "#!/bin/sh\nexit 1\n");
    let bin = env.workdir().join("bin");
    fs::set_permissions(bin.join("python3"), fs::Permissions::from_mode(0o755)).unwrap();
    bin
}

#[test]
fn printed_link_is_served_with_and_without_the_web_page() {
    let env = TestEnv::canned();
    let bin = without_adk(&env);
    // Not a page: files of the working directory are never served.
    env.file("index.html", "private");
    let serve = |more: &[&str]| {
        let mut command = env.command(["serve", "--port", "0", "--no-auth"]);
        TestServer::spawn(command.args(more).env("PATH", &bin))
    };
    env.file("page/index.html", "a page");
    for (more, path, note) in [
        (&[][..], "/docs", "ADK's web page is not installed"),
        (&["--dev-ui", "bin"], "/docs", "ADK's web page is not installed"),
        (&["--dev-ui", "page"], "/", "every program on this machine has access"),
    ] {
        let server = serve(more);
        server.wait_for_log(note);
        let log = server.log();
        let link = log.lines().find_map(|line| line.strip_prefix("open http://")).unwrap();
        let link = link.split(' ').next().unwrap();
        assert_eq!(
            link.split_once('/').map(|(_, rest)| format!("/{rest}")).as_deref(),
            Some(path),
            "{more:?}"
        );
        let mut response = server.request("GET", path, &Value::Null);
        while response.status == 307 {
            let location = response.header("location").unwrap().to_owned();
            response = server.request("GET", &location, &Value::Null);
        }
        assert_eq!(response.status, 200, "{more:?}: {response:?}");
        assert!(!response.body.to_string().contains("private"), "{more:?}");
    }
}

#[test]
fn printed_address_is_the_one_that_is_listened_on() {
    let env = TestEnv::canned();
    env.file("page/index.html", "a page");
    for (host, listens, opens) in [
        ("127.0.0.1", "http://127.0.0.1:", "http://127.0.0.1:"),
        ("0.0.0.0", "http://0.0.0.0:", "http://127.0.0.1:"),
        ("::1", "http://[::1]:", "http://[::1]:"),
        ("::", "http://[::]:", "http://[::1]:"),
    ] {
        if std::net::TcpListener::bind((host, 0)).is_err() {
            // No IPv6 on this machine.
            continue;
        }
        let mut command = env.command(["serve", "--port", "0", "--dev-ui", "page", "--host", host]);
        let server = TestServer::spawn(&mut command);
        server.wait_for_log("open ");
        let log = server.log();
        let line =
            |start: &str| log.lines().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("{log}"));
        assert!(line("listening on ").starts_with(&format!("listening on {listens}")), "{log}");
        assert!(line("open ").starts_with(&format!("open {opens}")), "{log}");
        let port = |line: &str| line.split(':').next_back().unwrap().split('/').next().unwrap().to_owned();
        assert_eq!(port(line("listening on ")), port(line("open ").split(' ').nth(1).unwrap()), "{log}");
        assert_eq!(server.get("/health")["status"], "ok", "{host}");
    }
}
