//! What a server answers, as a model is shown it: texts as one output with a bound, data as data, and files beside the
//! conversation.

use std::io::Read;

use base64::{Engine, prelude::BASE64_STANDARD};
use rmcp::model::{CallToolResult, ContentBlock, Resource, ResourceContents};
use serde_json::{Map, Value, json};

use super::thin::Shelf;
use crate::{
    ArtifactBody, ArtifactFile, OutputStore, ToolHost, ToolsError,
    outputs::{CapturedOutput, HandleKind, OutputCapture, to_plain_text},
};

/// Data that is longer than this when it is written out is shown as text, with its bound.
const MOST_DATA: usize = 16 * 1024;
/// In base64.
const MOST_FILE: u64 = 32 << 20;

/// Parts of an answer, by what becomes of them.
#[derive(Default)]
struct Sorted {
    texts: Vec<String>,
    files: Vec<(String, String)>,
    links: Vec<Value>,
}

/// Whose answer it is, and where its long texts are.
pub(super) struct From<'a> {
    pub(super) tool: &'a str,
    pub(super) outputs: &'a OutputStore,
    pub(super) shelf: &'a Shelf,
}

pub(super) async fn answer(
    result: CallToolResult,
    from: &From<'_>,
    host: &dyn ToolHost,
) -> Result<Value, ToolsError> {
    let failed = result.is_error == Some(true);
    let mut parts = sort(result.content);
    let mut answer = Map::new();
    if let Some(mut data) = result.structured_content {
        // Servers send the same as text, for clients that know no data.
        parts.texts.retain(|text| serde_json::from_str::<Value>(text).ok().as_ref() != Some(&data));
        from.name_what_is_left_out(&mut data);
        let written = data.to_string();
        if written.len() <= MOST_DATA {
            answer.insert("data".to_owned(), data);
        } else {
            parts.texts.push(written);
        }
    }
    if failed {
        let mut shown = Map::new();
        from.shown(parts.texts).write_to(&mut shown);
        let said = shown.get("output").and_then(Value::as_str).unwrap_or_default();
        let said = if said.is_empty() { "the server says that it failed, and not why" } else { said };
        answer.insert("error".to_owned(), said.into());
        return Ok(answer.into());
    }
    let says_something = parts.texts.iter().any(|text| !text.is_empty());
    if says_something || answer.is_empty() && parts.files.is_empty() && parts.links.is_empty() {
        from.shown(parts.texts).write_to(&mut answer);
    }
    if !parts.links.is_empty() {
        answer.insert("links".to_owned(), parts.links.into());
    }
    let mut files = Vec::new();
    for (at, (mime_type, data)) in parts.files.into_iter().enumerate() {
        files.push(from.save(host, &format!("{}-{}", from.tool, at + 1), mime_type, data).await?);
    }
    if !files.is_empty() {
        answer.insert("files".to_owned(), files.into());
    }
    Ok(answer.into())
}

impl From<'_> {
    /// All texts as one output.
    fn shown(&self, mut texts: Vec<String>) -> CapturedOutput {
        if let [only] = texts.as_slice()
            && let Some(shown) = self.shelf.take(only)
        {
            return shown;
        }
        for text in &mut texts {
            self.name_if_left_out(text);
        }
        let mut capture = OutputCapture::new(self.outputs.clone());
        capture.push(texts.join("\n").as_bytes());
        capture.finish()
    }

    fn name_what_is_left_out(&self, data: &mut Value) {
        match data {
            Value::String(text) => self.name_if_left_out(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.name_what_is_left_out(item)),
            Value::Object(fields) => fields.values_mut().for_each(|field| self.name_what_is_left_out(field)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn name_if_left_out(&self, text: &mut String) {
        if let Some(CapturedOutput { bytes, text: ends, handle, .. }) = self.shelf.take(text) {
            let handle = handle.unwrap_or_default();
            *text = format!("{ends}\n[{bytes} bytes, kept whole as {handle}]");
        }
    }

    /// Keeps a file beside the session, and names it.
    async fn save(
        &self,
        host: &dyn ToolHost,
        name: &str,
        mime_type: String,
        mut data: String,
    ) -> Result<Value, ToolsError> {
        if let Some(CapturedOutput { bytes, handle, .. }) = self.shelf.take(&data) {
            let handle = handle.unwrap_or_default();
            if bytes > MOST_FILE {
                let why = "it is too long for a file; its base64 is kept";
                return Ok(json!({"mime_type": mime_type, "error": why, "handle": handle}));
            }
            data.clear();
            let read = self.outputs.open(HandleKind::Output, &handle)?.read_to_string(&mut data);
            read.map_err(|source| ToolsError::OutputStore { source })?;
        }
        let Ok(bytes) = BASE64_STANDARD.decode(&data) else {
            return Ok(json!({"mime_type": mime_type, "error": "what the server sent is no base64"}));
        };
        let extension = mime_type.split('/').nth(1).filter(|kind| kind.chars().all(char::is_alphanumeric));
        let name = format!("{name}.{}", extension.unwrap_or("bin"));
        let length = bytes.len();
        let file = ArtifactFile { mime_type: mime_type.clone(), body: ArtifactBody::Bytes(bytes) };
        let version = host.save_artifact(name.clone(), file).await?;
        Ok(json!({"artifact": name, "version": version, "mime_type": mime_type, "bytes": length}))
    }
}

fn sort(content: Vec<ContentBlock>) -> Sorted {
    let mut sorted = Sorted::default();
    for block in content {
        match block {
            ContentBlock::Text(text) => sorted.texts.push(text.text),
            ContentBlock::Image(image) => sorted.files.push((image.mime_type, image.data)),
            ContentBlock::Audio(audio) => sorted.files.push((audio.mime_type, audio.data)),
            ContentBlock::ResourceLink(link) => sorted.links.push(named(&link)),
            ContentBlock::Resource(resource) => match resource.resource {
                ResourceContents::TextResourceContents { uri, text, .. } => {
                    sorted.texts.push(format!("{uri}:\n{text}"));
                }
                ResourceContents::BlobResourceContents { mime_type, blob, .. } => {
                    sorted
                        .files
                        .push((mime_type.unwrap_or_else(|| "application/octet-stream".to_owned()), blob));
                }
                _ => sorted.texts.push("[a resource of a kind that is not known here]".to_owned()),
            },
            _ => sorted.texts.push("[something of a kind that is not known here]".to_owned()),
        }
    }
    sorted
}

fn named(link: &Resource) -> Value {
    let description = link.description.as_ref().map(|text| ("description", text));
    let said = [("uri", &link.uri), ("name", &link.name)].into_iter().chain(description);
    let fields = said.map(|(key, text)| (key.to_owned(), Value::from(to_plain_text(text.as_bytes()))));
    Value::Object(fields.collect())
}
