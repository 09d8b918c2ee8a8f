//! A request as Gemini's `generateContent` takes it: contents of parts, signatures on the parts that they came with.
//!
//! Whether the answer streams is said by the URL, not by the body.

use super::settings::{self, GeminiModel};
use crate::{
    Media, MediaSource, MessagePart, ModelMessage, ModelRequest, Role, ToolCall, ToolSpec, encoding,
    tool_names::ToolNames,
    tool_schema,
    wire_ids::{self, IdRules, WireMessage},
};
use serde_json::{Value, json};

/// Any id goes back as it came; only repetitions change.
const IDS: IdRules = IdRules { max_chars: 256, accepts: |_| true };

/// Gemini 3 wants a signature on the first call of a turn. For calls that another model made this word stands in.
const FOREIGN: &str = "skip_thought_signature_validator";

pub fn encode(request: &ModelRequest, _stream: bool) -> Value {
    let (system, messages) = match request.messages.split_first() {
        Some((first, rest)) if first.role == Role::System => (Some(first), rest),
        Some(_) | None => (None, request.messages.as_slice()),
    };
    let mut instruction: Vec<Value> =
        system.into_iter().flat_map(|message| message.parts.iter().filter_map(text)).collect();
    let names = ToolNames::for_request(request);
    let declared: Vec<Value> = request.tools.iter().map(|spec| tool(spec, &names)).collect();
    let mut generation = settings::generation(request);
    if let Some(schema) = &request.options.response_schema {
        // A schema for the answer and tools do not go together.
        if declared.is_empty() {
            generation.insert("responseMimeType".to_owned(), "application/json".into());
            generation.insert("responseSchema".to_owned(), tool_schema::answer_for_gemini(schema));
        } else {
            instruction.push(json!({"text": encoding::schema_instruction(schema)}));
        }
    }
    let scribe = GeminiEncoder { names: &names, signs: GeminiModel::of(&request.model).signs_calls() };
    encoding::with_fields(
        json!({}),
        [
            ("systemInstruction", (!instruction.is_empty()).then(|| json!({"parts": instruction}))),
            ("contents", Some(scribe.contents(messages).into())),
            ("tools", (!declared.is_empty()).then(|| json!([{"functionDeclarations": declared}]))),
            ("toolConfig", settings::tool_config(request, &names)),
            ("generationConfig", (!generation.is_empty()).then(|| generation.into())),
        ],
    )
}

fn tool(tool: &ToolSpec, names: &ToolNames) -> Value {
    encoding::with_fields(
        json!({"name": names.wire_name(&tool.name), "description": tool.description}),
        [("parameters", tool_schema::for_gemini(&tool.parameters))],
    )
}

/// One side's part of the conversation. Responses stand alone, as many as there were calls.
struct GeminiTurn {
    role: &'static str,
    responds: bool,
    parts: Vec<Value>,
}

impl GeminiTurn {
    fn words(text: &str) -> Self {
        Self { role: "user", responds: false, parts: vec![json!({"text": text})] }
    }
}

/// Writes contents down for one model.
struct GeminiEncoder<'a> {
    names: &'a ToolNames,
    /// The model wants the first call of a turn signed.
    signs: bool,
}

