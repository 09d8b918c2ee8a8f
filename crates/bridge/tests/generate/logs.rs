//! Generates damaged logs: every row may be wrong in its own way.

use super::view::{AGENT, MODEL, PROVIDER};
use adk::{
    content::{Blob, Content, Data, FileData, FunctionCall, FunctionResponse, Origin, Part},
    event::Event,
    pending::REQUEST_CONFIRMATION,
};
use bridge::{Budget, store::row::save};
use proptest::{collection::vec, option::of, prelude::*};
use serde_json::{Map, Value, json};
use session::{Seq, SessionMessage, StoredMessage, ToolCall};

/// A session at the start of a turn.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    pub rows: Vec<StoredMessage>,
    /// Older rows were not read.
    pub cut: bool,
    pub budget: Budget,
}

/// Any log, any valid budget, cut anywhere.
pub(crate) fn log() -> impl Strategy<Value = Log> {
    (vec(chunk(), 0..9), of(0_usize..12), budget()).prop_map(|(chunks, skip, budget)| {
        let rows: Vec<Row> = chunks.into_iter().flatten().take(40).collect();
        let skip = skip.unwrap_or(0).min(rows.len());
        Log { rows: number(rows).split_off(skip), cut: skip > 0, budget }
    })
}

pub(crate) fn budget() -> impl Strategy<Value = Budget> {
    let tokens = prop_oneof![3 => 256_u32..600, 2 => 600_u32..4_000, 1 => Just(0)];
    (tokens, of(1_usize..12)).prop_map(|(tokens, most)| Budget::new(tokens, most).unwrap())
}

/// An event, and the age of its row.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) event: Event,
    pub(crate) age: Age,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Age {
    /// As written now.
    Ours,
    /// Without `meta`, as written by the Go program.
    Legacy,
    /// Additionally without author, id or count.
    Bare,
    /// A tool row from before results had ids.
    Unnamed,
}

pub(crate) fn number(rows: Vec<Row>) -> Vec<StoredMessage> {
    let mut seq = Seq::START;
    let mut stored = Vec::with_capacity(rows.len());
    for (place, mut row) in rows.into_iter().enumerate() {
        seq = seq.next();
        row.event.id = format!("event-{place}");
        tag_words(&mut row.event, place);
        stored.push(StoredMessage { seq, message: aged(save(&row.event).unwrap(), row.age) });
    }
    stored
}

/// Tags the user's texts, so that each can be found in the request.
fn tag_words(event: &mut Event, place: usize) {
    let is_user = event.is_from_user();
    for part in event.content.iter_mut().flat_map(|content| &mut content.parts) {
        if let Data::Text(text) = &mut part.data
            && is_user
            && !text.trim().is_empty()
        {
            *text = format!("#{place}# {text}").into();
        }
    }
}

fn aged(message: SessionMessage, age: Age) -> SessionMessage {
    match age {
        Age::Ours => message,
        Age::Legacy => SessionMessage { meta: None, ..message },
        Age::Bare => SessionMessage {
            meta: None,
            id: String::new(),
            author: String::new(),
            tokens: 0,
            counted_by: String::new(),
            ..message
        },
        Age::Unnamed => {
            let is_tool = message.tool_calls.iter().any(ToolCall::is_response);
            let tool_calls = if is_tool { Vec::new() } else { message.tool_calls };
            SessionMessage { meta: None, tool_calls, ..message }
        }
    }
}

/// Rows that belong together, or should.
pub(crate) fn chunk() -> impl Strategy<Value = Vec<Row>> {
    let events = prop_oneof![
        3 => text_events("user", "user"),
        2 => text_events(AGENT, "model"),
        4 => exchange(),
        1 => late_exchange(),
        1 => confirmation(),
        1 => interrupted(),
        1 => foreign(),
        1 => odd().prop_map(|event| vec![event]),
        2 => wild().prop_map(|event| vec![event]),
    ];
    let age = prop_oneof![
        6 => Just(Age::Ours),
        1 => Just(Age::Legacy),
        1 => Just(Age::Bare),
        1 => Just(Age::Unnamed),
    ];
    (events, age).prop_map(|(events, age)| events.into_iter().map(|event| Row { event, age }).collect())
}

pub(crate) fn event(author: &str, role: &str, parts: Vec<Part>) -> Event {
    Event {
        author: author.to_owned(),
        content: Some(Content::new(role, parts)),
        timestamp: 1.0,
        ..Event::default()
    }
}

pub(crate) fn text_events(author: &'static str, role: &'static str) -> impl Strategy<Value = Vec<Event>> {
    (vec(words(), 1..3), any::<bool>()).prop_map(move |(texts, ours)| {
        let mut event = event(author, role, texts.into_iter().map(Part::text).collect());
        own(&mut event, ours);
        vec![event]
    })
}

