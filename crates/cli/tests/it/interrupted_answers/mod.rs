//! Answers that end in the middle of their stream: what was shown is stored, marked and sent back as the assistant's words.

mod cli;
mod serve;

use crate::common::{Gate, Log, Place, api_name};
use rusqlite::OpenFlags;
use serde_json::Value;
use session::SessionKey;
use std::{
    thread,
    time::{Duration, Instant},
};
use testkit::{
    ProviderApi,
    fakeprov::{Fake, Received},
    legal,
};

/// Far beyond what a save takes, even on a busy disk.
const PATIENCE: Duration = Duration::from_mins(2);

/// What the scenario `think` shows: a thought, then the answer in two pieces. The gate stops it behind the first.
const THOUGHT: &str = "Now I know.";
const SHOWN: &str = "Zürich 21°, ";
const WHOLE: &str = "Zürich 21°, Tōkyō 28°.";
/// The text of the scenario `text`, and its first piece.
const LATER: &str = "Grüß dich 🌍";
const LATER_SHOWN: &str = "Grüß ";

/// A machine whose model streams through a gate.
struct Stage {
    place: Place,
    api: ProviderApi,
    gate: Gate,
    fake: Fake,
}

impl Stage {
    fn new(api: ProviderApi, scenario: &str, stops: &[&str]) -> Self {
        let fake = Fake::start_blocking();
        let gate = Gate::before(&fake, stops);
        let stage = Self { place: Place::in_memory(), api, gate, fake };
        stage.plays(scenario);
        stage
    }

    /// Processes that start from now on get this scenario.
    fn plays(&self, scenario: &str) {
        let (api, url) = (api_name(self.api), self.gate.url(scenario));
        let settings = format!(
            "model = \"fake/model-x\"\n[providers.fake]\napi = \"{api}\"\nbase_url = \"{url}\"\nkey = \"k\"\nidle_timeout_s = 600\n"
        );
        self.place.file("lango.toml", settings);
    }

    /// The text of all drafts in the database, in the pieces in which it was saved.
    fn drafts(&self) -> Vec<String> {
        let file = rusqlite::Connection::open_with_flags(
            self.place.database(),
            OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX,
        )
        .unwrap();
        file.busy_timeout(PATIENCE).unwrap();
        let mut statement = file.prepare("SELECT piece FROM drafts ORDER BY session_key, number").unwrap();
        let pieces = statement.query_map((), |row| row.get::<_, String>(0)).unwrap();
        pieces.map(|piece| text(&serde_json::from_str::<Value>(&piece.unwrap()).unwrap()["event"])).collect()
    }

    /// Waits until the draft in the database ends with this text.
    #[track_caller]
    fn until_draft(&self, end: &str) {
        let deadline = Instant::now() + PATIENCE;
        while !self.drafts().concat().ends_with(end) {
            assert!(Instant::now() < deadline, "{end:?} is not in the draft: {:?}", self.drafts());
            thread::sleep(Duration::from_millis(10));
        }
    }

    fn log(&self, key: &SessionKey) -> Vec<String> {
        let log = Log::read(&self.place.database(), key);
        log.assert_sound();
        log.events.iter().map(|event| line(&serde_json::to_value(event).unwrap())).collect()
    }

    /// The requests that the provider received, as roles and words. All of them are legal.
    #[track_caller]
    fn requests(&self) -> Vec<Vec<String>> {
        let request = |request: &Received| {
            let broken = legal::check(self.api, &request.body);
            assert!(broken.is_empty(), "{:?}: {broken:?}\n{:#}", self.api, request.body);
            spoken(&request.body)
        };
        self.fake.requests().iter().map(request).collect()
    }
}

/// The line of the interrupted answer of the scenario `think`.
fn interrupted() -> String {
    format!("lango-agent: ({THOUGHT}) {SHOWN:?} [interrupted]")
}

/// The key of a session that a command of the terminal began.
fn key(session: &str) -> SessionKey {
    SessionKey::new("lango", "user", session)
}

/// The text of an event, without its thoughts.
fn text(event: &Value) -> String {
    let parts = event["content"]["parts"].as_array().into_iter().flatten();
    parts.filter(|part| part["thought"] != true).filter_map(|part| part["text"].as_str()).collect()
}

/// An event in a line: its author, its parts, and how it ended.
fn line(event: &Value) -> String {
    let parts = event["content"]["parts"].as_array().into_iter().flatten();
    let part = |part: &Value| match (part["text"].as_str(), part["thought"] == true) {
        (Some(text), true) => format!("({text})"),
        (Some(text), false) => format!("{text:?}"),
        (None, _) => part.to_string(),
    };
    let mut words = vec![format!("{}:", event["author"].as_str().unwrap())];
    words.extend(parts.map(part));
    words.extend((event["interrupted"] == true).then(|| "[interrupted]".to_owned()));
    words.extend(event["errorCode"].as_str().map(|code| format!("[{code}]")));
    words.join(" ")
}

/// The messages of a request in any wire format: who speaks, and the words. Thoughts and the system's message are left out.
fn spoken(body: &Value) -> Vec<String> {
    let list = ["messages", "contents", "input"].iter().find_map(|key| body[*key].as_array()).unwrap();
    let message = |item: &Value| {
        let role = if item["role"] == "model" { "assistant" } else { item["role"].as_str().unwrap() };
        let content = ["content", "parts"].iter().find_map(|key| item.get(key)).unwrap();
        let words = match content {
            Value::String(text) => text.clone(),
            parts => {
                let parts = parts.as_array().unwrap().iter().filter(|part| part["thought"] != true);
                parts.filter_map(|part| part["text"].as_str()).collect()
            }
        };
        format!("{role}: {words}")
    };
    let is_message = |item: &&Value| item["role"] != "system" && item["type"] != "reasoning";
    list.iter().filter(is_message).map(message).collect()
}
