//! Answers that end in the middle of their stream: the shown text is stored, marked, and sent in later requests as the
//! assistant's text.

mod cli;
mod serve;

use crate::common::{Gate, StoredLog, TestEnv, api_name};
use rusqlite::OpenFlags;
use serde_json::Value;
use session::SessionKey;
use std::{
    thread,
    time::{Duration, Instant},
};
use testkit::{
    ProviderApi,
    fakeprov::{FakeProvider, Received},
    legal,
};

/// Timeout, far longer than a save takes on a busy disk.
const TIMEOUT: Duration = Duration::from_mins(2);

/// The scenario `think`: a thought, then the answer in two chunks. The gate stops it after the first chunk.
const THOUGHT: &str = "Now I know.";
const SHOWN: &str = "Zürich 21°, ";
const WHOLE: &str = "Zürich 21°, Tōkyō 28°.";
/// The text of the scenario `text`, and its first chunk.
const LATER: &str = "Grüß dich 🌍";
const LATER_SHOWN: &str = "Grüß ";

/// A test environment whose model streams through a gate.
struct GatedProvider {
    env: TestEnv,
    api: ProviderApi,
    gate: Gate,
    fake: FakeProvider,
}

impl GatedProvider {
    fn new(api: ProviderApi, scenario: &str, stops: &[&str]) -> Self {
        let fake = FakeProvider::start_blocking();
        let gate = Gate::before(&fake, stops);
        let gated = Self { env: TestEnv::in_memory(), api, gate, fake };
        gated.set_scenario(scenario);
        gated
    }

    /// Sets the scenario for processes that start later.
    fn set_scenario(&self, scenario: &str) {
        let (api, url) = (api_name(self.api), self.gate.url(scenario));
        let settings = format!(
            "model = \"fake/model-x\"\n[providers.fake]\napi = \"{api}\"\nbase_url = \"{url}\"\nkey = \"k\"\nidle_timeout_s = 600\n"
        );
        self.env.file("lango.toml", settings);
    }

    /// The text of all drafts in the database, one entry per saved chunk.
    fn drafts(&self) -> Vec<String> {
        let file = rusqlite::Connection::open_with_flags(
            self.env.database(),
            OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX,
        )
        .unwrap();
        file.busy_timeout(TIMEOUT).unwrap();
        let mut statement = file.prepare("SELECT piece FROM drafts ORDER BY session_key, number").unwrap();
        let chunks = statement.query_map((), |row| row.get::<_, String>(0)).unwrap();
        chunks.map(|chunk| text(&serde_json::from_str::<Value>(&chunk.unwrap()).unwrap()["event"])).collect()
    }

    /// Waits until the draft in the database ends with `end`.
    #[track_caller]
    fn wait_for_draft(&self, end: &str) {
        let deadline = Instant::now() + TIMEOUT;
        while !self.drafts().concat().ends_with(end) {
            assert!(Instant::now() < deadline, "{end:?} is not in the draft: {:?}", self.drafts());
            thread::sleep(Duration::from_millis(10));
        }
    }

    fn log(&self, key: &SessionKey) -> Vec<String> {
        let log = StoredLog::read(&self.env.database(), key);
        log.assert_consistent();
        log.events.iter().map(|event| line(&serde_json::to_value(event).unwrap())).collect()
    }

    /// The messages of the requests that the provider received. Fails if a request is not legal.
    #[track_caller]
    fn requests(&self) -> Vec<Vec<String>> {
        let request = |request: &Received| {
            let broken = legal::check(self.api, &request.body);
            assert!(broken.is_empty(), "{:?}: {broken:?}\n{:#}", self.api, request.body);
            messages_of(&request.body)
        };
        self.fake.requests().iter().map(request).collect()
    }
}

/// The line of the interrupted answer of the scenario `think`.
fn interrupted() -> String {
    format!("lango-agent: ({THOUGHT}) {SHOWN:?} [interrupted]")
}

/// The key of a session of `lango run` or `lango chat`.
fn key(session: &str) -> SessionKey {
    SessionKey::new("lango", "user", session)
}

/// The text of an event, without its thoughts.
fn text(event: &Value) -> String {
    let parts = event["content"]["parts"].as_array().into_iter().flatten();
    parts.filter(|part| part["thought"] != true).filter_map(|part| part["text"].as_str()).collect()
}

/// An event in one line: author, parts, and its end.
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

/// The messages of a request in any wire format as `role: text`, without thoughts and the system message.
fn messages_of(body: &Value) -> Vec<String> {
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
