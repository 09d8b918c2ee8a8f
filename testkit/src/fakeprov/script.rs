//! The content that the scripts of all APIs share, and the script of each API for a scenario.

use super::{ProviderApi, anthropic, gemini, odd, ollama, openai, responses};
use serde_json::Value;

/// The arguments of the first call, split inside a word and before a value.
pub(super) const FIRST_ARGS: &[&str] = &[r#"{"ci"#, r#"ty":"Zü"#, r#"rich","n":"#, "1}"];
pub(super) const SECOND_ARGS: &[&str] = &[r#"{"city":"#, r#""Tōkyō"}"#];
pub(super) const BAD_ARGS: &[&str] = &[r#"{"city": Zurich"#, " oops"];

/// Thinking and text before and after the tool results.
pub(super) const THOUGHT: &str = "Let me think.";
pub(super) const HELLO: [&str; 2] = ["Grüß ", "dich 🌍"];
pub(super) const LATER_THOUGHT: &str = "Now I know.";
pub(super) const LATER_TEXT: [&str; 2] = ["Zürich 21°, ", "Tōkyō 28°."];

/// One event of a stream; a line in NDJSON.
#[derive(Clone, Debug)]
pub(super) struct ScriptedEvent {
    /// Empty if the API does not name its events.
    pub(super) name: String,
    pub(super) data: String,
}

impl ScriptedEvent {
    pub(super) fn data(value: &Value) -> Self {
        Self { name: String::new(), data: value.to_string() }
    }

    /// An event that is named by its `type`.
    pub(super) fn typed(value: &Value) -> Self {
        let name = value.get("type").and_then(Value::as_str).unwrap_or_default();
        Self { name: name.to_owned(), data: value.to_string() }
    }

    pub(super) fn raw(name: &str, data: &str) -> Self {
        Self { name: name.to_owned(), data: data.to_owned() }
    }
}

/// The events of an answer. `key` is the API key of the request.
pub(super) fn script(api: ProviderApi, scenario: &str, key: &str) -> Vec<ScriptedEvent> {
    if scenario == "empty" {
        return Vec::new();
    }
    if let Some(events) = odd::script(api, scenario) {
        return events;
    }
    let mut events = match api {
        ProviderApi::OpenAi => openai::script(scenario, key),
        ProviderApi::Responses => responses::script(scenario, key),
        ProviderApi::Anthropic => anthropic::script(scenario, key),
        ProviderApi::Gemini => gemini::script(scenario, key),
        ProviderApi::Ollama => ollama::script(scenario, key),
    };
    if scenario == "big" {
        let big = "x".repeat(4 << 20);
        for event in events.iter_mut().filter(|event| event.data.contains(HELLO[0])) {
            event.data = event.data.replace(HELLO[0], &big);
        }
    }
    if scenario == "hang" {
        events.truncate(4);
    }
    events
}

/// The arguments of the two calls.
pub(super) fn args(scenario: &str) -> [&'static [&'static str]; 2] {
    [if scenario == "badargs" { BAD_ARGS } else { FIRST_ARGS }, SECOND_ARGS]
}

/// The ids of the two calls, if the scenario has ids.
pub(super) fn ids(scenario: &str, usual: [&'static str; 2]) -> [Option<&'static str>; 2] {
    match scenario {
        "noid" => [None, None],
        "sameid" => [Some(usual[0]); 2],
        _ => usual.map(Some),
    }
}

/// The indexes of the two calls in an answer that has `before` other parts before them.
pub(super) fn indexes(scenario: &str, before: usize) -> [usize; 2] {
    let [first, second] = match scenario {
        "sameidx" => [0, 0],
        "gapidx" => [1, 3],
        _ => [0, 1],
    };
    [before + first, before + second]
}

/// The small deltas of `slowtext`.
pub(super) fn ticks() -> impl Iterator<Item = String> {
    (1..=100).map(|tick| format!("tick {tick} "))
}

/// An error message that contains the API key.
pub(super) fn echo(key: &str) -> String {
    format!("Incorrect API key provided: {key}.")
}
