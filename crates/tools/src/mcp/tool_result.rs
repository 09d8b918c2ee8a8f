//! Conversion of a server's tool result: texts become one bounded output, structured content stays JSON, and binary content
//! is saved as artifacts.

use std::io::Read;

use base64::{Engine, prelude::BASE64_STANDARD};
use rmcp::model::{ContentBlock, Resource, ResourceContents};
use serde_json::{Map, Value, json};

use super::{
    received::{ReceivedResult, drop_copies},
    spill::SpilledStrings,
};
use crate::{
    ArtifactBody, ArtifactFile, OutputStore, ToolHost, ToolsError,
    outputs::{CapturedOutput, HandleKind, OutputCapture, to_plain_text},
};

/// Longer structured content is returned as bounded text.
const MAX_DATA: usize = 16 * 1024;
/// Size limit of a file, in base64.
const MAX_FILE: u64 = 32 << 20;

/// The content blocks of a result by kind.
#[derive(Default)]
struct ResultParts {
    texts: Vec<String>,
    files: Vec<FilePart>,
    links: Vec<Value>,
}

/// A part with binary data, in base64.
struct FilePart {
    mime_type: String,
    data: String,
    /// The address of a resource.
    uri: Option<String>,
}

/// The tool that returned a result, and the stores of its long strings.
pub(super) struct ResultContext<'a> {
    pub(super) tool: &'a str,
    pub(super) outputs: &'a OutputStore,
    pub(super) spilled: &'a SpilledStrings,
}

pub(super) async fn to_json(
    received: ReceivedResult,
    context: &ResultContext<'_>,
    host: &dyn ToolHost,
) -> Result<Value, ToolsError> {
    let ReceivedResult { result, unknown } = received;
    let failed = result.is_error == Some(true);
    let mut parts = split(result.content);
    let mut answer = Map::new();
    if let Some(mut data) = result.structured_content {
        drop_copies(&mut parts.texts, &data);
        context.restore_spilled(&mut data);
        let written = data.to_string();
        if written.len() <= MAX_DATA {
            answer.insert("data".to_owned(), data);
        } else {
            parts.texts.push(written);
        }
    }
    for mut part in unknown {
        context.restore_spilled(&mut part);
        parts.texts.push(describe_unknown(&part));
    }
    if failed {
        let mut output = Map::new();
        context.capture(parts.texts).write_to(&mut output);
        let text = output.get("output").and_then(Value::as_str).unwrap_or_default();
        let text = if text.is_empty() { "the server reports a failure without a reason" } else { text };
        answer.insert("error".to_owned(), text.into());
        return Ok(answer.into());
    }
    let has_text = parts.texts.iter().any(|text| !text.is_empty());
    if has_text || answer.is_empty() && parts.files.is_empty() && parts.links.is_empty() {
        context.capture(parts.texts).write_to(&mut answer);
    }
    if !parts.links.is_empty() {
        answer.insert("links".to_owned(), parts.links.into());
    }
    let mut files = Vec::new();
    for (at, FilePart { mime_type, data, uri }) in parts.files.into_iter().enumerate() {
        let mut file = context.save(host, &format!("{}-{}", context.tool, at + 1), mime_type, data).await?;
        if let Some(uri) = uri {
            file["uri"] = to_plain_text(uri.as_bytes()).into();
        }
        files.push(file);
    }
    if !files.is_empty() {
        answer.insert("files".to_owned(), files.into());
    }
    Ok(answer.into())
}

