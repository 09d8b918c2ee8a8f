//! `lango sessions`: what is stored can be seen.

use crate::common::{Place, REST, Terminal, provider};
use adk::event::Event;
use serde_json::Value;
use testkit::{ProviderApi, legal};

/// A line of the list, without the time.
fn without_time(line: &str) -> String {
    let words: Vec<&str> = line.split("  ").filter(|word| !word.starts_with("20")).collect();
    words.join("  ")
}

#[test]
fn the_session_that_was_used_last_is_listed_first() {
    let place = Place::canned();
    place.lango(&["run", "--session", "older", "tool"]).well();
    place.lango(&["run", "--session", "new", "hello\nthere"]).well();
    let said = place.lango(&["sessions", "list"]).well();
    let lines: Vec<String> = said.out.lines().map(without_time).collect();
    assert_eq!(lines, ["new    hello", "older  tool"]);
    let said = place.lango(&["sessions", "list", "-n", "1"]).well();
    assert_eq!(said.out.lines().count(), 1);
}

#[test]
fn sessions_of_several_agents_are_told_apart() {
    let place = Place::canned();
    place.lango(&["run", "--session", "a", "tool"]).well();
    place.lango(&["run", "--session", "b", "--app", "lango", "hello"]).well();
    let said = place.lango(&["sessions", "list"]).well();
    let lines: Vec<String> = said.out.lines().map(without_time).collect();
    assert_eq!(lines, ["b  lango   hello", "a  canned  tool"]);
}

#[test]
fn looking_leaves_nothing_behind() {
    let place = Place::new();
    let said = place.lango(&["sessions", "list"]).well();
    assert_eq!(
        (said.out.as_str(), said.err.as_str()),
        ("", "there are no sessions yet; lango chat begins one\n")
    );
    place.lango(&["sessions", "show", "k"]).badly();
    assert!(!place.home().exists());
}

#[test]
fn a_conversation_can_be_read() {
    let place = Place::canned();
    for word in ["think", "parallel"] {
        place.lango(&["run", "--session", "k", word]);
    }
    let mut terminal = Terminal::open(&place, &["run", "--session", "k", "confirm"]);
    terminal.sees("[y/N]");
    drop(terminal);
    place.lango(&["run", "--session", "k", "errcode"]);
    let said = place.lango(&["sessions", "show", "k"]).well();
    insta::assert_snapshot!(said.out, @r#"
           user  think
    canned_root  (thinks) I am thinking.
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
    canned_root  ← danger {"error":"This tool call requires confirmation, please approve or reject."}
    canned_root  ← answer {"confirmed":false,"superseded":"a new message came before the answer"}
           user  errcode
    canned_root  [failed: quota exceeded (canned)]
                 [in all: 40 tokens in, 20 out]
    "#);
}

#[test]
fn what_a_conversation_cost_is_told_where_prices_are_known() {
    let fake = testkit::fakeprov::Fake::start_blocking();
    let api = ProviderApi::Anthropic;
    let place = Place::new();
    let provider = provider("one", &fake, api, "two");
    let prices = "[models.\"one/large\"]\nprices = { input = 3.0, cached = 0.3, output = 15.0 }\n";
    place.file("lango.toml", format!("model = \"one/large\"\n{provider}{prices}{REST}"));
    place.keyed(&["run", "--session", "k", "weather?"]).well();
    let said = place.keyed(&["sessions", "show", "k"]).well();
    insta::assert_snapshot!(said.out, @r#"
           user  weather?
    lango-agent  (thinks) Let me think.
    lango-agent  (thinks, and does not say what)
    lango-agent  Grüß dich 🌍
    lango-agent  → get_weather {"city":"Zürich","n":1}
    lango-agent  → get_weather {"city":"Tōkyō"}
                 [one/large: 100 tokens in (64 cached), 20 out, $0.000427]
    lango-agent  ← get_weather {"sky":"clear"}
    lango-agent  ← get_weather {"sky":"clear"}
    lango-agent  (thinks) Now I know.
    lango-agent  Zürich 21°, Tōkyō 28°.
                 [one/large: 100 tokens in (64 cached), 20 out, $0.000427]
                 [in all: 200 tokens in (128 cached), 40 out, $0.000854]
    "#);
}

#[test]
fn a_conversation_can_be_read_by_programs() {
    let place = Place::canned();
    let told = place.lango(&["run", "--json", "--session", "k", "tool"]).well();
    let shown = place.lango(&["sessions", "show", "k", "--json"]).well();
    let events: Vec<Event> = shown.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(events[0].author, "user");
    let finals: Vec<Value> = told.json_lines().into_iter().filter(|event| event["partial"] != true).collect();
    assert_eq!(shown.json_lines()[1..], finals, "what was told is what is stored");
}

#[test]
fn a_request_is_legal_for_every_provider() {
    let place = Place::canned();
    for word in ["parallel", "confirm", "toolerror", "long", "errcode", "hello"] {
        place.lango(&["run", "--session", "k", word]);
    }
    let all = [
        ("openai", ProviderApi::OpenAi),
        ("responses", ProviderApi::Responses),
        ("anthropic", ProviderApi::Anthropic),
        ("gemini", ProviderApi::Gemini),
        ("ollama", ProviderApi::Ollama),
    ];
    for (provider, api) in all {
        let said = place.lango(&["sessions", "show", "k", "--as", provider]).well();
        let request: Value = serde_json::from_str(&said.out).unwrap();
        let broken = legal::check(api, &request);
        assert!(broken.is_empty(), "{provider}: {broken:?}\n{request:#}");
    }
}
