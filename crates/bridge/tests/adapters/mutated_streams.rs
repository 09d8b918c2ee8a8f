//! Recorded provider streams with one fault each: every turn ends in the recorded answer or in one clear error, the
//! streamed text is in the log, and the next request is legal.
//!
//! `LANGO_STREAM_CASES` and `LANGO_STREAM_SEED` set the number of cases and the seed.

use crate::common::{Backend, Recorder, key, say, say_streaming, start};
use adk::{
    agent::LlmAgent,
    content::Part,
    error::RunError,
    event::{Event, UsageMetadata},
};
use bridge::{Budget, ModelAdapter, model::RetryPolicy, store::row::Restorer};
use futures::FutureExt;
use provider::{ProviderEndpoint, RemoteProvider, WireApi};
use serde_json::Value;
use session::{PageRequest, Seq};
use std::{
    collections::BTreeMap,
    env,
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex},
    time::Duration,
};
use testkit::{
    ProviderApi, legal,
    mutated_streams::{self, ExpectedEnd, MutatedStream, RECORDINGS, StreamServer},
};

const SEED: u64 = 16;
const CASES: u64 = 1_000;

/// Phrases of the libraries that parse JSON and speak HTTP; a user cannot act on them.
const LIBRARY_WORDING: [&str; 12] = [
    " at line ",
    "column ",
    "expected value",
    "EOF while",
    "invalid type",
    "missing field",
    "unknown variant",
    "trailing characters",
    "unexpected EOF",
    "chunk size",
    "hyper",
    "reqwest",
];

/// The server, and one client per wire format.
pub(crate) struct Bench {
    server: StreamServer,
    clients: Vec<(ProviderApi, Arc<RemoteProvider>)>,
}

/// What a user sees of a turn, and what remains of it.
#[derive(Debug)]
pub(crate) struct ObservedTurn {
    pub(crate) error: Option<RunError>,
    /// The streamed text, without thoughts.
    pub(crate) shown: String,
    /// The agent's text in the log, without thoughts.
    pub(crate) stored: String,
    /// The thoughts of the first answer, and its token counts: input, cached, output, reasoning.
    pub(crate) thoughts: String,
    pub(crate) usage: Option<[u64; 4]>,
    /// The error code of an event of the log.
    pub(crate) error_code: Option<String>,
    /// The arguments of the calls that ran.
    pub(crate) calls: Vec<Value>,
    next: Result<(), RunError>,
}

impl Bench {
    pub(crate) fn start() -> Self {
        let server = StreamServer::start().unwrap();
        let client = |api: ProviderApi| {
            let idle_timeout = Duration::from_secs(20);
            let endpoint = ProviderEndpoint::new(api.name(), wire(api), server.url());
            (api, Arc::new(RemoteProvider::new(ProviderEndpoint { idle_timeout, ..endpoint })))
        };
        let clients = ProviderApi::ALL.map(client).into();
        Self { server, clients }
    }

    /// A turn with this stream, and a second turn with a correct one.
    pub(crate) async fn turn(&self, stream: &MutatedStream) -> ObservedTurn {
        let (_, client) = self.clients.iter().find(|(api, _)| *api == stream.api).unwrap();
        let retries = RetryPolicy { attempts: 1, ..RetryPolicy::default() };
        let model = ModelAdapter::new(client.clone(), "m1", Budget::default()).with_retries(retries);
        let tool = Recorder::new("get_weather");
        let root = LlmAgent { tools: vec![tool.adapted()], ..LlmAgent::new("root", Arc::new(model)) };
        let backend = Backend::memory();
        let agent = start(&backend.store, root).await;
        self.server.play(stream.clone());
        let shown = Mutex::new(String::new());
        let show = |event: &Event| {
            if event.is_partial() {
                shown.lock().unwrap().push_str(&answer_text(event));
            }
        };
        let error = agent.run(say_streaming("hi"), &show).await.err();
        let events = events(&backend).await;
        let of_agent = || events.iter().filter(|event| event.author == "root");
        let calls = tool.calls().into_iter().map(|(_, args)| args).collect();
        ObservedTurn {
            error,
            stored: of_agent().map(answer_text).collect(),
            thoughts: of_agent().next().map(thought_text).unwrap_or_default(),
            usage: of_agent().next().and_then(|event| event.usage_metadata.as_ref()).map(counts),
            error_code: of_agent().find_map(|event| event.error_code.clone()),
            shown: shown.into_inner().unwrap(),
            calls,
            next: agent.run(say("and then?"), &|_| {}).await,
        }
    }

    /// What is wrong with the turn; `None` if it is as it must be.
    fn fault(&self, stream: &MutatedStream, turn: &ObservedTurn, recorded: &ObservedTurn) -> Option<String> {
        if turn.shown != turn.stored && !turn.shown.trim().is_empty() {
            return Some(format!("shown {:?}, stored {:?}", turn.shown, turn.stored));
        }
        let is_recorded = turn.stored == recorded.stored && turn.calls == recorded.calls;
        let fault = match &turn.error {
            Some(_) if stream.outcome == ExpectedEnd::Answer => {
                Some("an error instead of the answer".to_owned())
            }
            None if stream.outcome != ExpectedEnd::Any && !is_recorded => {
                Some(format!("another answer than {:?} {:?}", recorded.stored, recorded.calls))
            }
            None if turn.stored.trim().is_empty() && turn.error_code.is_none() => {
                Some("a silent end".to_owned())
            }
            Some(RunError::Model(error)) => unclear(&error.code, &error.to_string()),
            Some(other) => Some(format!("not an error of the model: {other:?}")),
            None => None,
        };
        fault.or_else(|| self.next_request_fault(stream.api, turn))
    }