impl GeminiEncoder<'_> {
    fn contents(&self, messages: &[ModelMessage]) -> Vec<Value> {
        let mut turns: Vec<GeminiTurn> = Vec::new();
        for turn in wire_ids::assign_wire_ids(messages, IDS).iter().flat_map(|wired| self.turns_of(wired)) {
            if turns.is_empty() && turn.role == "model" {
                turns.push(GeminiTurn::words(encoding::EARLIER_OMITTED));
            }
            match turns.last_mut() {
                Some(last) if last.role == turn.role && last.responds == turn.responds => {
                    last.parts.extend(turn.parts);
                }
                Some(_) | None => turns.push(turn),
            }
        }
        if turns.last().is_none_or(|turn| turn.role == "model") {
            turns.push(GeminiTurn::words(if turns.is_empty() {
                encoding::EMPTY_MESSAGE
            } else {
                encoding::CONTINUE
            }));
        }
        turns.into_iter().map(|turn| json!({"role": turn.role, "parts": turn.parts})).collect()
    }

    fn turns_of(&self, wired: &WireMessage<'_>) -> Vec<GeminiTurn> {
        let (role, parts) = match wired.message.role {
            Role::Assistant => ("model", self.spoken_by_model(wired)),
            Role::System | Role::User | Role::Tool => ("user", spoken_to_model(wired)),
        };
        let responses: Vec<Value> = wired
            .results
            .iter()
            .map(|(id, result)| {
                let response = match &result.response {
                    Value::Object(_) => result.response.clone(),
                    other => json!({"result": other}),
                };
                json!({"functionResponse": {"id": id, "name": self.names.wire_name(&result.name), "response": response}})
            })
            .collect();
        let turns = [
            GeminiTurn { role: "user", responds: true, parts: responses },
            GeminiTurn { role, responds: false, parts },
        ];
        turns.into_iter().filter(|turn| !turn.parts.is_empty()).collect()
    }

    fn spoken_by_model(&self, wired: &WireMessage<'_>) -> Vec<Value> {
        let mut ids = wired.call_ids.iter();
        let mut first = true;
        wired
            .message
            .parts
            .iter()
            .filter_map(|part| match part {
                MessagePart::Text { .. } => text(part),
                MessagePart::Thought { text, signature } => {
                    let signature = signature.as_ref()?;
                    Some(json!({"text": text, "thought": true, "thoughtSignature": signature}))
                }
                MessagePart::Call(call) => {
                    let stand_in = (self.signs && std::mem::take(&mut first)).then_some(FOREIGN);
                    Some(self.called(call, ids.next()?, stand_in))
                }
                MessagePart::Media(media) => Some(shown(media)),
                MessagePart::Result(_) => None,
            })
            .collect()
    }

    fn called(&self, call: &ToolCall, id: &str, stand_in: Option<&str>) -> Value {
        let signature = call.signature.as_deref().or(stand_in);
        encoding::with_fields(
            json!({"functionCall": {"id": id, "name": self.names.wire_name(&call.name), "args": call.args}}),
            [("thoughtSignature", signature.map(Value::from))],
        )
    }
}

/// Empty text is refused, unless it carries a signature.
fn text(part: &MessagePart) -> Option<Value> {
    match part {
        MessagePart::Text { text, signature } if !text.is_empty() || signature.is_some() => {
            Some(encoding::with_fields(
                json!({"text": text}),
                [("thoughtSignature", signature.clone().map(Value::from))],
            ))
        }
        MessagePart::Text { .. }
        | MessagePart::Thought { .. }
        | MessagePart::Call(_)
        | MessagePart::Result(_)
        | MessagePart::Media(_) => None,
    }
}

fn spoken_to_model(wired: &WireMessage<'_>) -> Vec<Value> {
    let mut said: Vec<Value> = wired
        .message
        .parts
        .iter()
        .filter_map(|part| match part {
            MessagePart::Text { text, .. } => (!text.is_empty()).then(|| json!({"text": text})),
            MessagePart::Media(media) => Some(shown(media)),
            MessagePart::Thought { .. } | MessagePart::Call(_) | MessagePart::Result(_) => None,
        })
        .collect();
    said.extend(wired.orphans.iter().map(|result| json!({"text": encoding::orphan_result_text(result)})));
    if said.is_empty() && wired.message.role == Role::User {
        said.push(json!({"text": encoding::EMPTY_MESSAGE}));
    }
    said
}

/// Whether the model is shown such a file, and not its name alone.
pub(crate) fn accepts_media(media: &Media) -> bool {
    shown(media).get("text").is_none()
}

fn shown(media: &Media) -> Value {
    let taken = ["image/", "audio/", "video/", "text/", "application/pdf"];
    if !taken.iter().any(|kind| media.mime_type.starts_with(kind)) {
        return json!({"text": encoding::media_placeholder(media)});
    }
    match &media.source {
        MediaSource::Base64(data) => json!({"inlineData": {"mimeType": media.mime_type, "data": data}}),
        MediaSource::Uri(uri) => json!({"fileData": {"mimeType": media.mime_type, "fileUri": uri}}),
    }
}

#[cfg(test)]
mod tests;
