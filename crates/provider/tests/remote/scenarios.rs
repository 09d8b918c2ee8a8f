//! Every scenario of the fake server in every wire format, with its outcome.

use futures::{StreamExt as _, future::join_all};
use provider::{
    Error, FinishReason, ModelMessage, ModelRequest, Provider as _, ProviderEndpoint, RemoteProvider, Role,
    SecretString, StreamEvent, ToolSpec, WireApi,
};
use serde_json::json;
use std::{fmt::Write as _, time::Duration};
use testkit::fakeprov::{FakeProvider, SCENARIOS};

const KEY: &str = "sk-canary-0123456789";

fn endpoint(api: WireApi, base_url: String) -> ProviderEndpoint {
    ProviderEndpoint { key: Some(SecretString::new(KEY)), ..ProviderEndpoint::new("fake", api, base_url) }
}

fn request() -> ModelRequest {
    let weather = ToolSpec {
        name: "get_weather".to_owned(),
        description: "Weather of a city".to_owned(),
        parameters: json!({"type": "object", "properties": {"city": {"type": "string"}}}),
    };
    let messages = vec![ModelMessage::text(Role::User, "Weather in Zürich and Tōkyō?")];
    ModelRequest { model: "m".to_owned(), messages, tools: vec![weather], ..ModelRequest::default() }
}

/// The events on one line. Neighbours of one kind are merged; `with_content` includes what they hold.
fn shape(events: &[StreamEvent], with_content: bool) -> String {
    let mut parts: Vec<(&str, String)> = Vec::new();
    for event in events.iter().filter(|event| !matches!(event, StreamEvent::Sent(_))) {
        let (kind, content) = describe(event);
        match parts.last_mut() {
            Some((last, all)) if *last == kind && kind != "call" => *all += &content,
            Some(_) | None => parts.push((kind, content)),
        }
    }
    let word = |(kind, content): &(&str, String)| match *kind {
        "" => content.clone(),
        "text" if content.len() > 40 => format!("{} bytes of text", content.len()),
        kind if with_content => format!("{kind}({content})"),
        kind => kind.to_owned(),
    };
    parts.iter().map(word).collect::<Vec<_>>().join(" ")
}

fn describe(event: &StreamEvent) -> (&'static str, String) {
    match event {
        StreamEvent::TextDelta { text, .. } => ("text", text.clone()),
        StreamEvent::Thought { text, signature } => {
            ("thought", format!("{text}{}", if signature.is_some() { "+signature" } else { "" }))
        }
        StreamEvent::ToolCall(call) if call.malformed.is_some() => ("", "bad call".to_owned()),
        StreamEvent::ToolCall(call) => ("call", format!("{} {}", call.id, json!(call.args))),
        StreamEvent::Usage(usage) => {
            ("usage", format!("{}/{}/{}/{}", usage.input, usage.cached, usage.output, usage.reasoning))
        }
        StreamEvent::Sent(_) => ("sent", String::new()),
        StreamEvent::Warning(text) => ("warning", text.clone()),
        StreamEvent::Done(done) => match &done.finish {
            FinishReason::Stop => ("", "done".to_owned()),
            FinishReason::Length => ("", "length".to_owned()),
            FinishReason::Filtered { .. } => ("", "filtered".to_owned()),
            FinishReason::Refused { .. } => ("", "refused".to_owned()),
        },
        StreamEvent::Error(error) => ("", error_code(error)),
    }
}

fn error_code(error: &Error) -> String {
    match error {
        Error::RateLimited { retry_after: Some(wait), .. }
        | Error::Transient { retry_after: Some(wait), .. } => {
            format!("{}({wait:?})", error.code())
        }
        other => other.code().to_owned(),
    }
}

const APIS: [WireApi; 5] =
    [WireApi::Chat, WireApi::Responses, WireApi::Anthropic, WireApi::Gemini, WireApi::Ollama];

async fn call(fake: &FakeProvider, api: WireApi, scenario: &str) -> Vec<StreamEvent> {
    let mut endpoint = endpoint(api, fake.url(scenario));
    if scenario.starts_with("hang") {
        endpoint.idle_timeout = Duration::from_millis(700);
    }
    let events: Vec<StreamEvent> = RemoteProvider::new(endpoint).stream(request()).collect().await;
    let ends = events.iter().filter(|event| matches!(event, StreamEvent::Done(_) | StreamEvent::Error(_)));
    assert_eq!(ends.count(), 1, "{api:?} {scenario}: {events:?}");
    assert!(!format!("{events:?}").contains(KEY), "{api:?} {scenario}: {events:?}");
    events
}

/// The outcomes of a scenario, each with the wire formats that have it.
async fn outcomes(fake: &FakeProvider, scenario: &str, undisturbed: &[String]) -> String {
    let mut row: Vec<(String, Vec<WireApi>)> = Vec::new();
    let answers = join_all(APIS.map(|api| call(fake, api, scenario))).await;
    for ((api, events), ok) in APIS.into_iter().zip(answers).zip(undisturbed) {
        let as_ok = shape(&events, true) == *ok;
        let outcome = if as_ok { "as ok".to_owned() } else { shape(&events, false) };
        match row.iter_mut().find(|(known, _)| *known == outcome) {
            Some((_, apis)) => apis.push(api),
            None => row.push((outcome, vec![api])),
        }
    }
    let line = |(outcome, apis): &(String, Vec<WireApi>)| match apis.len() {
        5 => outcome.clone(),
        _ => format!("{outcome} {apis:?}"),
    };
    format!("{scenario}: {}", row.iter().map(line).collect::<Vec<_>>().join("; "))
}

