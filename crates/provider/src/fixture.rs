//! A conversation that has everything in it, for the tests of the encoders, and what a decoder makes of a stream.

use crate::{
    Decoder, Done, Error, Frame, Media, MediaSource, Message, Options, Part, Request, Role, StreamEvent,
    ToolCall, ToolResult, ToolSpec,
};
use serde_json::{Map, Value, json};

fn call(id: &str, city: &str, signature: Option<&str>) -> Part {
    let args = Map::from_iter([("city".to_owned(), Value::from(city))]);
    Part::from(ToolCall {
        id: id.to_owned(),
        name: "get_weather".to_owned(),
        args,
        signature: signature.map(str::to_owned),
        malformed: None,
    })
}

fn result(id: &str, response: Value) -> Part {
    Part::from(ToolResult { id: id.to_owned(), name: "get_weather".to_owned(), response })
}

pub(crate) fn request() -> Request {
    let thought = Part::Thought { text: "hmm".into(), signature: Some("sig-1".to_owned()) };
    let secret = Part::Thought { text: "".into(), signature: Some("sig-2".to_owned()) };
    let image = Media {
        mime_type: "image/png".to_owned(),
        source: MediaSource::Base64("AAAA".to_owned()),
        name: None,
    };
    let sheet = Media {
        mime_type: "application/vnd.ms-excel".to_owned(),
        source: MediaSource::Uri("gs://b/s.xls".to_owned()),
        name: Some("s.xls".to_owned()),
    };
    let messages = vec![
        Message::text(Role::System, "Be kind."),
        Message::new(Role::User, vec![Part::text("Paris and Oslo?"), Part::from(image), Part::from(sheet)]),
        Message::new(
            Role::Assistant,
            vec![
                thought,
                secret,
                Part::text("Let me look."),
                call("call_0", "Paris", Some("sig-3")),
                call("call_1", "Oslo", None),
            ],
        ),
        Message::new(
            Role::Tool,
            vec![result("call_1", json!("rain")), result("call_0", json!({"error": "no data"}))],
        ),
        Message::new(Role::Assistant, vec![call("call_0", "Paris", None)]),
        Message::new(Role::Tool, vec![result("call_0", json!({"sky": "blue"}))]),
        Message::text(Role::User, "And then?"),
        Message::new(Role::User, vec![Part::text(" ")]),
    ];
    let tool = ToolSpec {
        name: "get_weather".to_owned(),
        description: "Weather of a city".to_owned(),
        parameters: json!({"type": "object", "properties": {"city": {"type": "string", "format": "city"}}, "required": ["city"], "additionalProperties": false}),
    };
    let options = Options {
        temperature: Some(1.5),
        top_p: Some(0.9),
        max_output_tokens: Some(100),
        stop: vec!["END".to_owned()],
        seed: Some(7),
        ..Options::default()
    };
    Request { model: "m".to_owned(), messages, tools: vec![tool], options }
}

/// One line per field, per message and per part.
pub(crate) fn shape(body: &Value) -> String {
    let mut lines = Vec::new();
    for (key, value) in body.as_object().into_iter().flatten() {
        if !matches!(key.as_str(), "messages" | "contents" | "input") {
            lines.push(format!("{key}: {value}"));
            continue;
        }
        for message in value.as_array().into_iter().flatten() {
            let rest: Map<String, Value> = message
                .as_object()
                .into_iter()
                .flatten()
                .filter(|(key, value)| *key != "role" && !value.is_array())
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect();
            let rest = if rest.is_empty() { String::new() } else { format!(" {}", Value::Object(rest)) };
            let speaker = message["role"].as_str().or(message["type"].as_str());
            lines.push(format!("{}{rest}", speaker.unwrap_or("?")));
            let lists = message.as_object().into_iter().flatten().filter_map(|(_, value)| value.as_array());
            lines.extend(lists.flatten().map(|part| format!("  {part}")));
        }
    }
    lines.join("\n")
}

/// What a decoder makes of a stream that has one frame in each line.
pub(crate) fn decoded(mut decoder: impl Decoder, stream: &str) -> (Vec<StreamEvent>, Result<(), Error>) {
    let mut events = Vec::new();
    let mut frames = stream.lines().map(str::trim).filter(|line| !line.is_empty());
    let outcome = loop {
        if events.iter().any(|event| matches!(event, StreamEvent::Done(_))) {
            break Ok(());
        }
        let Some(data) = frames.next() else {
            break decoder.end(&mut events);
        };
        if let Err(error) = decoder.read(Frame { event: "", data }, &mut events) {
            break Err(error);
        }
    };
    (events, outcome)
}