impl ResultContext<'_> {
    /// Joins all texts to one output.
    fn capture(&self, mut texts: Vec<String>) -> CapturedOutput {
        if let [only] = texts.as_slice()
            && let Some(output) = self.spilled.take(only)
        {
            return output;
        }
        for text in &mut texts {
            self.restore_if_spilled(text);
        }
        let mut capture = OutputCapture::new(self.outputs.clone());
        capture.push(texts.join("\n").as_bytes());
        capture.finish()
    }

    /// Replaces the placeholders of spilled strings in a JSON value by excerpts with their handles.
    fn restore_spilled(&self, data: &mut Value) {
        match data {
            Value::String(text) => self.restore_if_spilled(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.restore_spilled(item)),
            Value::Object(fields) => fields.values_mut().for_each(|field| self.restore_spilled(field)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn restore_if_spilled(&self, text: &mut String) {
        if let Some(CapturedOutput { bytes, text: ends, handle, .. }) = self.spilled.take(text) {
            let handle = handle.unwrap_or_default();
            *text = format!("{ends}\n[{bytes} bytes, stored as {handle}]");
        }
    }

    /// Saves a file as an artifact and describes it.
    async fn save(
        &self,
        host: &dyn ToolHost,
        name: &str,
        mime_type: String,
        mut data: String,
    ) -> Result<Value, ToolsError> {
        if let Some(CapturedOutput { bytes, handle, .. }) = self.spilled.take(&data) {
            let handle = handle.unwrap_or_default();
            if bytes > MAX_FILE {
                let why = "the file is too large for an artifact; its base64 text is stored under the handle";
                return Ok(json!({"mime_type": mime_type, "error": why, "handle": handle}));
            }
            data.clear();
            let read = self.outputs.open(HandleKind::Output, &handle)?.read_to_string(&mut data);
            read.map_err(|source| ToolsError::OutputStore { source })?;
        }
        let Ok(bytes) = BASE64_STANDARD.decode(&data) else {
            return Ok(json!({"mime_type": mime_type, "error": "the server sent invalid base64"}));
        };
        let extension = mime_type.split('/').nth(1).filter(|kind| kind.chars().all(char::is_alphanumeric));
        let name = format!("{name}.{}", extension.unwrap_or("bin"));
        let length = bytes.len();
        let file = ArtifactFile { mime_type: mime_type.clone(), body: ArtifactBody::Bytes(bytes) };
        let version = host.save_artifact(name.clone(), file).await?;
        Ok(json!({"artifact": name, "version": version, "mime_type": mime_type, "bytes": length}))
    }
}

impl ResultParts {
    fn push_file(&mut self, mime_type: String, data: String, uri: Option<String>) {
        self.files.push(FilePart { mime_type, data, uri });
    }
}

/// A part of a type that is not known here, as JSON.
fn describe_unknown(part: &Value) -> String {
    let kind = part.get("type").and_then(Value::as_str).unwrap_or("unknown");
    format!("[content of type `{}`]\n{part}", to_plain_text(kind.as_bytes()))
}

fn split(content: Vec<ContentBlock>) -> ResultParts {
    let mut parts = ResultParts::default();
    for block in content {
        match block {
            ContentBlock::Text(text) => parts.texts.push(text.text),
            ContentBlock::Image(image) => parts.push_file(image.mime_type, image.data, None),
            ContentBlock::Audio(audio) => parts.push_file(audio.mime_type, audio.data, None),
            ContentBlock::ResourceLink(link) => parts.links.push(link_json(&link)),
            ContentBlock::Resource(resource) => match resource.resource {
                ResourceContents::TextResourceContents { uri, text, .. } => {
                    parts.texts.push(format!("{uri}:\n{text}"));
                }
                ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                    let mime_type = mime_type.unwrap_or_else(|| "application/octet-stream".to_owned());
                    parts.push_file(mime_type, blob, Some(uri));
                }
                _ => parts.texts.push("[a resource of an unsupported kind]".to_owned()),
            },
            _ => parts.texts.push("[content of an unsupported kind]".to_owned()),
        }
    }
    parts
}

fn link_json(link: &Resource) -> Value {
    let optional =
        [("title", &link.title), ("description", &link.description), ("mime_type", &link.mime_type)];
    let optional = optional.into_iter().filter_map(|(key, text)| Some((key, text.as_ref()?)));
    let fields = [("uri", &link.uri), ("name", &link.name)].into_iter().chain(optional);
    let fields = fields.map(|(key, text)| (key.to_owned(), Value::from(to_plain_text(text.as_bytes()))));
    Value::Object(fields.collect())
}
