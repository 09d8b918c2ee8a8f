//! MCP servers over HTTP, used by a `lango serve` that outlives them.

use super::{by_word, tool_results, web::FakeMcpServer};
use crate::{
    common::{CANARY, TestEnv},
    serve::client::TestServer,
};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// An environment in which each message calls the tool of that name on `web`.
fn test_env(web: &FakeMcpServer, more: &str) -> TestEnv {
    let call = |name: &str, args: Value| (name.to_owned(), format!("web__{name}"), args);
    let calls = [
        call("echo", json!({"text": "hello"})),
        call("die", json!({})),
        call("half", json!({})),
        call("hang", json!({})),
        call("who", json!({})),
        call("big", json!({})),
        call("stream", json!({})),
        call("new", json!({})),
    ];
    let calls: Vec<(&str, &str, Value)> =
        calls.iter().map(|(word, name, args)| (word.as_str(), name.as_str(), args.clone())).collect();
    let url = web.url();
    let toml = format!("[approval]\nnetwork = \"allow\"\n[mcp.web]\nurl = \"{url}\"\ntrusted = true\n{more}");
    TestEnv::scripted(&toml, &by_word(&calls))
}

fn serve(env: &TestEnv) -> TestServer {
    let server = TestServer::spawn(env.command(["serve", "--port", "0", "--no-auth"]).env("CANARY", CANARY));
    server.create_session("lango", "s");
    server
}

/// The result of the call that `word` triggers; null if it triggers none.
fn call_result(server: &TestServer, word: &str) -> Value {
    let events = server.send_message("lango", "s", word).success();
    tool_results(events.as_array().unwrap()).into_iter().next().unwrap_or_default()
}

#[test]
fn unreachable_mcp_server_is_reported_and_reconnected() {
    let mut web = FakeMcpServer::start();
    let env = test_env(&web, "");
    let server = serve(&env);
    assert_eq!(call_result(&server, "echo")["output"], "hello");
    web.stop();
    for _ in 0..3 {
        let error = call_result(&server, "echo")["error"].to_string();
        assert!(
            error.contains("the MCP server `web` (lango.toml) cannot be reached: Connection refused"),
            "{error}"
        );
    }
    web.add_tool("new");
    web.restart();
    let deadline = Instant::now() + Duration::from_secs(30);
    while call_result(&server, "echo")["output"] != "hello" {
        assert!(Instant::now() < deadline, "it is not found again");
    }
    assert_eq!(web.request_count("tools/call echo"), 2);
    // The tools were listed again after the reconnect.
    call_result(&server, "new");
    assert_eq!(web.request_count("tools/call new"), 1);
}

#[test]
fn expired_mcp_session_is_reinitialized_transparently() {
    let web = FakeMcpServer::start();
    let env = test_env(&web, "");
    let server = serve(&env);
    assert_eq!(call_result(&server, "echo")["output"], "hello");
    web.drop_sessions();
    assert_eq!(call_result(&server, "echo")["output"], "hello");
    web.drop_sessions();
    web.use_custom_session_error();
    assert_eq!(call_result(&server, "echo")["output"], "hello");
    assert_eq!(web.request_count("initialize"), 3);
}

#[test]
fn call_that_may_have_reached_the_server_is_not_retried() {
    for word in ["die", "half"] {
        let web = FakeMcpServer::start();
        let env = test_env(&web, "");
        let server = serve(&env);
        let error = call_result(&server, word)["error"].to_string();
        assert!(error.contains("was lost during the call, so its outcome is unknown"), "{error}");
        assert_eq!(web.request_count(&format!("tools/call {word}")), 1);
        assert_eq!(call_result(&server, "echo")["output"], "hello", "after {word}");
    }
}

#[test]
fn unresponsive_mcp_server_does_not_delay_turns() {
    let mut web = FakeMcpServer::start();
    // Longer than any test waits.
    let env = test_env(&web, "start_timeout_s = 600\n");
    let server = serve(&env);
    web.stop();
    call_result(&server, "nothing");
    web.set_silent(true);
    web.restart();
    let deadline = Instant::now() + Duration::from_secs(30);
    // The server is retried after its backoff, and the turns do not wait for it.
    while web.request_count("initialize") + web.request_count("server/discover") == 0 {
        call_result(&server, "nothing");
        assert!(Instant::now() < deadline, "it is not looked for");
    }
    call_result(&server, "nothing");
}

