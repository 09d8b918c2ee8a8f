//! Questions of a server to the user (elicitation): over REST, in a chat, without a terminal, and across the ends of a call.

use super::{fake, test_env, tool_results};
use crate::{
    common::{CTRL_C, Terminal, TestEnv},
    serve::client::{TestServer, message},
};
use serde_json::{Value, json};
use std::{
    fs,
    time::{Duration, Instant},
};

const ALLOWED: &str = "[approval]\nexecute = \"allow\"\n";
const TOOLS: &str = "ask ask_twice ask_both ask_page";
const SESSION: &str = "/apps/lango/users/u/sessions/s";
/// The end of a prompt for a value.
const FIELD: &str = "colour (one of: red, green) › ";

/// An environment whose model makes these calls one after the other.
fn env_with(more: &str, calls: &[(&str, Value)]) -> TestEnv {
    let env = test_env(|env| format!("{ALLOWED}{}", fake(env, &format!("trusted = true\n{more}"))), calls);
    env.file("more", TOOLS);
    env
}

fn asking(tool: &str) -> TestEnv {
    env_with("", &[(tool, json!({}))])
}

/// An environment whose model makes two calls at once.
fn asking_in_parallel() -> TestEnv {
    let env = asking("fake__ask");
    let calls = [json!({"call": {"name": "fake__ask"}}), json!({"call": {"name": "fake__ask"}})];
    let rules = json!({"rules": [
        {"when": {"first_word": "go", "turn": 0}, "reply": calls},
        {"reply": [{"text": "done"}]},
    ]});
    env.file("script.yaml", rules.to_string());
    env
}

fn log(env: &TestEnv) -> String {
    fs::read_to_string(env.workdir().join("log")).unwrap_or_default()
}

fn wait_for_log(env: &TestEnv, text: &str) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !log(env).contains(text) {
        assert!(Instant::now() < deadline, "no {text} in {}", log(env));
        std::thread::yield_now();
    }
}

/// A server with a session whose message has led to questions.
struct Asked {
    env: TestEnv,
    server: TestServer,
    events: Value,
}

impl Asked {
    fn new(env: TestEnv) -> Self {
        let server = TestServer::start(&env);
        server.create_session("lango", "s");
        let events = server.send_message("lango", "s", "go").success();
        Self { env, server, events }
    }

    /// The ids of the open questions, in order.
    fn questions(&self) -> Vec<String> {
        question_ids(&self.events)
    }

    /// Answers questions in one message.
    fn answer(&self, ids: &[&str], response: &Value) -> crate::serve::client::HttpResponse {
        let part = |id: &&str| json!({"functionResponse": {"id": id, "name": "adk_request_input", "response": response}});
        let mut body = message("lango", "s", "");
        body["newMessage"]["parts"] = ids.iter().map(part).collect();
        self.server.request("POST", "/run", &body)
    }

    fn statuses(&self) -> Vec<String> {
        let runs = self.server.get(&format!("{SESSION}/runs"));
        let runs = runs.as_array().unwrap().iter().rev();
        runs.map(|run| run["status"].as_str().unwrap().to_owned()).collect()
    }

    /// The results of the calls in the log, in order.
    fn results(&self) -> Vec<Value> {
        let events = self.server.get(SESSION)["events"].as_array().unwrap().clone();
        let events: Vec<Value> = events.into_iter().filter(|event| event["author"] != "user").collect();
        tool_results(&events)
    }
}

fn question_ids(events: &Value) -> Vec<String> {
    let parts = events
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|event| event["content"]["parts"].as_array().cloned().unwrap_or_default());
    let calls = parts.map(|part| part["functionCall"].clone());
    let asked = calls.filter(|call| call["name"] == "adk_request_input");
    asked.map(|call| call["id"].as_str().unwrap().to_owned()).collect()
}

/// The JSON of a value, to look for texts in it.
fn texts(value: &Value) -> String {
    value.to_string()
}

