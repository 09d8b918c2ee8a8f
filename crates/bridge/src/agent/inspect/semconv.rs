//! A model call in the attributes of OpenTelemetry's semantic conventions for generative AI, as ADK's web page shows it.

use super::RebuiltCall;
use adk::{
    content::{Content, Data, Part},
    event::Event,
};
use provider::{MediaSource, MessagePart, ModelMessage, Role};
use serde_json::{Map, Value, json};

impl RebuiltCall {
    /// The request and the answer, for the event `gen_ai.client.inference.operation.details`.
    pub fn details(&self) -> Map<String, Value> {
        let (system, messages): (Vec<&ModelMessage>, Vec<&ModelMessage>) =
            self.request.messages.iter().partition(|message| message.role == Role::System);
        let system: Vec<Value> = system.iter().flat_map(|message| &message.parts).map(request_part).collect();
        let messages = messages.into_iter().map(|message| {
            let parts: Vec<Value> = message.parts.iter().map(request_part).collect();
            json!({"role": role(message), "parts": parts})
        });
        let tools = self.request.tools.iter().map(|tool| {
            json!({
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters,
            })
        });
        let mut details = Map::new();
        if !system.is_empty() {
            details.insert("gen_ai.system_instructions".to_owned(), system.into());
        }
        details.insert("gen_ai.input.messages".to_owned(), messages.collect());
        details.insert("gen_ai.tool.definitions".to_owned(), tools.collect());
        details.insert("gen_ai.output.messages".to_owned(), json!([output(&self.answer)]));
        details
    }
}

fn role(message: &ModelMessage) -> &'static str {
    match message.role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    }
}

fn request_part(part: &MessagePart) -> Value {
    match part {
        MessagePart::Text { text, .. } | MessagePart::Thought { text, .. } => text_part(text),
        MessagePart::Call(call) => {
            json!({"type": "tool_call", "id": call.id, "name": call.name, "arguments": call.args})
        }
        MessagePart::Result(result) => {
            json!({"type": "tool_call_response", "id": result.id, "response": object(&result.response)})
        }
        MessagePart::Media(media) => match &media.source {
            // The bytes would make the trace as large as the file.
            MediaSource::Base64(data) => blob(&media.mime_type, data.len()),
            MediaSource::Uri(uri) => json!({"type": "file_data", "mime_type": media.mime_type, "uri": uri}),
        },
    }
}

fn output(answer: &Event) -> Value {
    let parts = answer.content.iter().flat_map(|content: &Content| &content.parts).map(answer_part);
    let mut parts: Vec<Value> = parts.collect();
    parts.extend(answer.error_message.iter().map(|message| text_part(message)));
    let finish = answer.finish_reason.as_deref().or(answer.error_code.as_deref()).unwrap_or_default();
    json!({"role": "assistant", "parts": parts, "finish_reason": finish})
}

fn answer_part(part: &Part) -> Value {
    match &part.data {
        Data::Text(text) => text_part(text),
        Data::FunctionCall(call) => {
            json!({"type": "tool_call", "id": call.id, "name": call.name, "arguments": call.args})
        }
        Data::FunctionResponse(response) => {
            json!({"type": "tool_call_response", "id": response.id, "response": response.response})
        }
        Data::InlineData(_) | Data::FileData(_) | Data::Unknown => text_part("(a file)"),
    }
}

fn text_part(text: &str) -> Value {
    json!({"type": "text", "content": text})
}

fn blob(mime_type: &str, base64_length: usize) -> Value {
    json!({"type": "blob", "mime_type": mime_type, "data": format!("({} bytes)", base64_length / 4 * 3)})
}

/// The page expects an object.
fn object(response: &Value) -> Value {
    if response.is_object() { response.clone() } else { json!({"result": response}) }
}
