//! Contents and parts in ADK's JSON. Every part survives a round trip, unknown fields included.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _, ser::SerializeMap};
use serde_json::{Map, Value};
use shared_text::SharedText;

/// One message. The role is `user` or `model` on ADK's wire; stored rows may have other roles.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Content {
    #[serde(default)]
    pub parts: Vec<Part>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// The model that produced the content. Not part of ADK's JSON: signatures are sent back to this model only.
    #[serde(skip)]
    pub origin: Option<Origin>,
}

/// The model that produced a content.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Origin {
    pub provider: String,
    pub model: String,
}

impl Content {
    pub fn new(role: impl Into<String>, parts: Vec<Part>) -> Self {
        Self { parts, role: Some(role.into()), origin: None }
    }

    pub fn user(text: impl Into<SharedText>) -> Self {
        Self::new("user", vec![Part::text(text)])
    }

    pub fn model(text: impl Into<SharedText>) -> Self {
        Self::new("model", vec![Part::text(text)])
    }

    pub fn calls(&self) -> impl Iterator<Item = &FunctionCall> {
        self.parts.iter().filter_map(Part::call)
    }

    pub fn responses(&self) -> impl Iterator<Item = &FunctionResponse> {
        self.parts.iter().filter_map(Part::response)
    }

    /// Removes the thought signatures. They are valid in a complete answer only, not in a chunk of a stream.
    pub(crate) fn without_signatures(mut self) -> Self {
        for part in &mut self.parts {
            part.thought_signature = None;
        }
        self
    }

    /// Whether there is a text part that is not a thought. The text may be empty.
    pub fn has_text(&self) -> bool {
        self.parts.iter().any(|part| !part.is_thought() && part.as_text().is_some())
    }

    /// The concatenated text parts, without thoughts.
    pub fn text(&self) -> String {
        self.parts.iter().filter(|part| !part.is_thought()).filter_map(Part::as_text).collect()
    }
}

/// One part of a content: its data and the fields that may accompany it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Part {
    pub data: Data,
    pub thought: Option<bool>,
    /// Base64 as received. It is never decoded, so that it is sent back byte for byte.
    pub thought_signature: Option<String>,
    /// Unknown fields, and a second kind of data in the same part.
    pub extra: Map<String, Value>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub enum Data {
    Text(SharedText),
    /// Boxed, as the variants below: most parts are texts, and a part should not be larger than one.
    FunctionCall(Box<FunctionCall>),
    FunctionResponse(Box<FunctionResponse>),
    InlineData(Box<Blob>),
    FileData(Box<FileData>),
    /// No known data; see [`Part::extra`].
    #[default]
    Unknown,
}

impl Part {
    pub fn text(text: impl Into<SharedText>) -> Self {
        Self::from(Data::Text(text.into()))
    }

    pub fn thought(text: impl Into<SharedText>) -> Self {
        Self { thought: Some(true), ..Self::text(text) }
    }

    pub fn as_text(&self) -> Option<&str> {
        if let Data::Text(text) = &self.data { Some(text) } else { None }
    }

    /// The text, or the contents of an inline text file.
    pub fn to_text(&self) -> Option<String> {
        match &self.data {
            Data::Text(text) => Some(text.to_string()),
            Data::InlineData(blob) => blob.to_text(),
            Data::FunctionCall(_) | Data::FunctionResponse(_) | Data::FileData(_) | Data::Unknown => None,
        }
    }

    pub fn call(&self) -> Option<&FunctionCall> {
        if let Data::FunctionCall(call) = &self.data { Some(call) } else { None }
    }

    /// Whether the part has a function call, also beside other data.
    pub fn carries_call(&self) -> bool {
        let is_call = |(name, value): (&String, &Value)| {
            matches!(name.as_str(), "functionCall" | "function_call") && !value.is_null()
        };
        self.call().is_some() || self.extra.iter().any(is_call)
    }

    pub fn response(&self) -> Option<&FunctionResponse> {
        if let Data::FunctionResponse(response) = &self.data { Some(response) } else { None }
    }

    pub fn is_thought(&self) -> bool {
        self.thought == Some(true)
    }