    pub(crate) fn next_request_fault(&self, api: ProviderApi, turn: &ObservedTurn) -> Option<String> {
        let requests = self.server.requests();
        let violations = |body: &Value| legal::check(api, body).iter().map(ToString::to_string).collect();
        let violations: Vec<Vec<String>> = requests.iter().map(violations).collect();
        if violations.iter().any(|violations| !violations.is_empty()) {
            return Some(format!("an illegal request: {violations:?}"));
        }
        match &turn.next {
            Err(error) => Some(format!("the next turn fails: {error:?}")),
            Ok(()) if requests.len() < 2 => Some("no next request".to_owned()),
            Ok(()) => None,
        }
    }
}

fn wire(api: ProviderApi) -> WireApi {
    match api {
        ProviderApi::OpenAi => WireApi::Chat,
        ProviderApi::Responses => WireApi::Responses,
        ProviderApi::Anthropic => WireApi::Anthropic,
        ProviderApi::Gemini => WireApi::Gemini,
        ProviderApi::Ollama => WireApi::Ollama,
    }
}

fn answer_text(event: &Event) -> String {
    let parts = event.content.iter().flat_map(|content| &content.parts);
    parts.filter(|part| !part.is_thought()).filter_map(Part::as_text).collect()
}

fn thought_text(event: &Event) -> String {
    let parts = event.content.iter().flat_map(|content| &content.parts);
    parts.filter(|part| part.is_thought()).filter_map(Part::as_text).collect()
}

fn counts(usage: &UsageMetadata) -> [u64; 4] {
    let UsageMetadata {
        prompt_token_count,
        cached_content_token_count,
        candidates_token_count,
        thoughts_token_count,
        ..
    } = usage;
    [prompt_token_count, cached_content_token_count, candidates_token_count, thoughts_token_count]
        .map(|count| count.unwrap_or_default())
}

async fn events(backend: &Backend) -> Vec<Event> {
    let page = PageRequest { after: Seq::START, limit: 1_000, max_bytes: usize::MAX };
    let rows = backend.store.read(&key(), page).await.unwrap();
    let mut restorer = Restorer::new("root");
    rows.iter().map(|row| restorer.restore(row)).collect()
}

/// Why an error is not one sentence that a user understands.
pub(crate) fn unclear(code: &str, message: &str) -> Option<String> {
    let is_code = !code.is_empty() && code.chars().all(|c| c.is_ascii_uppercase() || c == '_');
    let phrase = LIBRARY_WORDING.iter().find(|phrase| message.contains(**phrase));
    if !is_code || message.trim().is_empty() || message.contains('\n') || message.len() > 400 {
        return Some(format!("an unclear error: {code} {message:?}"));
    }
    phrase.map(|phrase| format!("{phrase:?} in {message:?}"))
}

fn setting(name: &str, default: u64) -> u64 {
    env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

#[tokio::test]
async fn mutated_stream_ends_in_the_answer_or_in_one_clear_error() {
    let (seed, cases) = (setting("LANGO_STREAM_SEED", SEED), setting("LANGO_STREAM_CASES", CASES));
    let bench = Bench::start();
    let mut recorded = BTreeMap::new();
    for api in ProviderApi::ALL {
        for recording in RECORDINGS {
            let turn = bench.turn(&mutated_streams::unchanged(api, recording)).await;
            assert!(turn.error.is_none() && !turn.stored.is_empty(), "{api:?} {recording}: {turn:#?}");
            recorded.insert((api.name(), recording), turn);
        }
    }
    let (mut counts, mut failures) = (BTreeMap::new(), Vec::new());
    for number in 0..cases {
        let stream = mutated_streams::case(seed, number);
        let expected = &recorded[&(stream.api.name(), stream.recording)];
        let failure = match AssertUnwindSafe(bench.turn(&stream)).catch_unwind().await {
            Err(_) => Some("a panic".to_owned()),
            Ok(turn) => {
                let end = if turn.error.is_none() { "answers" } else { "errors" };
                *counts.entry((stream.kind, end)).or_insert(0_u32) += 1;
                bench.fault(&stream, &turn, expected).map(|fault| format!("{fault}\n    {turn:?}"))
            }
        };
        failures.extend(failure.map(|failure| {
            let MutatedStream { api, recording, kind, fault, .. } = &stream;
            format!("case {number}: {api:?} {recording} {kind:?} {fault}\n  {failure}")
        }));
    }
    println!("seed {seed}, {cases} cases, {} failures: {counts:?}", failures.len());
    let first: Vec<&String> = failures.iter().take(10).collect();
    assert!(failures.is_empty(), "seed {seed}: {} of {cases}\n{first:#?}", failures.len());
    let has_both = |end| counts.keys().filter(|(_, ended)| *ended == end).count() > 3;
    assert!(has_both("answers") && has_both("errors"), "{counts:?}");
}
