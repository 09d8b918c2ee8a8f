//! The sources that an answer cites, in the shape of Gemini's `citationMetadata`.

use crate::AnswerMetadata;
use serde::Serialize;
use serde_json::{Map, Value, json};

/// The field of an answer's metadata that contains the citations.
pub(crate) const CITATION_METADATA: &str = "citationMetadata";

/// The maximum number of citations of one answer. The log keeps each of them.
const MAX_CITATIONS: usize = 256;

/// A source, and the range of the answer that cites it if the provider reports one.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Citation {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) start_index: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) end_index: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) uri: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) title: Option<String>,
}

/// The citations of one answer, each once.
#[derive(Debug, Default)]
pub(crate) struct Citations(Vec<Citation>);

impl Citations {
    /// Adds a citation that names its source.
    pub(crate) fn add(&mut self, citation: Citation) {
        let is_named = citation.uri.is_some() || citation.title.is_some();
        if is_named && self.0.len() < MAX_CITATIONS && !self.0.contains(&citation) {
            self.0.push(citation);
        }
    }

    /// Adds the annotations of OpenAI's formats. Chat completions nest the fields in `url_citation`.
    pub(crate) fn add_annotations<'a>(&mut self, annotations: impl IntoIterator<Item = &'a Value>) {
        for annotation in annotations {
            let fields = annotation.get("url_citation").unwrap_or(annotation);
            self.add(Citation {
                start_index: fields.get("start_index").and_then(Value::as_u64),
                end_index: fields.get("end_index").and_then(Value::as_u64),
                uri: text(fields, &["url", "uri"]),
                title: text(fields, &["title", "filename"]),
            });
        }
    }

    /// Adds sources without a range: objects, or their addresses only.
    pub(crate) fn add_sources<'a>(&mut self, sources: impl IntoIterator<Item = &'a Value>) {
        for source in sources {
            let uri = source.as_str().map(str::to_owned).or_else(|| text(source, &["url", "uri", "link"]));
            let is_known = uri.is_some() && self.0.iter().any(|known| known.uri == uri);
            if !is_known {
                self.add(Citation { uri, title: text(source, &["title"]), ..Citation::default() });
            }
        }
    }

    /// Adds a citation of Anthropic. Its indexes refer to the source and not to the answer.
    pub(crate) fn add_anthropic(&mut self, citation: &Value) {
        let (uri, title) = (text(citation, &["url", "source"]), text(citation, &["title", "document_title"]));
        self.add(Citation { uri, title, ..Citation::default() });
    }

    /// The metadata of the answer.
    pub(crate) fn take_metadata(&mut self) -> Box<AnswerMetadata> {
        let citations = std::mem::take(&mut self.0);
        let metadata = || (CITATION_METADATA.to_owned(), json!({"citations": citations}));
        let fields: Map<String, Value> = (!citations.is_empty()).then(metadata).into_iter().collect();
        Box::new(AnswerMetadata { fields, ..AnswerMetadata::default() })
    }
}

/// The first of the fields that has a text.
fn text(fields: &Value, keys: &[&str]) -> Option<String> {
    let mut texts = keys.iter().filter_map(|key| fields.get(key)?.as_str());
    texts.find(|text| !text.trim().is_empty()).map(str::to_owned)
}