#[test]
fn question_of_a_server_is_a_request_for_input_on_the_wire() {
    let asked = Asked::new(asking("fake__ask"));
    let id = asked.questions().remove(0);
    let event = asked.events.as_array().unwrap().iter().find(|event| texts(event).contains(&id)).unwrap();
    assert_eq!(event["longRunningToolIds"], json!([id]));
    let mut call = event["content"]["parts"][0]["functionCall"].clone();
    assert_eq!(call["args"]["interruptId"], id.as_str());
    call["args"]["payload"]["originalFunctionCall"]["id"] = "…".into();
    (call["id"], call["args"]["interruptId"]) = ("…".into(), "…".into());
    insta::assert_snapshot!(serde_json::to_string_pretty(&call).unwrap(), @r#"
    {
      "id": "…",
      "args": {
        "interruptId": "…",
        "payload": {
          "mcpServer": "fake",
          "originalFunctionCall": {
            "id": "…",
            "args": {},
            "name": "fake__ask"
          }
        },
        "message": "The MCP server `fake` asks: The only question: which colour?",
        "response_schema": {
          "type": "object",
          "properties": {
            "colour": {
              "type": "string",
              "enum": [
                "red",
                "green"
              ]
            }
          },
          "required": [
            "colour"
          ]
        }
      },
      "name": "adk_request_input"
    }
    "#);
    assert_eq!(asked.statuses(), ["waiting"]);
    for wrong in [json!({"colour": "blue"}), json!({"result": "blue"}), json!({}), json!({"size": 3})] {
        let refused = asked.answer(&[&id], &wrong);
        assert_eq!(refused.status, 400, "{refused:?}");
        assert!(refused.body["detail"].as_str().unwrap().contains("does not match it"), "{refused:?}");
    }
    assert_eq!(asked.statuses(), ["waiting"]);
    let events = asked.answer(&[&id], &json!({"colour": "green"})).success();
    assert!(texts(&events).contains("only-") && texts(&events).contains("done"), "{events}");
    assert_eq!(asked.statuses(), ["done"]);
    assert!(log(&asked.env).contains(r#"{"action":"accept","content":{"colour":"green"}}"#));
    // The answered question is no longer open.
    assert_eq!(asked.answer(&[&id], &json!({"colour": "red"})).status, 409);
    let request = asked.env.lango(&["sessions", "show", "s", "--as", "openai"]);
    assert!(
        !request.out.contains("which colour?") && !request.out.contains("adk_request_input"),
        "{request:?}"
    );
}

#[test]
fn every_form_of_an_answer_reaches_the_server() {
    for (response, result) in [
        (json!({"result": "RED"}), r#"{"action":"accept","content":{"colour":"red"}}"#),
        (json!({"response": "{\"colour\": \"red\"}"}), r#"{"action":"accept","content":{"colour":"red"}}"#),
        (json!({"action": "decline"}), r#"{"action":"decline"}"#),
        (json!({"result": "cancel"}), r#"{"action":"cancel"}"#),
    ] {
        let asked = Asked::new(asking("fake__ask"));
        let id = asked.questions().remove(0);
        asked.answer(&[&id], &response).success();
        assert!(log(&asked.env).contains(result), "{response}: {}", log(&asked.env));
        assert_eq!(asked.statuses(), ["done"]);
    }
}

#[test]
fn call_may_ask_again_and_several_at_once() {
    for (tool, kinds) in [("fake__ask_twice", ["first", "second"]), ("fake__ask_both", ["left", "right"])] {
        let kind_of = |events: &Value| {
            kinds.iter().position(|kind| texts(events).contains(&format!("The {kind} question"))).unwrap()
        };
        let asked = Asked::new(asking(tool));
        let one = asked.questions();
        assert_eq!(one.len(), 1, "{one:?}");
        let events = asked.answer(&[&one[0]], &json!({"colour": "red"})).success();
        let two = question_ids(&events);
        assert_eq!(two.len(), 1, "{events}");
        // Questions that are asked at once may arrive in any order.
        let last = kinds[1 - kind_of(&asked.events)];
        assert!(texts(&events).contains(&format!("The {last} question")), "{events}");
        assert_eq!(asked.statuses(), ["waiting"]);
        let events = asked.answer(&[&two[0]], &json!({"colour": "green"})).success();
        assert!(texts(&events).contains(&format!("{last}-")), "{events}");
        assert_eq!(asked.statuses(), ["done"]);
    }
}

#[test]
fn parallel_calls_ask_at_once_and_are_answered_together_or_one_by_one() {
    let together = Asked::new(asking_in_parallel());
    let ids = together.questions();
    assert_eq!(ids.len(), 2);
    together.answer(&[&ids[0], &ids[1]], &json!({"colour": "red"})).success();
    assert_eq!(
        (together.statuses(), log(&together.env).matches("answer only-").count()),
        (vec!["done".to_owned()], 2)
    );
    let single = Asked::new(asking_in_parallel());
    let ids = single.questions();
    single.answer(&[&ids[1]], &json!({"colour": "red"})).success();
    assert_eq!(single.statuses(), ["waiting"]);
    single.answer(&[&ids[0]], &json!({"action": "decline"})).success();
    assert_eq!(single.statuses(), ["done"]);
    let answered = single.results().iter().filter(|result| texts(result).contains("only-")).count();
    assert_eq!(answered, 2);
}

#[test]
fn new_message_withdraws_the_question_and_cancels_the_call() {
    let asked = Asked::new(asking("fake__ask"));
    let id = asked.questions().remove(0);
    asked.server.send_message("lango", "s", "never mind").success();
    wait_for_log(&asked.env, "notifications/cancelled");
    assert_eq!(asked.statuses(), ["cancelled", "done"]);
    let results = asked.results();
    assert!(texts(&json!(results)).contains("interrupted, outcome unknown"), "{results:?}");
    assert_eq!(asked.answer(&[&id], &json!({"colour": "red"})).status, 409);
}

#[test]
fn cancelled_run_and_deleted_session_cancel_the_call() {
    let cancelled = Asked::new(asking("fake__ask"));
    let run = cancelled.server.get(&format!("{SESSION}/runs"))[0]["id"].as_str().unwrap().to_owned();
    cancelled.server.request("POST", &format!("{SESSION}/runs/{run}/cancel"), &json!({})).success();
    wait_for_log(&cancelled.env, "notifications/cancelled");
    assert_eq!(cancelled.statuses(), ["cancelled"]);
    let deleted = Asked::new(asking("fake__ask"));
    deleted.server.request("DELETE", SESSION, &Value::Null).success();
    wait_for_log(&deleted.env, "notifications/cancelled");
}

#[test]
fn unanswered_call_ends_after_its_time_and_the_answer_reports_it() {
    let asked = Asked::new(env_with("answerTimeoutS = 0.01", &[("fake__ask", json!({}))]));
    wait_for_log(&asked.env, "notifications/cancelled");
    let id = asked.questions().remove(0);
    let events = asked.answer(&[&id], &json!({"colour": "red"})).success();
    assert!(texts(&events).contains("interrupted, outcome unknown"), "{events}");
    assert_eq!(asked.statuses(), ["done"]);
}

#[test]
fn question_outlives_its_process_and_the_call_does_not() {
    let Asked { env, server, events } = Asked::new(asking("fake__ask"));
    server.kill();
    let asked = Asked { server: TestServer::start(&env), env, events };
    assert_eq!(asked.statuses(), ["waiting"]);
    let id = asked.questions().remove(0);
    let events = asked.answer(&[&id], &json!({"colour": "red"})).success();
    assert!(
        texts(&events).contains("interrupted, outcome unknown") && texts(&events).contains("done"),
        "{events}"
    );
    assert_eq!(asked.statuses(), ["done"]);
    assert_eq!(log(&asked.env).matches("tools/call").count(), 1);
}

#[test]
fn reader_that_reconnects_sees_the_question_and_later_the_result() {
    let asked = Asked::new(asking("fake__ask"));
    let run = asked.server.get(&format!("{SESSION}/runs"))[0]["id"].as_str().unwrap().to_owned();
    let path = format!("{SESSION}/runs/{run}/events");
    let before = asked.server.read_events(&path, None).all();
    assert!(before.iter().any(|event| event.data.to_string().contains("adk_request_input")), "{before:?}");
    let id = asked.questions().remove(0);
    asked.answer(&[&id], &json!({"colour": "red"})).success();
    let after = asked.server.read_events(&path, None).all();
    assert!(after.iter().any(|event| event.data.to_string().contains("only-")), "{after:?}");
}

#[test]
fn question_is_declined_where_no_one_can_answer() {
    let env = asking("fake__ask");
    let results = tool_results(&env.lango(&["run", "--json", "go"]).success().json_lines());
    assert!(texts(&results[0]["output"]).contains("decline"), "{results:?}");
    assert_eq!(
        results[0]["declined_question"],
        "the server asked the user a question, which lango declined: no one is available to answer it"
    );
    let announced = || fs::read_to_string(env.workdir().join("initialize")).unwrap().contains("elicitation");
    assert!(!announced());
    let _server = Asked::new(asking("fake__ask"));
    let asked = asking("fake__ask_page");
    let page = Asked::new(asked);
    let results = page.results();
    assert!(texts(&json!(results)).contains("it asked to open a web page"), "{results:?}");
    assert!(fs::read_to_string(page.env.workdir().join("initialize")).unwrap().contains("elicitation"));
}

#[test]
fn chat_asks_for_each_field_until_it_is_valid() {
    let env = asking("fake__ask");
    let fields = json!({
        "name": {"type": "string", "title": "Your\u{1b}[2J name"},
        "age": {"type": "integer", "minimum": 1},
        "kinds": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "default": ["a"]},
        "api_token": {"type": "string"},
    });
    env.file(
        "schema",
        json!({"type": "object", "properties": fields, "required": ["name", "age"]}).to_string(),
    );
    let mut terminal = Terminal::open(&env, &["chat"]);
    terminal.wait_for("› ");
    terminal.type_line("go");
    terminal.wait_for("The MCP server `fake` asks: The only question: which colour?");
    terminal.wait_for("`api_token` may be a secret");
    terminal.wait_for(" name) › ");
    terminal.type_line("Ann");
    terminal.wait_for("age (a whole number) › ");
    terminal.type_line("0");
    terminal.wait_for("age (a whole number) › ");
    terminal.type_line("30");
    terminal.wait_for(" › ");
    terminal.type_line("");
    terminal.wait_for("[optional] › ");
    terminal.type_line("");
    terminal.wait_for("Enter sends the answer › ");
    terminal.type_line("");
    terminal.wait_for("done");
    terminal.quit();
    assert!(
        log(&env).contains(r#"{"action":"accept","content":{"name":"Ann","age":30,"kinds":["a"]}}"#),
        "{}",
        log(&env)
    );
}

#[test]
fn chat_declines_and_dismisses_questions() {
    for (keys, action) in [("/decline\r", "decline"), (CTRL_C, "cancel"), ("green\r", "accept")] {
        let env = asking("fake__ask");
        let mut terminal = Terminal::open(&env, &["chat"]);
        terminal.wait_for("› ");
        terminal.type_line("go");
        terminal.wait_for(FIELD);
        terminal.type_keys(keys);
        terminal.wait_for("done");
        terminal.quit();
        assert!(log(&env).contains(&format!("{{\"action\":\"{action}\"")), "{}", log(&env));
    }
}

#[test]
fn chat_settles_a_question_whose_call_was_interrupted() {
    let env = asking("fake__ask");
    let mut terminal = Terminal::open(&env, &["chat", "--session", "k"]);
    terminal.wait_for("› ");
    terminal.type_line("go");
    terminal.wait_for(FIELD);
    drop(terminal);
    let mut terminal = Terminal::open(&env, &["chat", "--session", "k"]);
    terminal.wait_for("a question of a tool can no longer be answered");
    terminal.wait_for("done");
    terminal.quit();
}

#[test]
fn chat_with_a_server_answers_its_questions() {
    let env = asking("fake__ask");
    let server = crate::common::AuthServer::start(&env, &[]);
    let address = format!("http://{}", server.address);
    let mut terminal = Terminal::open(&env, &["chat", "--server", &address, "--session", "k"]);
    terminal.wait_for("› ");
    terminal.type_line("go");
    terminal.wait_for(FIELD);
    terminal.type_line("red");
    terminal.wait_for("done");
    terminal.quit();
    assert!(log(&env).contains(r#"{"action":"accept","content":{"colour":"red"}}"#), "{}", log(&env));
}
