//! Quotes the events of other agents: as context, marked as data.

use crate::{
    content::{Content, Data, Part},
    model::ContentRef,
    notes::{FOREIGN_CONTEXT, Note},
};
use serde_json::{Map, Value};

/// Renders a content of another agent for this agent's request; `None` if nothing in it can be quoted.
pub(super) fn quote(author: &str, content: &Content) -> Option<ContentRef> {
    let mut parts = vec![Part::text(FOREIGN_CONTEXT)];
    let visible = content.parts.iter().filter(|part| !part.is_thought());
    parts.extend(visible.filter_map(|part| quote_part(author, part)));
    (parts.len() > 1).then(|| ContentRef::note(Note::ForeignContext, Content::new("user", parts)))
}

fn quote_part(author: &str, part: &Part) -> Option<Part> {
    match &part.data {
        Data::Text(text) if text.trim().is_empty() => None,
        Data::Text(text) => Some(Part::text(format!("{author} said: {}", Value::from(text.as_str())))),
        Data::FunctionCall(call) => {
            Some(Part::text(format!("{author} called {} with {}", call.name, to_json(call.args.as_ref()))))
        }
        Data::FunctionResponse(response) => {
            let answer = to_json(response.response.as_ref());
            Some(Part::text(format!("{} answered {author}: {answer}", response.name)))
        }
        Data::InlineData(_) | Data::FileData(_) => Some(Part { thought_signature: None, ..part.clone() }),
        Data::Unknown => None,
    }
}

fn to_json(map: Option<&Map<String, Value>>) -> String {
    map.map_or_else(|| "{}".to_owned(), |map| Value::Object(map.clone()).to_string())
}
