//! A conversation with every kind of part, for encoder tests, and helpers for decoder tests.

use crate::{
    Done, Error, GenerationOptions, Media, MediaSource, MessagePart, ModelMessage, ModelRequest, Role,
    StreamDecoder, StreamEvent, StreamFrame, ToolCall, ToolResult, ToolSpec,
};
use serde_json::{Map, Value, json};

fn call(id: &str, city: &str, signature: Option<&str>) -> MessagePart {
    let args = Map::from_iter([("city".to_owned(), Value::from(city))]);
    MessagePart::from(ToolCall {
        id: id.to_owned(),
        name: "get_weather".to_owned(),
        args,
        signature: signature.map(str::to_owned),
        malformed: None,
    })
}

fn result(id: &str, response: Value) -> MessagePart {
    MessagePart::from(ToolResult { id: id.to_owned(), name: "get_weather".to_owned(), response })
}

pub(crate) fn request() -> ModelRequest {
    let thought = MessagePart::Thought { text: "hmm".into(), signature: Some("sig-1".to_owned()) };
    let secret = MessagePart::Thought { text: "".into(), signature: Some("sig-2".to_owned()) };
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
        ModelMessage::text(Role::System, "Be kind."),
        ModelMessage::new(
            Role::User,
            vec![MessagePart::text("Paris and Oslo?"), MessagePart::from(image), MessagePart::from(sheet)],
        ),
        ModelMessage::new(
            Role::Assistant,
            vec![
                thought,
                secret,
                MessagePart::text("Let me look."),
                call("call_0", "Paris", Some("sig-3")),
                call("call_1", "Oslo", None),
            ],
        ),
        ModelMessage::new(
            Role::Tool,
            vec![result("call_1", json!("rain")), result("call_0", json!({"error": "no data"}))],
        ),
        ModelMessage::new(Role::Assistant, vec![call("call_0", "Paris", None)]),
        ModelMessage::new(Role::Tool, vec![result("call_0", json!({"sky": "blue"}))]),
        ModelMessage::text(Role::User, "And then?"),
        ModelMessage::new(Role::User, vec![MessagePart::text(" ")]),
    ];
    let tool = ToolSpec {
        name: "get_weather".to_owned(),
        description: "Weather of a city".to_owned(),
        parameters: json!({"type": "object", "properties": {"city": {"type": "string", "format": "city"}}, "required": ["city"], "additionalProperties": false}),
    };
    let options = GenerationOptions {
        temperature: Some(1.5),
        top_p: Some(0.9),
        max_output_tokens: Some(100),
        stop: vec!["END".to_owned()],
        seed: Some(7),
        ..GenerationOptions::default()
    };
    ModelRequest { model: "m".to_owned(), messages, tools: vec![tool], options, ..ModelRequest::default() }
}

/// One line per field, message and part of a request body.
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

/// Decodes a stream that has one frame per line.
pub(crate) fn decode_stream(
    mut decoder: impl StreamDecoder,
    stream: &str,
) -> (Vec<StreamEvent>, Result<(), Error>) {
    let mut events = Vec::new();
    let mut frames = stream.lines().map(str::trim).filter(|line| !line.is_empty());
    let outcome = loop {
        if events.iter().any(|event| matches!(event, StreamEvent::Done(_))) {
            break Ok(());
        }
        let Some(data) = frames.next() else {
            break decoder.end(&mut events);
        };
        if let Err(error) = decoder.read(StreamFrame { event: "", data }, &mut events) {
            break Err(error);
        }
    };
    (events, outcome)
}

/// Corrupted variants of a stream: cut at any frame, or with a frame dropped, repeated, moved or truncated.
pub(crate) fn corrupted_streams(stream: &str) -> Vec<String> {
    let frames: Vec<&str> = stream.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let mut corrupted = Vec::new();
    for at in 0..frames.len() {
        corrupted.push(frames[..at].join("\n"));
        let mut change = |replaced: &[&str]| {
            corrupted.push([&frames[..at], replaced, &frames[at + 1..]].concat().join("\n"));
        };
        change(&[]);
        change(&[frames[at], frames[at]]);
        frames[at].char_indices().step_by(9).for_each(|(end, _)| change(&[&frames[at][..end]]));
        let mut moved = frames.clone();
        moved.swap(at, frames.len() / 2);
        corrupted.push(moved.join("\n"));
    }
    corrupted
}

/// Asserts that tool calls appear only with `Done`, and that `Done` is the last event.
pub(crate) fn assert_calls_only_with_done(decoder: impl StreamDecoder, stream: &str) {
    let (events, outcome) = decode_stream(decoder, stream);
    let calls = events.iter().any(|event| matches!(event, StreamEvent::ToolCall(_)));
    let ends = events.iter().position(|event| matches!(event, StreamEvent::Done(_)));
    match outcome {
        Ok(()) => assert_eq!(ends, events.len().checked_sub(1), "{stream}"),
        Err(_) => assert!(!calls && ends.is_none(), "{stream}"),
    }
}

/// Decodes a stream into one line per event, the error last.
pub(crate) fn describe_stream(decoder: impl StreamDecoder, stream: &str) -> String {
    let (events, outcome) = decode_stream(decoder, stream);
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
        StreamEvent::Sent(body) => format!("sent {} bytes", body.len()),
        StreamEvent::Warning(warning) => format!("warning {warning}"),
        StreamEvent::Done(Done { finish, model_version, metadata }) => {
            let done = format!("done {finish:?} {}", model_version.as_deref().unwrap_or("?"));
            let details = [&metadata.fields, &metadata.usage].into_iter().filter(|fields| !fields.is_empty());
            let lines = details.map(|fields| Value::from(fields.clone()).to_string());
            std::iter::once(done).chain(lines).collect::<Vec<_>>().join("\n")
        }
        StreamEvent::Error(error) => format!("error {error}"),
    }
}

/// Assembles a message from events, as callers of a provider do: a signature ends a part.
pub(crate) fn assemble_message(events: Vec<StreamEvent>) -> ModelMessage {
    let mut parts: Vec<MessagePart> = Vec::new();
    for event in events {
        match (parts.last_mut(), event) {
            (
                Some(MessagePart::Text { text, signature: end @ None, .. }),
                StreamEvent::TextDelta { text: chunk, signature },
            )
            | (
                Some(MessagePart::Thought { text, signature: end @ None }),
                StreamEvent::Thought { text: chunk, signature },
            ) => {
                text.push_str(&chunk);
                *end = signature;
            }
            (_, StreamEvent::TextDelta { text, signature }) => {
                parts.push(MessagePart::Text { text: text.into(), signature, note: false });
            }
            (_, StreamEvent::Thought { text, signature }) => {
                parts.push(MessagePart::Thought { text: text.into(), signature });
            }
            (_, StreamEvent::ToolCall(call)) => parts.push(MessagePart::from(call)),
            (
                _,
                StreamEvent::Sent(_) | StreamEvent::Usage(_) | StreamEvent::Warning(_) | StreamEvent::Done(_),
            ) => {}
            (_, StreamEvent::Error(error)) => panic!("{error}"),
        }
    }
    ModelMessage::new(Role::Assistant, parts)
}