/// Streams that are not as they should be: cut anywhere, with a frame lost, doubled, in the wrong place or cut short.
pub(crate) fn spoiled(stream: &str) -> Vec<String> {
    let frames: Vec<&str> = stream.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let mut spoiled = Vec::new();
    for at in 0..frames.len() {
        spoiled.push(frames[..at].join("\n"));
        let mut change = |replaced: &[&str]| {
            spoiled.push([&frames[..at], replaced, &frames[at + 1..]].concat().join("\n"));
        };
        change(&[]);
        change(&[frames[at], frames[at]]);
        frames[at].char_indices().step_by(9).for_each(|(end, _)| change(&[&frames[at][..end]]));
        let mut moved = frames.clone();
        moved.swap(at, frames.len() / 2);
        spoiled.push(moved.join("\n"));
    }
    spoiled
}

/// Whatever comes, calls leave with the end alone, and the end is the last.
pub(crate) fn assert_sound(decoder: impl Decoder, stream: &str) {
    let (events, outcome) = decoded(decoder, stream);
    let calls = events.iter().any(|event| matches!(event, StreamEvent::ToolCall(_)));
    let ends = events.iter().position(|event| matches!(event, StreamEvent::Done(_)));
    match outcome {
        Ok(()) => assert_eq!(ends, events.len().checked_sub(1), "{stream}"),
        Err(_) => assert!(!calls && ends.is_none(), "{stream}"),
    }
}

/// What a decoder makes of a stream, for people: one line per event, the error last.
pub(crate) fn heard(decoder: impl Decoder, stream: &str) -> String {
    let (events, outcome) = decoded(decoder, stream);
    let mut lines: Vec<String> = events.iter().map(line).collect();
    lines.extend(outcome.err().map(|error| format!("error {}: {error}", error.code())));
    lines.join("\n")
}

fn line(event: &StreamEvent) -> String {
    let signed = |signature: &Option<String>| {
        signature.as_ref().map(|signature| format!(" signed {signature}")).unwrap_or_default()
    };
    match event {
        StreamEvent::TextDelta { text, signature } => format!("text {text:?}{}", signed(signature)),
        StreamEvent::Thought { text, signature } => format!("thought {text:?}{}", signed(signature)),
        StreamEvent::ToolCall(call) => {
            let malformed = call.malformed.as_ref().map(|raw| format!(" malformed {raw:?}"));
            let args = malformed.unwrap_or_else(|| format!(" {}", Value::Object(call.args.clone())));
            format!("call {:?} {}{args}{}", call.id, call.name, signed(&call.signature))
        }
        StreamEvent::Usage(usage) => format!(
            "usage in {} cached {} out {} reasoning {}",
            usage.input, usage.cached, usage.output, usage.reasoning
        ),
        StreamEvent::Warning(warning) => format!("warning {warning}"),
        StreamEvent::Done(Done { finish, model_version }) => {
            format!("done {finish:?} {}", model_version.as_deref().unwrap_or("?"))
        }
        StreamEvent::Error(error) => format!("error {error}"),
    }
}

/// A message of what was said, as the callers of a provider put it together: a signature ends its part.
pub(crate) fn spoken(events: Vec<StreamEvent>) -> Message {
    let mut parts: Vec<Part> = Vec::new();
    for event in events {
        match (parts.last_mut(), event) {
            (
                Some(Part::Text { text, signature: end @ None, .. }),
                StreamEvent::TextDelta { text: piece, signature },
            )
            | (
                Some(Part::Thought { text, signature: end @ None }),
                StreamEvent::Thought { text: piece, signature },
            ) => {
                text.push_str(&piece);
                *end = signature;
            }
            (_, StreamEvent::TextDelta { text, signature }) => {
                parts.push(Part::Text { text: text.into(), signature, note: false });
            }
            (_, StreamEvent::Thought { text, signature }) => {
                parts.push(Part::Thought { text: text.into(), signature });
            }
            (_, StreamEvent::ToolCall(call)) => parts.push(Part::from(call)),
            (_, StreamEvent::Usage(_) | StreamEvent::Warning(_) | StreamEvent::Done(_)) => {}
            (_, StreamEvent::Error(error)) => panic!("{error}"),
        }
    }
    Message::new(Role::Assistant, parts)
}
