//! What a server answers, as a model is shown it: texts as one output with a bound, data as data, and files beside the
//! conversation.

use base64::{Engine, prelude::BASE64_STANDARD};
use rmcp::model::{CallToolResult, ContentBlock, Resource, ResourceContents};
use serde_json::{Map, Value, json};

use crate::{
    Body, Error, File, Host, Kept,
    kept::{Capture, plain},
};

/// Data that is longer than this when it is written out is shown as text, with its bound.
const MOST_DATA: usize = 16 * 1024;

/// Parts of an answer, by what becomes of them.
#[derive(Default)]
struct Sorted {
    texts: Vec<String>,
    files: Vec<(String, String)>,
    links: Vec<Value>,
}

pub(super) async fn answer(
    result: CallToolResult,
    (kept, tool): (&Kept, &str),
    host: &dyn Host,
) -> Result<Value, Error> {
    let failed = result.is_error == Some(true);
    let mut parts = sort(result.content);
    let mut answer = Map::new();
    if let Some(data) = result.structured_content {
        let written = data.to_string();
        // Servers send the same as text, for clients that know no data.
        parts.texts.retain(|text| serde_json::from_str::<Value>(text).ok().as_ref() != Some(&data));
        if written.len() <= MOST_DATA {
            answer.insert("data".to_owned(), data);
        } else {
            parts.texts.push(written);
        }
    }
    let text = parts.texts.join("\n");
    if failed {
        let mut shown = Map::new();
        told(&text, kept, &mut shown);
        let said = shown.get("output").and_then(Value::as_str).unwrap_or_default();
        let said = if said.is_empty() { "the server says that it failed, and not why" } else { said };
        answer.insert("error".to_owned(), said.into());
        return Ok(answer.into());
    }
    if !text.is_empty() || answer.is_empty() && parts.files.is_empty() && parts.links.is_empty() {
        told(&text, kept, &mut answer);
    }
    if !parts.links.is_empty() {
        answer.insert("links".to_owned(), parts.links.into());
    }
    let mut files = Vec::new();
    for (at, (mime_type, data)) in parts.files.into_iter().enumerate() {
        files.push(save(host, &format!("{tool}-{}", at + 1), mime_type, &data).await?);
    }
    if !files.is_empty() {
        answer.insert("files".to_owned(), files.into());
    }
    Ok(answer.into())
}

fn told(text: &str, kept: &Kept, answer: &mut Map<String, Value>) {
    let mut capture = Capture::new(kept.clone());
    capture.take(text.as_bytes());
    capture.finish().tell(answer);
}

/// Keeps a file beside the session, and names it.
async fn save(host: &dyn Host, name: &str, mime_type: String, data: &str) -> Result<Value, Error> {
    let Ok(bytes) = BASE64_STANDARD.decode(data) else {
        return Ok(json!({"mime_type": mime_type, "error": "what the server sent is no base64"}));
    };
    let extension = mime_type.split('/').nth(1).filter(|kind| kind.chars().all(char::is_alphanumeric));
    let name = format!("{name}.{}", extension.unwrap_or("bin"));
    let length = bytes.len();
    let file = File { mime_type: mime_type.clone(), body: Body::Bytes(bytes) };
    let version = host.save_artifact(name.clone(), file).await?;
    Ok(json!({"artifact": name, "version": version, "mime_type": mime_type, "bytes": length}))
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
    let plain = said.map(|(key, text)| (key.to_owned(), Value::from(plain(text.as_bytes()))));
    Value::Object(plain.collect())
}
