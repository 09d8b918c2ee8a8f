//! A request as Gemini's `generateContent` takes it: contents of parts, signatures on the parts that they came with.
//!
//! Whether the answer streams is said by the URL, not by the body.

use super::settings::{self, Model};
use crate::{
    Media, MediaSource, Message, Part, Request, Role, ToolCall, ToolSpec,
    ids::{self, Dialect, Names, Wired},
    parts, schema,
};
use serde_json::{Value, json};

/// Any id goes back as it came; only repetitions change.
const IDS: Dialect = Dialect { longest: 256, accepts: |_| true };

/// Gemini 3 wants a signature on the first call of a turn. For calls that another model made this word stands in.
const FOREIGN: &str = "skip_thought_signature_validator";

pub fn encode(request: &Request, _stream: bool) -> Value {
    let (system, messages) = match request.messages.split_first() {
        Some((first, rest)) if first.role == Role::System => (Some(first), rest),
        Some(_) | None => (None, request.messages.as_slice()),
    };
    let mut instruction: Vec<Value> =
        system.into_iter().flat_map(|message| message.parts.iter().filter_map(text)).collect();
    let names = Names::of(request);
    let declared: Vec<Value> = request.tools.iter().map(|spec| tool(spec, &names)).collect();
    let mut generation = settings::generation(request);
    if let Some(schema) = &request.options.response_schema {
        // A schema for the answer and tools do not go together.
        if declared.is_empty() {
            generation.insert("responseMimeType".to_owned(), "application/json".into());
            generation.insert("responseSchema".to_owned(), schema::answer_for_gemini(schema));
        } else {
            instruction.push(json!({"text": parts::schema_text(schema)}));
        }
    }
    let scribe = Scribe { names: &names, signs: Model::of(&request.model).signs_calls() };
    parts::with(
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

fn tool(tool: &ToolSpec, names: &Names) -> Value {
    parts::with(
        json!({"name": names.wire(&tool.name), "description": tool.description}),
        [("parameters", schema::for_gemini(&tool.parameters))],
    )
}

/// One side's part of the conversation. Responses stand alone, as many as there were calls.
struct Turn {
    role: &'static str,
    responds: bool,
    parts: Vec<Value>,
}

impl Turn {
    fn words(text: &str) -> Self {
        Self { role: "user", responds: false, parts: vec![json!({"text": text})] }
    }
}

/// Writes contents down for one model.
struct Scribe<'a> {
    names: &'a Names,
    /// The model wants the first call of a turn signed.
    signs: bool,
}

impl Scribe<'_> {
    fn contents(&self, messages: &[Message]) -> Vec<Value> {
        let mut turns: Vec<Turn> = Vec::new();
        for turn in ids::wire(messages, IDS).iter().flat_map(|wired| self.turns_of(wired)) {
            if turns.is_empty() && turn.role == "model" {
                turns.push(Turn::words(parts::EARLIER));
            }
            match turns.last_mut() {
                Some(last) if last.role == turn.role && last.responds == turn.responds => {
                    last.parts.extend(turn.parts);
                }
                Some(_) | None => turns.push(turn),
            }
        }
        if turns.last().is_none_or(|turn| turn.role == "model") {
            turns.push(Turn::words(if turns.is_empty() { parts::EMPTY } else { parts::GO_ON }));
        }
        turns.into_iter().map(|turn| json!({"role": turn.role, "parts": turn.parts})).collect()
    }

    fn turns_of(&self, wired: &Wired<'_>) -> Vec<Turn> {
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
                json!({"functionResponse": {"id": id, "name": self.names.wire(&result.name), "response": response}})
            })
            .collect();
        let turns =
            [Turn { role: "user", responds: true, parts: responses }, Turn { role, responds: false, parts }];
        turns.into_iter().filter(|turn| !turn.parts.is_empty()).collect()
    }

    fn spoken_by_model(&self, wired: &Wired<'_>) -> Vec<Value> {
        let mut ids = wired.calls.iter();
        let mut first = true;
        wired
            .message
            .parts
            .iter()
            .filter_map(|part| match part {
                Part::Text { .. } => text(part),
                Part::Thought { text, signature } => {
                    let signature = signature.as_ref()?;
                    Some(json!({"text": text, "thought": true, "thoughtSignature": signature}))
                }
                Part::Call(call) => {
                    let stand_in = (self.signs && std::mem::take(&mut first)).then_some(FOREIGN);
                    Some(self.called(call, ids.next()?, stand_in))
                }
                Part::Media(media) => Some(shown(media)),
                Part::Result(_) => None,
            })
            .collect()
    }

    fn called(&self, call: &ToolCall, id: &str, stand_in: Option<&str>) -> Value {
        let signature = call.signature.as_deref().or(stand_in);
        parts::with(
            json!({"functionCall": {"id": id, "name": self.names.wire(&call.name), "args": call.args}}),
            [("thoughtSignature", signature.map(Value::from))],
        )
    }
}

/// Empty text is refused, unless it carries a signature.
fn text(part: &Part) -> Option<Value> {
    match part {
        Part::Text { text, signature, .. } if !text.is_empty() || signature.is_some() => Some(parts::with(
            json!({"text": text}),
            [("thoughtSignature", signature.clone().map(Value::from))],
        )),
        Part::Text { .. } | Part::Thought { .. } | Part::Call(_) | Part::Result(_) | Part::Media(_) => None,
    }
}

fn spoken_to_model(wired: &Wired<'_>) -> Vec<Value> {
    let mut said: Vec<Value> = wired
        .message
        .parts
        .iter()
        .filter_map(|part| match part {
            Part::Text { text, .. } => (!text.is_empty()).then(|| json!({"text": text})),
            Part::Media(media) => Some(shown(media)),
            Part::Thought { .. } | Part::Call(_) | Part::Result(_) => None,
        })
        .collect();
    said.extend(wired.loose.iter().map(|result| json!({"text": parts::loose_text(result)})));
    if said.is_empty() && wired.message.role == Role::User {
        said.push(json!({"text": parts::EMPTY}));
    }
    said
}

/// Whether the model is shown such a file, and not its name alone.
pub(crate) fn takes(media: &Media) -> bool {
    shown(media).get("text").is_none()
}

fn shown(media: &Media) -> Value {
    let taken = ["image/", "audio/", "video/", "text/", "application/pdf"];
    if !taken.iter().any(|kind| media.mime_type.starts_with(kind)) {
        return json!({"text": parts::media_text(media)});
    }
    match &media.source {
        MediaSource::Base64(data) => json!({"inlineData": {"mimeType": media.mime_type, "data": data}}),
        MediaSource::Uri(uri) => json!({"fileData": {"mimeType": media.mime_type, "fileUri": uri}}),
    }
}

#[cfg(test)]
mod tests;
