//! A conversation that has everything in it, for the tests of the encoders.

use crate::{Media, MediaSource, Message, Options, Part, Request, Role, ToolCall, ToolResult, ToolSpec};
use serde_json::{Map, Value, json};

fn call(id: &str, city: &str, signature: Option<&str>) -> Part {
    let args = Map::from_iter([("city".to_owned(), Value::from(city))]);
    Part::Call(ToolCall {
        id: id.to_owned(),
        name: "get_weather".to_owned(),
        args,
        signature: signature.map(str::to_owned),
        malformed: None,
    })
}

fn result(id: &str, response: Value) -> Part {
    Part::Result(ToolResult { id: id.to_owned(), name: "get_weather".to_owned(), response })
}

pub(crate) fn request() -> Request {
    let thought = Part::Thought { text: "hmm".to_owned(), signature: Some("sig-1".to_owned()) };
    let secret = Part::Thought { text: String::new(), signature: Some("sig-2".to_owned()) };
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
        Message::new(Role::User, vec![Part::text("Paris and Oslo?"), Part::Media(image), Part::Media(sheet)]),
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
        if !matches!(key.as_str(), "messages" | "contents") {
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
            lines.push(format!("{}{rest}", message["role"].as_str().unwrap_or("?")));
            let lists = message.as_object().into_iter().flatten().filter_map(|(_, value)| value.as_array());
            lines.extend(lists.flatten().map(|part| format!("  {part}")));
        }
    }
    lines.join("\n")
}
