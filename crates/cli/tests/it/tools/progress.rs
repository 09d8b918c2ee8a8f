//! What a call says while it runs: seen at once, masked, harmless, and stored nowhere.

use super::{exec, one_by_one};
use crate::{
    common::{Place, Terminal},
    serve::client::{Served, message},
};
use serde_json::{Value, json};

const SECRET: &str = "sk-canary-0123456789";

/// A command that speaks, tries to clear the screen, tells a secret in two pieces, and ends when the test says so.
fn place() -> Place {
    let toml = format!(
        "[providers.team]\napi = \"chat\"\nbase_url = \"http://127.0.0.1:1\"\nkey = \"{SECRET}\"\n[approval]\nexecute = \"allow\"\n"
    );
    let until = |file: &str| format!("until [ -e {file} ]; do sleep 0.02; done");
    let command = [
        "printf '\\033[2Jfirst %s\\n' word".to_owned(),
        until("one"),
        "printf 'key: sk-canary-'; printf '0123456789, %s\\n' second".to_owned(),
        until("two"),
        "head -c 20000 /dev/zero | tr '\\0' x".to_owned(),
    ];
    Place::scripted(&toml, &one_by_one(&[exec(&command.join("; "))]))
}

fn watch(place: &Place, mut terminal: Terminal) -> Terminal {
    terminal.sees("… exec first word");
    place.file("one", "");
    terminal.sees("… exec key: [masked], second");
    place.file("two", "");
    terminal.sees("← exec");
    terminal
}

/// Whether the stored session says this.
fn stored(place: &Place, text: &str) -> bool {
    place.lango(&["sessions", "show", "k", "--json"]).well().out.contains(text)
}

#[test]
fn a_conversation_shows_what_a_command_says_while_it_runs_and_stores_none_of_it() {
    let place = place();
    let mut terminal = Terminal::open(&place, &["chat", "--session", "k"]);
    terminal.says("go");
    let mut terminal = watch(&place, terminal);
    terminal.sees("done");
    let screen = terminal.leaves();
    assert!(!screen.contains("\u{1b}[2J") && !screen.contains(SECRET), "{screen:?}");
    assert!(stored(&place, "first word") && !stored(&place, "lango:progress"));
}

#[test]
fn a_single_message_shows_it_too() {
    let place = place();
    let terminal = watch(&place, Terminal::open(&place, &["run", "--session", "k", "go"]));
    let (code, screen) = terminal.ends();
    assert_eq!(code, Some(0), "{screen}");
    assert!(!screen.contains(SECRET) && !stored(&place, "lango:progress"));
}

#[test]
fn in_a_pipe_nobody_watches() {
    let place = place();
    place.file("one", "");
    place.file("two", "");
    let said = place.lango(&["run", "go"]).well();
    assert!(!said.err.contains("… exec") && said.err.contains("← exec"), "{}", said.err);
}

#[test]
fn on_the_wire_it_is_a_partial_event_for_those_who_stream() {
    let place = place();
    let server = Served::start(&place);
    let session = server.session("lango", "s");
    let mut body = message("lango", "s", "go");
    body["streaming"] = json!(true);
    let mut events = server.stream(&body);
    let mut next = || loop {
        let event = events.next().expect("there is progress before the end").data;
        if !event["customMetadata"]["lango:progress"].is_null() {
            return event;
        }
    };
    let first = next();
    let told = &first["customMetadata"]["lango:progress"];
    assert_eq!(
        (&first["partial"], &told["tool"], &told["text"]),
        (&json!(true), &json!("exec"), &json!("first word\n"))
    );
    assert!(first["content"].is_null() && told["call_id"].is_string());
    place.file("one", "");
    while next()["customMetadata"]["lango:progress"]["text"] != "first word\nkey: [masked], second\n" {}
    place.file("two", "");
    let rest: Vec<Value> = events.all().into_iter().map(|told| told.data).collect();
    let long = rest.iter().filter_map(|event| event["customMetadata"]["lango:progress"]["text"].as_str());
    assert!(long.into_iter().all(|text| text.len() <= 400));
    let kept = server.get(&session).to_string();
    assert!(kept.contains("first word") && !kept.contains("lango:progress"));
}
