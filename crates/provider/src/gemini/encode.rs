//! Encodes a request for Gemini's `generateContent`: contents of parts, with signatures on the parts they arrived with.
//!
//! The URL, not the body, selects streaming.

use super::settings::{self, GeminiModel};
use crate::{
    Media, MediaSource, MessagePart, ModelRequest, Role, ToolCall, ToolSpec, WireApi, encoding,
    message_list::{ListEncoder, ListFormat, ListSection, ListState, TurnKind, split_system},
    openai::Dialect,
    tool_names::ToolNames,
    tool_schema,
    wire_ids::{IdRules, WireMessage},
};
use serde_json::{Value, json};

/// Any id is accepted; only repeated ids change.
pub(crate) const IDS: IdRules = IdRules { max_chars: 256, accepts: |_| true };

/// Gemini 3 requires a signature on the first call of a turn. This value replaces it for calls of other models.
const SIGNATURE_PLACEHOLDER: &str = "skip_thought_signature_validator";

pub fn encode(request: &ModelRequest, _stream: bool) -> Value {
    let request = &*request.with_all_messages();
    let names = ToolNames::for_request(request);
    let format = ListFormat::new(WireApi::Gemini, Dialect::COMPATIBLE, request);
    let encoder = ListEncoder { names: &names, format };
    let rest = split_system(&request.messages).1;
    let contents = encoder.encode_whole(&mut encoder.format.initial_state(), rest);
    encode_around(request, &encoder, contents.into())
}

/// Whether this model requires a signature on the first call of a turn.
pub(crate) fn requires_call_signature(model: &str) -> bool {
    GeminiModel::from_name(model).requires_call_signature()
}

/// The body around a list of contents.
pub(crate) fn encode_around(request: &ModelRequest, encoder: &ListEncoder<'_>, contents: Value) -> Value {
    let names = encoder.names;
    let system = split_system(&request.messages).0;
    let mut instruction: Vec<Value> =
        system.into_iter().flat_map(|message| message.parts.iter().filter_map(text_part)).collect();
    let declared: Vec<Value> = request.tools.iter().map(|spec| tool_declaration(spec, names)).collect();
    let mut generation = settings::generation_config(request);
    if let Some(schema) = &request.options.response_schema {
        // Gemini does not allow a response schema together with tools.
        if declared.is_empty() {
            generation.insert("responseMimeType".to_owned(), "application/json".into());
            generation.insert("responseSchema".to_owned(), tool_schema::answer_for_gemini(schema));
        } else {
            instruction.push(json!({"text": encoding::schema_instruction(schema)}));
        }
    }
    encoding::with_fields(
        json!({}),
        [
            ("systemInstruction", (!instruction.is_empty()).then(|| json!({"parts": instruction}))),
            ("contents", Some(contents)),
            ("tools", (!declared.is_empty()).then(|| json!([{"functionDeclarations": declared}]))),
            ("toolConfig", settings::tool_config(request, names)),
            ("safetySettings", request.options.safety_settings.clone()),
            ("generationConfig", (!generation.is_empty()).then(|| generation.into())),
        ],
    )
}

fn tool_declaration(tool: &ToolSpec, names: &ToolNames) -> Value {
    encoding::with_fields(
        json!({"name": names.wire_name(&tool.name), "description": tool.description}),
        [("parameters", tool_schema::for_gemini(&tool.parameters))],
    )
}

/// The contents of one role. Function responses form a separate turn, with one response per call.
struct GeminiTurn {
    role: &'static str,
    is_response: bool,
    parts: Vec<Value>,
}

impl GeminiTurn {
    fn kind(&self) -> TurnKind {
        TurnKind { role: self.role, is_response: self.is_response }
    }

    fn user_text(text: &str) -> Self {
        Self { role: "user", is_response: false, parts: vec![json!({"text": text})] }
    }
}

/// Encodes contents for one model.
struct GeminiEncoder<'a> {
    names: &'a ToolNames,
    /// The first call of a turn needs a signature.
    sign_first_call: bool,
}

