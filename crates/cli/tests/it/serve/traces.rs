//! The spans that are exported to a collector, and those of ADK's debug routes. They contain no message content unless it is
//! enabled.

use super::client::{Events, TestServer, message};
use crate::common::{CANARY, QUESTION, REST, Terminal, TestEnv, provider};
use insta::assert_snapshot;
use serde_json::Value;
use std::{
    fmt::Write as _,
    io::{BufRead, BufReader, Write as _},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};
use testkit::{ProviderApi, fakeprov::FakeProvider};

/// A collector that accepts every request.
struct Collector {
    address: String,
    taken: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Collector {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let taken = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&taken);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let into = Arc::clone(&into);
                thread::spawn(move || take_all(stream, &into));
            }
        });
        Self { address, taken }
    }

    fn test_env(&self, more: &str) -> TestEnv {
        let env = TestEnv::canned();
        let config = std::fs::read_to_string(env.workdir().join("lango.toml")).unwrap();
        let headers = "headers = { \"X-Key\" = \"${CANARY}\" }";
        let address = &self.address;
        env.file(
            "lango.toml",
            format!("{config}\n[telemetry]\nendpoint = \"http://{address}\"\n{headers}\n{more}\n"),
        );
        env
    }

    fn text(&self) -> String {
        self.taken.lock().unwrap().iter().map(|(_, body)| body.to_string()).collect()
    }

    fn spans(&self) -> Vec<Value> {
        let taken = self.taken.lock().unwrap();
        let spans = taken.iter().map(|(_, body)| &body["resourceSpans"][0]["scopeSpans"][0]["spans"]);
        spans.flat_map(|spans| spans.as_array().unwrap().clone()).collect()
    }

    /// All spans as a tree, ordered by start time, with generated ids replaced.
    fn tree(&self) -> String {
        let mut spans = self.spans();
        spans.sort_by_key(|span| span["startTimeUnixNano"].as_str().unwrap().parse::<u64>().unwrap());
        let is_known = |id: &Value| spans.iter().any(|span| span["spanId"] == *id);
        let mut tree = String::new();
        for span in spans.iter().filter(|span| !is_known(&span["parentSpanId"])) {
            add(&mut tree, &spans, span, 0);
        }
        tree
    }
}

fn take_all(stream: TcpStream, into: &Mutex<Vec<(String, Value)>>) {
    let mut reader = BufReader::new(stream);
    while let Some(taken) = request(&mut reader) {
        into.lock().unwrap().push(taken);
        let answer = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";
        reader.get_mut().write_all(answer.as_bytes()).unwrap();
    }
}

fn request(reader: &mut impl BufRead) -> Option<(String, Value)> {
    let mut head = String::new();
    while reader.read_line(&mut head).ok()? > 2 {}
    let length =
        head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ").map(str::to_owned));
    let mut body = vec![0; length?.parse().ok()?];
    reader.read_exact(&mut body).ok()?;
    Some((head, serde_json::from_slice(&body).ok()?))
}

fn add(tree: &mut String, spans: &[Value], span: &Value, depth: usize) {
    let indent = "  ".repeat(depth);
    let _ = writeln!(tree, "{indent}{}", span["name"].as_str().unwrap());
    for attribute in span["attributes"].as_array().unwrap() {
        let key = attribute["key"].as_str().unwrap();
        let value = attribute["value"].as_object().unwrap().values().next().unwrap();
        let value = value["values"][0].get("stringValue").unwrap_or(value);
        let is_minted = MINTED.contains(&key);
        let value = if is_minted { "…".to_owned() } else { value.to_string().replace('"', "") };
        let _ = writeln!(tree, "{indent}  · {key} = {value}");
    }
    for child in spans.iter().filter(|child| child["parentSpanId"] == span["spanId"]) {
        add(tree, spans, child, depth + 1);
    }
}

const MINTED: [&str; 4] = ["lango.run.id", "lango.invocation.id", "lango.event.id", "gen_ai.tool.call.id"];
const PARENT: (&str, &str) = ("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");

/// Serves one message and stops the server gracefully.
fn serve_one(env: &TestEnv, text: &str) {
    let server = TestServer::spawn(env.command(["serve", "--port", "0", "--no-auth"]).env("CANARY", CANARY));
    server.create_session("canned", "s1");
    let _ = server.request_with("POST", "/run", &[PARENT], &message("canned", "s1", text));
    server.terminate();
    assert!(server.wait().success());
}