    /// Whether the part carries no data, no signature and no unknown fields.
    pub fn is_empty(&self) -> bool {
        let is_blank = match &self.data {
            Data::Text(text) => text.is_empty(),
            Data::Unknown => true,
            Data::FunctionCall(_) | Data::FunctionResponse(_) | Data::InlineData(_) | Data::FileData(_) => {
                false
            }
        };
        is_blank && self.thought_signature.is_none() && self.extra.is_empty()
    }
}

impl From<Data> for Part {
    fn from(data: Data) -> Self {
        Self { data, ..Self::default() }
    }
}

impl From<FunctionCall> for Part {
    fn from(call: FunctionCall) -> Self {
        Data::FunctionCall(Box::new(call)).into()
    }
}

impl From<FunctionResponse> for Part {
    fn from(response: FunctionResponse) -> Self {
        Data::FunctionResponse(Box::new(response)).into()
    }
}

impl From<Blob> for Part {
    fn from(blob: Blob) -> Self {
        Data::InlineData(Box::new(blob)).into()
    }
}

/// A tool call by a model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FunctionCall {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<Map<String, Value>>,
    #[serde(default)]
    pub name: String,
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// The field of a call with the raw text of arguments that are not a JSON object. Such a call gets an error as its response
/// and is never run.
const MALFORMED: &str = "malformedArgs";

impl FunctionCall {
    /// A call whose arguments do not parse: empty `args`, and the raw text beside them.
    pub fn malformed(id: Option<String>, name: impl Into<String>, raw: String) -> Self {
        let extra = Map::from_iter([(MALFORMED.to_owned(), Value::from(raw))]);
        Self { id, args: Some(Map::new()), name: name.into(), extra }
    }

    /// The raw text of arguments that do not parse.
    pub fn malformed_args(&self) -> Option<&str> {
        self.extra.get(MALFORMED).and_then(Value::as_str)
    }

    /// The id, or one derived from the name if the call has none (spec J2, P2).
    pub fn id_or_name(&self) -> String {
        id_or_name(self.id.as_deref(), &self.name)
    }
}

/// The response to a tool call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FunctionResponse {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    #[serde(default)]
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<Map<String, Value>>,
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl FunctionResponse {
    /// The response to the call with that id. A value that is not an object is wrapped as `{"result": value}`.
    pub fn new(id: impl Into<String>, name: impl Into<String>, answer: Value) -> Self {
        let response = match answer {
            Value::Object(map) => map,
            other => Map::from_iter([("result".to_owned(), other)]),
        };
        Self { id: Some(id.into()), name: name.into(), response: Some(response), extra: Map::new() }
    }

    pub fn id_or_name(&self) -> String {
        id_or_name(self.id.as_deref(), &self.name)
    }

    /// The `error` field of the response.
    pub fn error(&self) -> Option<&Value> {
        self.response.as_ref()?.get("error")
    }
}

/// Calls and responses share this rule, so that a response without an id finds its call.
fn id_or_name(id: Option<&str>, name: &str) -> String {
    match id {
        Some(id) if !id.is_empty() => id.to_owned(),
        Some(_) | None => format!("call_{name}"),
    }
}

/// Inline bytes, as base64.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Blob {
    #[serde(default)]
    pub data: String,
    #[serde(default, alias = "display_name", skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    #[serde(default, alias = "mime_type", skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl Blob {
    /// The bytes as text, if the MIME type is textual and the bytes are UTF-8.
    fn to_text(&self) -> Option<String> {
        let kind = self.mime_type.as_deref().unwrap_or_default();
        let is_text = kind.starts_with("text/") || kind.starts_with("application/json");
        let bytes = STANDARD.decode(&self.data).ok().filter(|_| is_text)?;
        String::from_utf8(bytes).ok()
    }
}