/// Makes it a content of the requested model, or of no model.
pub(crate) fn own(event: &mut Event, ours: bool) {
    let origin = Origin { provider: PROVIDER.to_owned(), model: MODEL.to_owned() };
    for content in event.content.iter_mut().filter(|_| ours) {
        content.origin = Some(origin.clone());
    }
}

fn words() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => "[a-z]{1,8}( [a-z]{1,8}){0,6}",
        1 => prop::sample::select(vec!["", " ", "\n\t", "\0", "[1, 2]", "漢字 \u{1f600} naïve"]).prop_map(str::to_owned),
        1 => (prop::sample::select(vec!["x", "word ", "漢字", "\"\\\n", "😀"]), 50_usize..1_500)
            .prop_map(|(chunk, times)| chunk.repeat(times)),
    ]
}

fn id() -> impl Strategy<Value = Option<String>> {
    prop_oneof![
        3 => prop::sample::select(vec!["call_0", "call_1", "a", "b"]).prop_map(|id| Some(id.to_owned())),
        2 => "adk-[0-9a-f]{8}".prop_map(Some),
        1 => Just(None),
        1 => prop::sample::select(vec!["", "with space/é", "call_look", "call_look_2"]).prop_map(|id| Some(id.to_owned())),
        1 => "[a-z]{65,80}".prop_map(Some),
    ]
}

pub(crate) fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => prop::sample::select(vec!["look", "read_file", "search"]).prop_map(str::to_owned),
        1 => prop::sample::select(vec!["", "bad name!", "道具", "9lives", "a.b-c"]).prop_map(str::to_owned),
        1 => (60_usize..2_000).prop_map(|length| "n".repeat(length)),
    ]
}

pub(crate) fn object() -> impl Strategy<Value = Option<Map<String, Value>>> {
    let map = words().prop_map(|text| json!({"text": text, "n": [1, 2.5, null]}).as_object().cloned());
    prop_oneof![1 => Just(None), 1 => Just(Some(Map::new())), 4 => map]
}

fn call() -> impl Strategy<Value = FunctionCall> {
    (id(), name(), object()).prop_map(|(id, name, args)| FunctionCall { id, name, args, extra: Map::new() })
}

pub(crate) fn response_to(call: &FunctionCall, answer: Option<Map<String, Value>>) -> Part {
    let (id, name) = (call.id.clone(), call.name.clone());
    FunctionResponse { id, name, response: answer, extra: Map::new() }.into()
}

/// Calls with their results: in one row or several, in any order, some twice, some missing.
fn exchange() -> impl Strategy<Value = Vec<Event>> {
    let answers = vec((0_usize..4, object()), 0..5);
    (vec(call(), 1..4), of(words()), of("[A-Za-z0-9]{4,12}"), answers, any::<[bool; 3]>()).prop_map(
        |(calls, text, signature, answers, [ours, in_one, in_order])| {
            let mut parts: Vec<Part> = Vec::new();
            parts.extend(
                signature.clone().map(|sig| Part { thought_signature: Some(sig), ..Part::thought("hm") }),
            );
            parts.extend(text.map(Part::text));
            parts.extend(
                calls.iter().map(|call| Part { thought_signature: signature.clone(), ..call.clone().into() }),
            );
            let mut asked = event(AGENT, "model", parts);
            own(&mut asked, ours);
            let places: Vec<(usize, Option<Map<String, Value>>)> = if in_order {
                (0..calls.len()).map(|place| (place, Some(Map::new()))).collect()
            } else {
                answers
            };
            let answers: Vec<Part> = places
                .into_iter()
                .filter_map(|(place, answer)| Some(response_to(calls.get(place)?, answer)))
                .collect();
            let rows: Vec<Vec<Part>> =
                if in_one { vec![answers] } else { answers.into_iter().map(|answer| vec![answer]).collect() };
            let rows =
                rows.into_iter().filter(|parts| !parts.is_empty()).map(|parts| event(AGENT, "user", parts));
            std::iter::once(asked).chain(rows).collect()
        },
    )
}

/// A message between a call and its two results, the acknowledgement and the final one.
fn late_exchange() -> impl Strategy<Value = Vec<Event>> {
    (call(), words(), vec(words(), 0..3), object()).prop_map(|(call, text, between, answer)| {
        let now = response_to(&call, Some(Map::from_iter([("status".to_owned(), json!("pending"))])));
        let late = response_to(&call, answer);
        let between = between.into_iter().map(|text| event("user", "user", vec![Part::text(text)]));
        let mut events = vec![event(AGENT, "model", vec![call.into()]), event(AGENT, "user", vec![now])];
        events.extend(between);
        events.push(event("user", "user", vec![Part::text(text), late]));
        events
    })
}