#[test]
fn app_info_includes_server_tools_without_waiting_for_silent_servers() {
    let (web, silent) = (FakeMcpServer::start(), FakeMcpServer::start());
    web.add_tool("with-dash");
    silent.set_silent(true);
    let url = silent.url();
    let env = test_env(&web, &format!("[mcp.silent]\nurl = \"{url}\"\nstart_timeout_s = 600\n"));
    let server = serve(&env);
    let info = server.get("/apps/lango/app-info");
    let tools = info["agents"]["lango-agent"]["tools"].as_array().unwrap();
    let declared = |name: &str| {
        tools.iter().map(|tool| &tool["functionDeclarations"][0]).find(|tool| tool["name"] == name).cloned()
    };
    assert_eq!(declared("web__echo").unwrap()["parametersJsonSchema"], json!({"type": "object"}));
    assert!(declared("calculate").is_some());
    let built = server.get("/dev/apps/lango/build_graph")["root_agent"]["tools"].clone();
    let is_echo = |tool: &Value| *tool == json!({"name": "web__echo", "type": "tool"});
    assert!(built.as_array().unwrap().iter().any(is_echo), "{built}");
    let drawn = server.get("/dev/apps/lango/graph")["dotSrc"].as_str().unwrap().to_owned();
    assert!(
        drawn.contains("\t\"lango-agent\" -> web__echo [") && drawn.contains(" -> \"web__with-dash\" ["),
        "{drawn}"
    );
}

#[test]
fn mcp_header_secret_is_masked_in_results() {
    let web = FakeMcpServer::with_authorization(&format!("Bearer {CANARY}"));
    let headers = "headers = { Authorization = \"Bearer ${CANARY}\" }\n";
    let env = test_env(&web, headers);
    let server = serve(&env);
    assert_eq!(call_result(&server, "who")["output"], "Bearer [masked]");
    let without = env.lango(&["tools"]).success();
    assert!(without.out.contains("it needs the variable CANARY, which is not set"), "{}", without.out);
    let wrong = env.run(env.command(["tools"]).env("CANARY", "sk-another-canary")).success();
    let error = wrong.out.lines().last().unwrap();
    assert_eq!(
        error,
        "the MCP server `web` (lango.toml) cannot be reached: it requires another Authorization header; set it in its `headers`"
    );
}

#[test]
fn large_http_results_are_spilled_to_disk() {
    for word in ["big", "stream"] {
        let web = FakeMcpServer::start();
        let env = test_env(&web, "");
        let server = serve(&env);
        let answer = call_result(&server, word);
        assert_eq!(answer["bytes"], 21_000_000, "{word}");
        let file = env.home().join("kept").join(answer["handle"].as_str().unwrap());
        assert_eq!(std::fs::metadata(file).unwrap().len(), 21_000_000);
        let peak = server.peak_memory();
        assert!(peak < 60_000_000, "{peak} bytes for {word}");
    }
}

#[test]
fn tool_list_changes_are_followed_and_cancelling_a_run_cancels_its_call() {
    let web = FakeMcpServer::start();
    let env = test_env(&web, "");
    let server = serve(&env);
    assert_eq!(call_result(&server, "echo")["output"], "hello");
    web.wait_for_request("GET");
    web.add_tool("new");
    web.notify_tools_changed();
    let deadline = Instant::now() + Duration::from_secs(30);
    while web.request_count("tools/call new") == 0 {
        call_result(&server, "new");
        assert!(Instant::now() < deadline, "the new tool is not called");
    }

    let run = server.start_run("/apps/lango/users/u/sessions/s", "hang");
    web.wait_for_request("tools/call hang");
    assert_eq!(server.request("POST", &format!("{run}/cancel"), &Value::Null).status, 200);
    web.wait_for_request("notifications/cancelled");
}