/// A reference to a file by URI.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FileData {
    #[serde(default, alias = "display_name", skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    #[serde(default, alias = "file_uri")]
    pub file_uri: String,
    #[serde(default, alias = "mime_type", skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl Serialize for Part {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match &self.data {
            Data::Text(text) => map.serialize_entry("text", text)?,
            Data::FunctionCall(call) => map.serialize_entry("functionCall", call)?,
            Data::FunctionResponse(response) => map.serialize_entry("functionResponse", response)?,
            Data::InlineData(blob) => map.serialize_entry("inlineData", blob)?,
            Data::FileData(file) => map.serialize_entry("fileData", file)?,
            Data::Unknown => {}
        }
        if let Some(thought) = self.thought {
            map.serialize_entry("thought", &thought)?;
        }
        if let Some(signature) = &self.thought_signature {
            map.serialize_entry("thoughtSignature", signature)?;
        }
        for (name, value) in &self.extra {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Part {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut part = Self::default();
        for (name, value) in Map::deserialize(deserializer)? {
            part.take_field(name, value).map_err(D::Error::custom)?;
        }
        Ok(part)
    }
}

impl Part {
    fn take_field(&mut self, name: String, value: Value) -> Result<(), serde_json::Error> {
        let vacant = self.data == Data::Unknown && !value.is_null();
        match name.as_str() {
            "thought" => self.thought = serde_json::from_value(value)?,
            "thoughtSignature" | "thought_signature" => {
                self.thought_signature = serde_json::from_value(value)?;
            }
            "text" if vacant => self.data = Data::Text(serde_json::from_value(value)?),
            "functionCall" | "function_call" if vacant => {
                self.data = Data::FunctionCall(serde_json::from_value(value)?);
            }
            "functionResponse" | "function_response" if vacant => {
                self.data = Data::FunctionResponse(serde_json::from_value(value)?);
            }
            "inlineData" | "inline_data" if vacant => {
                self.data = Data::InlineData(serde_json::from_value(value)?);
            }
            "fileData" | "file_data" if vacant => self.data = Data::FileData(serde_json::from_value(value)?),
            _ => {
                self.extra.insert(name, value);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn round_trip(value: &Value) {
        let part: Part = serde_json::from_value(value.clone()).unwrap();
        assert_eq!(&serde_json::to_value(&part).unwrap(), value);
    }

    #[test]
    fn every_kind_of_part_round_trips_through_json() {
        round_trip(&json!({"text": "hi", "thought": true, "thoughtSignature": "c2ln+/=="}));
        round_trip(
            &json!({"functionCall": {"id": "1", "args": {"b": 1.10, "a": null}, "name": "f", "willContinue": true}}),
        );
        round_trip(
            &json!({"functionResponse": {"name": "f", "response": {"x": []}, "scheduling": "SILENT"}}),
        );
        round_trip(&json!({"inlineData": {"data": "AAAA", "mimeType": "image/png", "displayName": "a.png"}}));
        round_trip(&json!({"fileData": {"fileUri": "gs://a", "mimeType": "text/plain"}}));
        round_trip(&json!({"executableCode": {"code": "1+1"}, "videoMetadata": {"fps": 2}}));
        round_trip(&json!({}));
    }

    #[test]
    fn a_part_with_two_kinds_of_data_round_trips() {
        round_trip(&json!({"text": "a", "functionCall": {"name": "f"}}));
    }

    #[test]
    fn a_malformed_call_keeps_the_raw_text_of_its_arguments() {
        let call = FunctionCall::malformed(Some("1".to_owned()), "f", "{oops".to_owned());
        let json = json!({"id": "1", "args": {}, "name": "f", "malformedArgs": "{oops"});
        assert_eq!(serde_json::to_value(&call).unwrap(), json);
        let read: FunctionCall = serde_json::from_value(json).unwrap();
        assert_eq!(read.malformed_args(), Some("{oops"));
    }

    #[test]
    fn snake_case_is_accepted_and_camel_case_is_written() {
        let part: Part =
            serde_json::from_value(json!({"function_call": {"name": "f"}, "thought_signature": "x"}))
                .unwrap();
        assert_eq!(
            serde_json::to_value(part).unwrap(),
            json!({"functionCall": {"name": "f"}, "thoughtSignature": "x"})
        );
    }

    #[test]
    fn a_call_and_a_response_without_ids_derive_the_same_id() {
        let call = FunctionCall { name: "search".into(), ..Default::default() };
        let response =
            FunctionResponse { id: Some(String::new()), name: "search".into(), ..Default::default() };
        assert_eq!(call.id_or_name(), "call_search");
        assert_eq!(call.id_or_name(), response.id_or_name());
    }
}
