//! What a collector is sent, and what ADK's page is shown of it: by the real binary, and no word of what was said.

use super::client::{Events, Served, message};
use crate::common::{CANARY, Place};
use insta::assert_snapshot;
use serde_json::Value;
use std::{
    fmt::Write as _,
    io::{BufRead, BufReader, Write as _},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

/// A collector that takes everything.
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

    fn place(&self, more: &str) -> Place {
        let place = Place::canned();
        let config = std::fs::read_to_string(place.here().join("lango.toml")).unwrap();
        let headers = "headers = { \"X-Key\" = \"${CANARY}\" }";
        let address = &self.address;
        place.file(
            "lango.toml",
            format!("{config}\n[telemetry]\nendpoint = \"http://{address}\"\n{headers}\n{more}\n"),
        );
        place
    }

    fn text(&self) -> String {
        self.taken.lock().unwrap().iter().map(|(_, body)| body.to_string()).collect()
    }

    fn spans(&self) -> Vec<Value> {
        let taken = self.taken.lock().unwrap();
        let spans = taken.iter().map(|(_, body)| &body["resourceSpans"][0]["scopeSpans"][0]["spans"]);
        spans.flat_map(|spans| spans.as_array().unwrap().clone()).collect()
    }

    /// All spans as a tree, with ids by the order in which they appear.
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

/// Serves one message, and stops gracefully.
fn serve_one(place: &Place, text: &str) {
    let server = Served::of(place.command(["serve", "--port", "0", "--no-auth"]).env("CANARY", CANARY));
    server.session("canned", "s1");
    let _ = server.ask_with("POST", "/run", &[PARENT], &message("canned", "s1", text));
    server.terminate();
    assert!(server.wait().success());
}

#[test]
fn a_run_is_a_tree_of_spans_below_the_request_that_asked_for_it() {
    let collector = Collector::start();
    serve_one(&collector.place(""), "tool secret-words");
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
fn a_run_belongs_to_the_trace_of_its_request_and_is_sent_with_the_configured_headers() {
    let collector = Collector::start();
    serve_one(&collector.place(""), "tool secret-words");
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
fn what_was_said_is_in_no_span_unless_it_is_asked_for() {
    let said = ["secret-words", "Paris", "sunny", "Tool get_weather", "Be canned"];
    let silent = Collector::start();
    serve_one(&silent.place(""), "tool secret-words");
    let text = silent.text();
    assert!(text.contains("execute_tool get_weather"));
    for word in said.iter().chain(&[CANARY, "\"u\""]) {
        assert!(!text.contains(word), "{word} is in {text}");
    }
    let talkative = Collector::start();
    serve_one(&talkative.place("content = true"), "tool secret-words");
    let text = talkative.text();
    for word in said {
        assert!(text.contains(word), "{word} is not in {text}");
    }
    assert!(!text.contains(CANARY), "the collector's own key is in a span");
}

#[test]
fn a_failure_is_told_by_its_kind_alone() {
    let collector = Collector::start();
    serve_one(&collector.place(""), "raise secret-words");
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
fn a_command_sends_its_run_before_it_ends() {
    let collector = Collector::start();
    let place = collector.place("service_name = \"mine\"");
    place.said(place.command(["run", "--session", "s1", "hi"]).env("CANARY", CANARY)).well();
    let names: Vec<String> =
        collector.tree().lines().filter(|line| !line.contains('·')).map(str::to_owned).collect();
    assert_snapshot!(names.join("\n"), @"
    invoke_agent canned_root
      chat canned-1
    ");
    assert!(collector.text().contains(r#"{"key":"service.name","value":{"stringValue":"mine"}}"#));
}

#[test]
fn a_collector_that_is_gone_costs_spans_and_nothing_else() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let place = Place::canned();
    let mut command = place.command(["serve", "--port", "0", "--no-auth"]);
    let server = Served::of(command.env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{nobody}")));
    server.session("canned", "s1");
    server.say("canned", "s1", "hi").well();
    server.terminate();
    assert!(server.wait().success());
}

/// When the first span of that name ended.
fn end(spans: &[Value], name: &str) -> u64 {
    let span = spans.iter().find(|span| span["name"].as_str().unwrap().starts_with(name)).unwrap();
    span["endTimeUnixNano"].as_str().unwrap().parse().unwrap()
}

#[test]
fn the_span_of_a_streamed_answer_ends_with_its_last_byte_or_with_its_client() {
    let streamed = |reads: fn(Events)| {
        let collector = Collector::start();
        let place = collector.place("");
        let server = Served::of(place.command(["serve", "--port", "0", "--no-auth"]).env("CANARY", CANARY));
        server.session("canned", "s1");
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
fn the_page_is_shown_the_spans_of_a_session_and_of_an_event() {
    let place = Place::canned();
    let server = Served::start(&place);
    server.session("canned", "s1");
    let events = server.say("canned", "s1", "tool please").well();
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
    assert_eq!(server.ask("GET", "/dev/apps/canned/debug/trace/nope", &Value::Null).status, 404);
    assert_eq!(server.get("/dev/apps/other/debug/trace/session/s1"), serde_json::json!([]));
}

#[test]
fn a_tool_that_the_model_made_up_has_no_name_and_every_message_is_one_run() {
    let collector = Collector::start();
    let place = collector.place("");
    let server = Served::of(place.command(["serve", "--port", "0", "--no-auth"]).env("CANARY", CANARY));
    server.session("canned", "s1");
    // All at once, so that some of them find the session busy.
    thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| server.say("canned", "s1", "unknowntool please").well());
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