#[test]
fn run_spans_are_children_of_the_request_span() {
    let collector = Collector::start();
    serve_one(&collector.test_env(""), "tool secret-words");
    assert_snapshot!(collector.tree(), @"
    POST /apps/{app}/users/{user}/sessions
      · http.request.method = POST
      · http.route = /apps/{app}/users/{user}/sessions
      · http.response.status_code = 200
    POST /run
      · http.request.method = POST
      · http.route = /run
      · http.response.status_code = 200
      invoke_agent canned_root
        · gen_ai.operation.name = invoke_agent
        · gen_ai.agent.name = canned_root
        · gen_ai.agent.description = Canned root agent.
        · gen_ai.conversation.id = s1
        · lango.app = canned
        · lango.run.id = …
        chat canned-1
          · gen_ai.operation.name = chat
          · gen_ai.provider.name = scripted
          · gen_ai.request.model = canned-1
          · gen_ai.agent.name = canned_root
          · gen_ai.conversation.id = s1
          · lango.invocation.id = …
          · lango.event.id = …
          · gen_ai.response.model = canned-1
          · gen_ai.response.finish_reasons = stop
          · gen_ai.usage.input_tokens = 10
          · gen_ai.usage.output_tokens = 5
        execute_tool get_weather
          · gen_ai.operation.name = execute_tool
          · gen_ai.tool.name = get_weather
          · gen_ai.tool.type = function
          · gen_ai.tool.call.id = …
          · gen_ai.tool.description = Gets the weather of a city.
          · gen_ai.agent.name = canned_root
          · gen_ai.conversation.id = s1
          · lango.invocation.id = …
          · lango.event.id = …
        chat canned-1
          · gen_ai.operation.name = chat
          · gen_ai.provider.name = scripted
          · gen_ai.request.model = canned-1
          · gen_ai.agent.name = canned_root
          · gen_ai.conversation.id = s1
          · lango.invocation.id = …
          · lango.event.id = …
          · gen_ai.response.model = canned-1
          · gen_ai.response.finish_reasons = stop
          · gen_ai.usage.input_tokens = 10
          · gen_ai.usage.output_tokens = 5
    ");
}

#[test]
fn run_spans_join_the_request_trace_and_are_exported_with_configured_headers() {
    let collector = Collector::start();
    serve_one(&collector.test_env(""), "tool secret-words");
    let run: Vec<Value> = collector
        .spans()
        .into_iter()
        .filter(|span| span["name"] != "POST /apps/{app}/users/{user}/sessions")
        .collect();
    assert!(run.iter().all(|span| span["traceId"] == "4bf92f3577b34da6a3ce929d0e0e4736"));
    let request = run.iter().find(|span| span["name"] == "POST /run").unwrap();
    assert_eq!(request["parentSpanId"], "00f067aa0ba902b7");
    let heads: Vec<String> = collector.taken.lock().unwrap().iter().map(|(head, _)| head.clone()).collect();
    assert!(
        heads.iter().all(|head| head.starts_with("POST /v1/traces ") && head.contains(CANARY)),
        "{heads:?}"
    );
}

#[test]
fn spans_contain_message_content_only_if_enabled() {
    let content = ["secret-words", "Paris", "sunny", "Tool get_weather", "Be canned"];
    let silent = Collector::start();
    serve_one(&silent.test_env(""), "tool secret-words");
    let text = silent.text();
    assert!(text.contains("execute_tool get_weather"));
    for word in content.iter().chain(&[CANARY, "\"u\""]) {
        assert!(!text.contains(word), "{word} is in {text}");
    }
    let talkative = Collector::start();
    serve_one(&talkative.test_env("content = true"), "tool secret-words");
    let text = talkative.text();
    for word in content {
        assert!(text.contains(word), "{word} is not in {text}");
    }
    assert!(!text.contains(CANARY), "the collector's own key is in a span");
}

#[test]
fn failed_spans_carry_only_the_error_kind() {
    let collector = Collector::start();
    serve_one(&collector.test_env(""), "raise secret-words");
    let failed: Vec<String> = collector
        .spans()
        .iter()
        .filter(|span| span["status"]["code"] == 2)
        .map(|span| {
            format!("{}: {}", span["name"].as_str().unwrap(), span["status"]["message"].as_str().unwrap())
        })
        .collect();
    assert_snapshot!(failed.join("\n"), @"
    chat canned-1: runtimeerror
    invoke_agent canned_root: runtimeerror
    POST /run: 500
    ");
    assert!(!collector.text().contains("canned model failure"));
}

#[test]
fn run_command_exports_its_spans_before_exit() {
    let collector = Collector::start();
    let env = collector.test_env("service_name = \"mine\"");
    env.run(env.command(["run", "--session", "s1", "hi"]).env("CANARY", CANARY)).success();
    let names: Vec<String> =
        collector.tree().lines().filter(|line| !line.contains('·')).map(str::to_owned).collect();
    assert_snapshot!(names.join("\n"), @"
    invoke_agent canned_root
      chat canned-1
    ");
    assert!(collector.text().contains(r#"{"key":"service.name","value":{"stringValue":"mine"}}"#));
}

#[test]
fn unreachable_collector_does_not_affect_runs() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let env = TestEnv::canned();
    let mut command = env.command(["serve", "--port", "0", "--no-auth"]);
    let server = TestServer::spawn(command.env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{closed}")));
    server.create_session("canned", "s1");
    server.send_message("canned", "s1", "hi").success();
    server.terminate();
    assert!(server.wait().success());
}

/// The end time of the first span whose name begins with `name`.
fn end(spans: &[Value], name: &str) -> u64 {
    let span = spans.iter().find(|span| span["name"].as_str().unwrap().starts_with(name)).unwrap();
    span["endTimeUnixNano"].as_str().unwrap().parse().unwrap()
}

#[test]
fn span_of_a_stream_ends_with_its_last_byte_or_its_client() {
    let streamed = |reads: fn(Events)| {
        let collector = Collector::start();
        let env = collector.test_env("");
        let server =
            TestServer::spawn(env.command(["serve", "--port", "0", "--no-auth"]).env("CANARY", CANARY));
        server.create_session("canned", "s1");
        let mut slowly = message("canned", "s1", "slowly please");
        slowly["streaming"] = true.into();
        reads(server.stream(&slowly));
        server.terminate();
        assert!(server.wait().success());
        collector.spans()
    };
    let whole = streamed(|events| assert!(events.all().len() > 1));
    assert!(end(&whole, "POST /run_sse") >= end(&whole, "chat "), "{whole:?}");
    let left = streamed(|mut events| drop(events.next()));
    assert!(end(&left, "POST /run_sse") < end(&left, "chat "), "{left:?}");
}

#[test]
fn debug_trace_routes_return_spans_by_session_and_event() {
    let env = TestEnv::canned();
    let server = TestServer::start(&env);
    server.create_session("canned", "s1");
    let events = server.send_message("canned", "s1", "tool please").success();
    let spans = server.get("/dev/apps/canned/debug/trace/session/s1");
    let names: Vec<&str> =
        spans.as_array().unwrap().iter().map(|span| span["name"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        [
            "generate_content canned-1",
            "execute_tool get_weather",
            "generate_content canned-1",
            "invoke_agent canned_root"
        ]
    );
    let root = &spans[3];
    assert!(root["parent_span_id"].is_null() && spans[0]["parent_span_id"] == root["span_id"]);
    for (event, name) in [(0, "generate_content"), (1, "execute_tool"), (2, "generate_content")] {
        let id = events[event]["id"].as_str().unwrap();
        let shown = server.get(&format!("/dev/apps/canned/debug/trace/{id}"));
        assert_eq!(
            (&shown["gen_ai.operation.name"], &shown["gcp.vertex.agent.event_id"]),
            (&name.into(), &id.into())
        );
        assert!(shown["trace_id"].is_number() && shown["span_id"].is_number());
    }
    assert_eq!(server.request("GET", "/dev/apps/canned/debug/trace/nope", &Value::Null).status, 404);
    let session = "/apps/canned/users/u/sessions/s1";
    assert_eq!(server.request("DELETE", session, &Value::Null).status, 200);
    assert_eq!(server.get("/dev/apps/canned/debug/trace/session/s1"), serde_json::json!([]), "deleted");
    assert_eq!(server.get("/dev/apps/other/debug/trace/session/s1"), serde_json::json!([]));
}

#[test]
fn unknown_tool_names_are_not_exported_and_each_message_is_one_run_span() {
    let collector = Collector::start();
    let env = collector.test_env("");
    let server = TestServer::spawn(env.command(["serve", "--port", "0", "--no-auth"]).env("CANARY", CANARY));
    server.create_session("canned", "s1");
    // Concurrent, so that some of them are queued.
    thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| server.send_message("canned", "s1", "unknowntool please").success());
        }
    });
    server.terminate();
    assert!(server.wait().success());
    let spans = collector.spans();
    let count = |name: &str| spans.iter().filter(|span| span["name"] == name).count();
    assert_eq!(
        (count("invoke_agent canned_root"), count("execute_tool unknown"), count("POST /run")),
        (6, 6, 6)
    );
    let kinds: Vec<&Value> =
        spans.iter().map(|span| &span["status"]["message"]).filter(|kind| !kind.is_null()).collect();
    assert_eq!(kinds, ["unknown_tool"; 6]);
    assert!(!collector.text().contains("no_such_tool"));
}

/// The log record with which ADK's page fills its Request and Response panels.
fn details(span: &Value) -> &Value {
    let log = &span["logs"][0];
    assert_eq!(log["event_name"], "gen_ai.client.inference.operation.details", "{span}");
    &log["attributes"]
}

#[test]
fn request_and_answer_of_a_model_call_are_shown_also_after_a_restart() {
    let env = TestEnv::canned();
    let server = TestServer::start(&env);
    server.create_session("canned", "s1");
    server.send_message("canned", "s1", "tool please").success();
    let path = "/dev/apps/canned/debug/trace/session/s1";
    let spans = server.get(path);
    let second = details(&spans[2]);
    let messages = second["gen_ai.input.messages"].as_array().unwrap();
    let kinds: Vec<&str> =
        messages.iter().map(|message| message["parts"][0]["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["text", "tool_call", "tool_call_response"]);
    assert_eq!(messages[0]["parts"][0]["content"], "tool please");
    assert!(second["gen_ai.system_instructions"][0]["content"].as_str().unwrap().contains("canned"));
    let tools = second["gen_ai.tool.definitions"].as_array().unwrap();
    assert!(tools.iter().any(|tool| tool["name"] == "get_weather" && tool["parameters"].is_object()));
    assert_eq!(second["gen_ai.output.messages"][0]["parts"][0]["type"], "text");
    assert_eq!(details(&spans[0])["gen_ai.output.messages"][0]["parts"][0]["type"], "tool_call");
    assert_eq!(spans[1]["logs"], serde_json::json!([]), "a tool call has no request");
    server.terminate();
    assert!(server.wait().success());

    let server = TestServer::start(&env);
    let stored = server.get(path);
    assert_eq!(stored.as_array().unwrap().len(), 2, "{stored}");
    for (stored, shown) in [(&stored[0], &spans[0]), (&stored[1], &spans[2])] {
        let id = "gcp.vertex.agent.event_id";
        assert_eq!((&stored["name"], &stored["attributes"][id]), (&shown["name"], &shown["attributes"][id]));
        assert_eq!(details(stored), details(shown));
    }
}

#[test]
fn rebuilt_request_has_the_hash_of_the_body_that_was_sent_in_every_format() {
    for api in ProviderApi::ALL {
        let fake = FakeProvider::start_blocking();
        let env = TestEnv::new();
        let head = "model = \"one/small\"\n";
        env.file("lango.toml", format!("{head}{}{REST}", provider("one", &fake, api, "text")));
        env.lango_with_key(&["run", "--session", "s1", "hello"]).success();
        env.lango_with_key(&["run", "--session", "s1", "what is 2 + 2?"]).success();
        let sent: Vec<String> =
            fake.requests().iter().map(|request| sha256(&request.body.to_string())).collect();
        let server =
            TestServer::spawn(env.command(["serve", "--port", "0", "--no-auth"]).env("CANARY", CANARY));
        let apps = server.get("/list-apps");
        let app = apps[0].as_str().unwrap();
        let spans = server.get(&format!("/dev/apps/{app}/debug/trace/session/s1"));
        let attributes: Vec<&Value> =
            spans.as_array().unwrap().iter().map(|span| &span["attributes"]).collect();
        let hashes: Vec<&str> =
            attributes.iter().map(|span| span["lango.request.sha256"].as_str().unwrap()).collect();
        assert_eq!(hashes, sent, "{api:?}");
        assert!(attributes.iter().all(|span| span["lango.request.check"] == "verified"), "{api:?}: {spans}");
    }
}

fn sha256(text: &str) -> String {
    let hash = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    hash.as_ref().iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

#[test]
fn run_exports_the_spans_of_the_turns_after_an_approval() {
    let collector = Collector::start();
    let env = collector.test_env("");
    let variables = [("TERM", "xterm"), ("CANARY", CANARY)];
    let mut terminal = Terminal::with(&env, &["run", "--session", "k", "confirm"], &variables);
    terminal.wait_for(QUESTION);
    terminal.type_line("y");
    assert_eq!(terminal.wait_exit().0, Some(0));
    let spans = collector.spans();
    let tools: Vec<&str> = spans
        .iter()
        .filter_map(|span| span["name"].as_str())
        .filter(|name| name.starts_with("execute_tool"))
        .collect();
    assert_eq!(
        tools,
        ["execute_tool danger", "execute_tool danger"],
        "asked, then run: {}",
        collector.tree()
    );
}