fn confirmation() -> impl Strategy<Value = Vec<Event>> {
    (call(), any::<bool>()).prop_map(|(call, answered)| {
        let question = FunctionCall {
            id: Some("question".to_owned()),
            name: REQUEST_CONFIRMATION.to_owned(),
            args: json!({"originalFunctionCall": call, "toolConfirmation": {"hint": "?"}})
                .as_object()
                .cloned(),
            extra: Map::new(),
        };
        let answer = Some(Map::from_iter([("confirmed".to_owned(), json!(true))]));
        let mut asks = event(AGENT, "user", vec![question.clone().into()]);
        asks.long_running_tool_ids = Some(vec!["question".to_owned()]);
        let mut events = vec![event(AGENT, "model", vec![call.clone().into()]), asks];
        if answered {
            events.push(event("user", "user", vec![response_to(&question, answer)]));
            events.push(event(AGENT, "user", vec![response_to(&call, Some(Map::new()))]));
        }
        events
    })
}

/// Interrupted answers, by an agent that continues them or another one; an error may follow.
fn interrupted() -> impl Strategy<Value = Vec<Event>> {
    let author = prop::sample::select(vec![AGENT, AGENT, "other"]);
    (author, vec((of(words()), words()), 1..4), any::<bool>()).prop_map(|(author, cuts, failed)| {
        let cut = |(thought, text): (Option<String>, String)| {
            let parts = thought.map(Part::thought).into_iter().chain([Part::text(text)]).collect();
            Event { interrupted: Some(true), ..event(author, "model", parts) }
        };
        let failure = Event {
            author: author.to_owned(),
            error_code: Some("UNAVAILABLE".to_owned()),
            ..Event::default()
        };
        cuts.into_iter().map(cut).chain(failed.then_some(failure)).collect()
    })
}

fn foreign() -> impl Strategy<Value = Vec<Event>> {
    (call(), words(), object()).prop_map(|(call, text, answer)| {
        let answer = response_to(&call, answer);
        vec![
            event("other", "model", vec![Part::text(text), call.into()]),
            event("other", "user", vec![answer]),
        ]
    })
}

/// Events without anything for a model.
fn odd() -> impl Strategy<Value = Event> {
    let failed = Event {
        author: AGENT.to_owned(),
        error_code: Some("UNAVAILABLE".to_owned()),
        error_message: Some("overloaded".to_owned()),
        ..Event::default()
    };
    prop::sample::select(vec![
        failed,
        Event { author: AGENT.to_owned(), ..Event::default() },
        event(AGENT, "model", Vec::new()),
        event(AGENT, "model", vec![Part::default()]),
        event("user", "user", vec![Part::text("")]),
        event(AGENT, "model", vec![Part::thought("only thinks")]),
    ])
}

/// Any parts in any role.
fn wild() -> impl Strategy<Value = Event> {
    let author = prop::sample::select(vec!["user", AGENT, "other", "", "model"]);
    let role =
        prop::sample::select(vec!["user", "model", "function", "tool", "assistant", "system", "odd", ""]);
    (author, role, vec(part(), 0..4), any::<bool>()).prop_map(|(author, role, parts, ours)| {
        let mut wild = event(author, role, parts);
        own(&mut wild, ours);
        wild
    })
}

fn part() -> impl Strategy<Value = Part> {
    let blob = (
        prop::sample::select(vec!["image/png", "application/pdf", "text/plain", "audio/wav", ""]),
        0_usize..2_000,
    )
        .prop_map(|(mime, length)| {
            let (mime_type, data) = (Some(mime.to_owned()), "AAAA".repeat(length));
            Data::InlineData(Box::new(Blob { mime_type, data, ..Blob::default() }))
        });
    let file = prop::sample::select(vec!["https://example.com/a.png", "gs://bucket/b", ""]).prop_map(|uri| {
        let mime_type = Some("image/png".to_owned());
        Data::FileData(Box::new(FileData { file_uri: uri.to_owned(), mime_type, ..FileData::default() }))
    });
    let response = (call(), object()).prop_map(|(call, answer)| response_to(&call, answer).data);
    let data = prop_oneof![
        4 => words().prop_map(|words| Data::Text(words.into())),
        2 => call().prop_map(|call| Data::FunctionCall(Box::new(call))),
        2 => response,
        1 => blob,
        1 => file,
        1 => Just(Data::Unknown),
    ];
    let extra = prop_oneof![4 => Just(Map::new()), 1 => Just(Map::from_iter([("executableCode".to_owned(), json!({"code": "1"}))]))];
    (data, of(any::<bool>()), of("[A-Za-z0-9]{4,12}"), extra).prop_map(
        |(data, thought, thought_signature, extra)| Part { data, thought, thought_signature, extra },
    )
}
