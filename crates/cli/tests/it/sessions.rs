//! `lango sessions`: listing and printing sessions.

use crate::common::{QUESTION, REST, Terminal, TestEnv, provider};
use adk::event::Event;
use serde_json::Value;
use testkit::{ProviderApi, legal};

/// A line of the list, without the time.
fn without_time(line: &str) -> String {
    let words: Vec<&str> = line.split("  ").filter(|word| !word.starts_with("20")).collect();
    words.join("  ")
}

#[test]
fn most_recent_session_is_listed_first() {
    let env = TestEnv::canned();
    env.lango(&["run", "--session", "older", "tool"]).success();
    env.lango(&["run", "--session", "new", "hello\nthere"]).success();
    let output = env.lango(&["sessions", "list"]).success();
    let lines: Vec<String> = output.out.lines().map(without_time).collect();
    assert_eq!(lines, ["new    hello", "older  tool"]);
    let output = env.lango(&["sessions", "list", "-n", "1"]).success();
    assert_eq!(output.out.lines().count(), 1);
}

#[test]
fn session_list_names_the_agent_if_there_are_several() {
    let env = TestEnv::canned();
    env.lango(&["run", "--session", "a", "tool"]).success();
    env.lango(&["run", "--session", "b", "--app", "lango", "hello"]).success();
    let output = env.lango(&["sessions", "list"]).success();
    let lines: Vec<String> = output.out.lines().map(without_time).collect();
    assert_eq!(lines, ["b  lango   hello", "a  canned  tool"]);
}

#[test]
fn read_only_commands_create_no_files() {
    let env = TestEnv::new();
    let output = env.lango(&["sessions", "list"]).success();
    assert_eq!(
        (output.out.as_str(), output.err.as_str()),
        ("", "there are no sessions yet; lango chat starts one\n")
    );
    env.lango(&["sessions", "show", "k"]).failure();
    assert!(!env.home().exists());
}

#[test]
fn show_prints_thoughts_calls_questions_and_errors() {
    let env = TestEnv::canned();
    for word in ["think", "parallel"] {
        env.lango(&["run", "--session", "k", word]);
    }
    let mut terminal = Terminal::open(&env, &["run", "--session", "k", "confirm"]);
    terminal.wait_for(QUESTION);
    drop(terminal);
    env.lango(&["run", "--session", "k", "errcode"]);
    let output = env.lango(&["sessions", "show", "k"]).success();
    insta::assert_snapshot!(output.out, @r#"
           user  think
    canned_root  (thought) I am thinking.
    canned_root  Answer: 42.
                 [scripted/canned-1: 10 tokens in, 5 out]
           user  parallel
    canned_root  → get_weather {"city":"Paris"}
    canned_root  → get_weather {"city":"Tokyo"}
                 [scripted/canned-1: 10 tokens in, 5 out]
    canned_root  ← get_weather {"city":"Paris","report":"sunny, 21C","status":"ok"}
    canned_root  ← get_weather {"city":"Tokyo","report":"sunny, 21C","status":"ok"}
    canned_root  Tool get_weather said: {"city":"Tokyo","report":"sunny, 21C","status":"ok"}
                 [scripted/canned-1: 10 tokens in, 5 out]
           user  confirm
    canned_root  → danger {"what":"rm"}
                 [scripted/canned-1: 10 tokens in, 5 out]
    canned_root  ? May danger run with {"what":"rm"}?
    canned_root  ← answer {"confirmed":false,"superseded":"a new message came before the answer"}
           user  errcode
    canned_root  [failed: quota exceeded (canned)]
                 [total: 40 tokens in, 20 out]
    "#);
}

#[test]
fn show_prints_the_cost_if_prices_are_configured() {
    let fake = testkit::fakeprov::FakeProvider::start_blocking();
    let api = ProviderApi::Anthropic;
    let env = TestEnv::new();
    let provider = provider("one", &fake, api, "two");
    let prices = "[models.\"one/large\"]\nprices = { input = 3.0, cached = 0.3, output = 15.0 }\n";
    env.file("lango.toml", format!("model = \"one/large\"\n{provider}{prices}{REST}"));
    env.lango_with_key(&["run", "--session", "k", "weather?"]).success();
    let output = env.lango_with_key(&["sessions", "show", "k"]).success();
    insta::assert_snapshot!(output.out, @r#"
           user  weather?
    lango-agent  (thought) Let me think.
    lango-agent  (thought, hidden by the provider)
    lango-agent  Grüß dich 🌍
    lango-agent  → get_weather {"city":"Zürich","n":1}
    lango-agent  → get_weather {"city":"Tōkyō"}
                 [one/large: 100 tokens in (64 cached), 20 out, $0.000432]
    lango-agent  ← get_weather {"sky":"clear"}
    lango-agent  ← get_weather {"sky":"clear"}
    lango-agent  (thought) Now I know.
    lango-agent  Zürich 21°, Tōkyō 28°.
                 [one/large: 100 tokens in (64 cached), 20 out, $0.000432]
                 [total: 200 tokens in (128 cached), 40 out, $0.000863]
    "#);
}

#[test]
fn show_json_prints_the_stored_events() {
    let env = TestEnv::canned();
    let streamed = env.lango(&["run", "--json", "--session", "k", "tool"]).success();
    let shown = env.lango(&["sessions", "show", "k", "--json"]).success();
    let events: Vec<Event> = shown.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(events[0].author, "user");
    let finals: Vec<Value> =
        streamed.json_lines().into_iter().filter(|event| event["partial"] != true).collect();
    assert_eq!(shown.json_lines()[1..], finals, "stdout has the stored events");
}

#[test]
fn show_as_prints_a_legal_request_for_every_provider() {
    let env = TestEnv::canned();
    for word in ["parallel", "confirm", "toolerror", "long", "errcode", "hello"] {
        env.lango(&["run", "--session", "k", word]);
    }
    let all = [
        ("openai", ProviderApi::OpenAi),
        ("responses", ProviderApi::Responses),
        ("anthropic", ProviderApi::Anthropic),
        ("gemini", ProviderApi::Gemini),
        ("ollama", ProviderApi::Ollama),
    ];
    for (provider, api) in all {
        let output = env.lango(&["sessions", "show", "k", "--as", provider]).success();
        let request: Value = serde_json::from_str(&output.out).unwrap();
        let broken = legal::check(api, &request);
        assert!(broken.is_empty(), "{provider}: {broken:?}\n{request:#}");
    }
}