pub(crate) fn encode_list(
    encoder: &ListEncoder<'_>,
    state: &mut ListState,
    ListSection { messages, is_last }: ListSection<'_>,
) -> Option<Vec<Value>> {
    let ListEncoder { names, format } = encoder;
    let encoder = GeminiEncoder { names, sign_first_call: format.signs_first_call };
    let begins = state.last.is_none();
    let mut turns: Vec<GeminiTurn> = Vec::new();
    for turn in messages.iter().flat_map(|message| encoder.encode_message(&state.ids.assign(message))) {
        if begins && turns.is_empty() && turn.role == "model" {
            turns.push(GeminiTurn::user_text(encoding::EARLIER_OMITTED));
        }
        match turns.last_mut() {
            Some(last) if last.kind() == turn.kind() => last.parts.extend(turn.parts),
            Some(_) | None => turns.push(turn),
        }
    }
    if !begins && turns.first().map(GeminiTurn::kind) == state.last {
        return None;
    }
    if is_last && turns.last().is_none_or(|turn| turn.role == "model") {
        let is_empty = turns.is_empty() && begins;
        let text = if is_empty { encoding::EMPTY_MESSAGE } else { encoding::CONTINUE };
        turns.push(GeminiTurn::user_text(text));
    }
    state.last = turns.last().map(GeminiTurn::kind).or(state.last);
    Some(turns.into_iter().map(|turn| json!({"role": turn.role, "parts": turn.parts})).collect())
}

impl GeminiEncoder<'_> {
    fn encode_message(&self, wired: &WireMessage<'_>) -> Vec<GeminiTurn> {
        let (role, parts) = match wired.message.role {
            Role::Assistant => ("model", self.model_parts(wired)),
            Role::System | Role::User | Role::Tool => ("user", user_parts(wired)),
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
            GeminiTurn { role: "user", is_response: true, parts: responses },
            GeminiTurn { role, is_response: false, parts },
        ];
        turns.into_iter().filter(|turn| !turn.parts.is_empty()).collect()
    }

    fn model_parts(&self, wired: &WireMessage<'_>) -> Vec<Value> {
        let mut ids = wired.call_ids.iter();
        let mut first = true;
        wired
            .message
            .parts
            .iter()
            .filter_map(|part| match part {
                MessagePart::Text { .. } => text_part(part),
                MessagePart::Thought { text, signature } => {
                    let signature = signature.as_ref()?;
                    Some(json!({"text": text, "thought": true, "thoughtSignature": signature}))
                }
                MessagePart::Call(call) => {
                    let stand_in =
                        (self.sign_first_call && std::mem::take(&mut first)).then_some(SIGNATURE_PLACEHOLDER);
                    Some(self.function_call(call, ids.next()?, stand_in))
                }
                MessagePart::Media(media) => Some(media_part(media)),
                MessagePart::Result(_) => None,
            })
            .collect()
    }

    fn function_call(&self, call: &ToolCall, id: &str, stand_in: Option<&str>) -> Value {
        let signature = call.signature.as_deref().or(stand_in);
        encoding::with_fields(
            json!({"functionCall": {"id": id, "name": self.names.wire_name(&call.name), "args": call.args}}),
            [("thoughtSignature", signature.map(Value::from))],
        )
    }
}

/// Gemini rejects empty text, unless it carries a signature.
fn text_part(part: &MessagePart) -> Option<Value> {
    match part {
        MessagePart::Text { text, signature, .. } if !text.is_empty() || signature.is_some() => {
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

fn user_parts(wired: &WireMessage<'_>) -> Vec<Value> {
    let mut parts: Vec<Value> = wired
        .message
        .parts
        .iter()
        .filter_map(|part| match part {
            MessagePart::Text { text, .. } => (!text.is_empty()).then(|| json!({"text": text})),
            MessagePart::Media(media) => Some(media_part(media)),
            MessagePart::Thought { .. } | MessagePart::Call(_) | MessagePart::Result(_) => None,
        })
        .collect();
    parts.extend(
        wired.unmatched.iter().map(|result| json!({"text": encoding::unmatched_result_text(result)})),
    );
    if parts.is_empty() && wired.message.role == Role::User {
        parts.push(json!({"text": encoding::EMPTY_MESSAGE}));
    }
    parts
}

/// Whether the file itself can be sent, and not only its name.
pub(crate) fn accepts_media(media: &Media) -> bool {
    media_part(media).get("text").is_none()
}

fn media_part(media: &Media) -> Value {
    let accepted = ["image/", "audio/", "video/", "text/", "application/pdf"];
    if !accepted.iter().any(|kind| media.mime_type.starts_with(kind)) {
        return json!({"text": encoding::media_placeholder(media)});
    }
    match &media.source {
        MediaSource::Base64(data) => json!({"inlineData": {"mimeType": media.mime_type, "data": data}}),
        MediaSource::Uri(uri) => json!({"fileData": {"mimeType": media.mime_type, "fileUri": uri}}),
    }
}

#[cfg(test)]
mod tests;