/// The events of the undisturbed scenario in every format.
async fn undisturbed(fake: &FakeProvider) -> Vec<String> {
    let answers = join_all(APIS.map(|api| call(fake, api, "ok"))).await;
    answers.iter().map(|events| shape(events, true)).collect()
}

#[tokio::test]
async fn undisturbed_answer_is_equal_in_every_wire_api() {
    let undisturbed = undisturbed(&FakeProvider::start().await).await;
    insta::assert_snapshot!(undisturbed.join("\n"), @r#"
    thought(Let me think.) text(Grüß dich 🌍) call(call_AAA {"city":"Zürich","n":1}) call(call_BBB {"city":"Tōkyō"}) usage(100/64/15/5) done
    thought(Let me think.+signature) text(Grüß dich 🌍) call(call_AAA {"city":"Zürich","n":1}) call(call_BBB {"city":"Tōkyō"}) usage(100/64/15/5) done
    thought(Let me think.+signature+signature) text(Grüß dich 🌍) call(toolu_AAA {"city":"Zürich","n":1}) call(toolu_BBB {"city":"Tōkyō"}) usage(100/64/20/0) done
    thought(Let me think.) text(Grüß dich 🌍) call(fc-AAA {"city":"Zürich","n":1}) call(fc-BBB {"city":"Tōkyō"}) usage(100/64/15/5) done
    thought(Let me think.) text(Grüß dich 🌍) call(call_AAA {"city":"Zürich","n":1}) call(call_BBB {"city":"Tōkyō"}) usage(100/0/20/0) done
    "#);
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "a table with one line per scenario")]
async fn every_scenario_has_its_outcome_in_every_wire_api() {
    let fake = FakeProvider::start().await;
    let undisturbed = undisturbed(&fake).await;
    let mut rows = Vec::new();
    for scenario in SCENARIOS {
        rows.push(outcomes(&fake, scenario, &undisturbed).await);
    }
    insta::assert_snapshot!(rows.join("\n"), @"
    ok: as ok
    text: thought text usage done [Chat, Responses, Gemini, Ollama]; text usage done [Anthropic]
    think: thought text usage done
    two: as ok
    slowtext: 792 bytes of text usage done
    bytes1: as ok
    crlf: as ok
    nospace: as ok
    comment: as ok
    noblank: as ok
    big: thought 4194313 bytes of text call call usage done
    sameidx: as ok
    gapidx: as ok
    noid: thought text call call usage done
    sameid: thought text call call usage done
    nodone: as ok [Chat, Anthropic]; thought text TRUNCATED [Responses, Gemini, Ollama]
    trunc: thought text TRUNCATED
    trunctext: thought text TRUNCATED
    cut: thought text TRANSIENT
    drop: thought text TRANSIENT
    errmid: thought text TRANSIENT
    badjson: thought PROTOCOL [Chat, Responses, Gemini, Ollama]; PROTOCOL [Anthropic]
    badargs: thought text bad call call usage done [Chat, Responses, Anthropic, Ollama]; thought text MALFORMED_FUNCTION_CALL [Gemini]
    length: thought text usage length
    refuse: thought text usage filtered [Chat, Responses, Gemini]; text usage refused [Anthropic]; as ok [Ollama]
    refuse0: usage refused [Chat, Responses, Anthropic, Gemini]; as ok [Ollama]
    empty: TRUNCATED
    html: PROTOCOL
    json200: TRANSIENT
    hang: thought text STALLED [Chat, Gemini, Ollama]; thought STALLED [Responses, Anthropic]
    hanghead: STALLED
    r429: RATE_LIMITED(7s)
    r429ms: RATE_LIMITED(1.5s)
    r429date: RATE_LIMITED(7s)
    quota: QUOTA
    ctx400: CONTEXT_OVERFLOW
    auth401: AUTH
    bad400: BAD_REQUEST
    r500: TRANSIENT
    r503: TRANSIENT(3s)
    o529: TRANSIENT
    flaky: RATE_LIMITED(0ns)
    ctxonce: CONTEXT_OVERFLOW
    echokey: AUTH
    echokey200: thought text AUTH [Chat, Responses, Anthropic, Gemini]; thought text TRANSIENT [Ollama]
    redirect: SETUP
    nothing: usage done [Chat, Responses, Anthropic, Ollama]; text usage done [Gemini]
    thinkonly: thought usage done [Chat, Responses, Anthropic, Ollama]; thought text usage done [Gemini]
    length0: usage length
    oddtypes: as ok
    badbyte: thought text usage done [Chat, Responses, Gemini, Ollama]; text usage done [Anthropic]
    surrogates: thought text usage done [Chat, Responses, Gemini, Ollama]; text usage done [Anthropic]
    choices: thought text usage done [Chat, Gemini]; as ok [Responses, Anthropic, Ollama]
    eof1: TRUNCATED
    errthought: thought TRANSIENT
    bareerror: TRANSIENT [Chat, Responses, Anthropic]; as ok [Gemini, Ollama]
    ");
}

#[tokio::test]
async fn models_are_listed_in_every_wire_api() {
    let fake = FakeProvider::start().await;
    let mut all = String::new();
    for api in APIS {
        let models = RemoteProvider::new(endpoint(api, fake.url("ok"))).models().await.unwrap();
        let models: Vec<String> =
            models.iter().map(|model| format!("{} {:?}", model.id, model.context)).collect();
        writeln!(all, "{api:?}: {}", models.join(", ")).unwrap();
    }
    insta::assert_snapshot!(all, @"
    Chat: gpt-x None, gpt-x-mini None
    Responses: gpt-x None, gpt-x-mini None
    Anthropic: claude-x None
    Gemini: gemini-x Some(1048576)
    Ollama: llama-x:latest None
    ");
}
