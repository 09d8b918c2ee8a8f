//! The searchable text of a message: what people and models wrote, and the strings in the arguments and results of calls.
//! JSON syntax, ids and signatures are not part of it.

use super::segment;
use crate::{SessionMessage, ToolCall};
use serde_json::Value;
use std::{collections::HashSet, fmt::Write};

/// The indexed beginning and end of the arguments or the result of one call: most of a large output is never searched for, and
/// would be most of the index.
const CALL_HEAD: usize = 8 * 1024;
const CALL_TAIL: usize = 2 * 1024;
/// The indexed beginning and end of a message.
const TEXT_HEAD: usize = 1024 * 1024;
const TEXT_TAIL: usize = 64 * 1024;
/// A longer text becomes several documents: a document that contains everything matches every query.
const DOCUMENT_BYTES: usize = 8 * 1024;

/// A part of a message as the index stores it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Document {
    /// The distinct terms, separated by spaces.
    pub(crate) terms: String,
    pub(crate) len: usize,
    /// The position among the documents of its message.
    pub(crate) part: usize,
}

impl Document {
    fn of(part: usize, text: &str) -> Self {
        let mut seen = HashSet::new();
        let mut terms = String::with_capacity(text.len());
        segment::for_each_term(text, |term, _| {
            if seen.contains(term) {
                return;
            }
            seen.insert(term.to_owned());
            if !terms.is_empty() {
                terms.push(' ');
            }
            terms.push_str(term);
        });
        Self { terms, len: seen.len(), part }
    }
}

/// The documents of a message; none if it has no text.
pub(crate) fn documents(message: &SessionMessage) -> Vec<Document> {
    let text = text(message);
    let documents = pieces(&text).into_iter().enumerate().map(|(part, piece)| Document::of(part, piece));
    documents.filter(|document| document.len > 0).collect()
}

/// The text of one of the documents of a message.
pub(crate) fn part_text(message: &SessionMessage, part: usize) -> String {
    let text = text(message);
    pieces(&text).get(part).copied().unwrap_or_default().to_owned()
}

/// Cuts a text at spaces into pieces of limited size.
fn pieces(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while rest.len() > DOCUMENT_BYTES {
        let end = rest.floor_char_boundary(DOCUMENT_BYTES);
        let at_space = rest[..end].rfind(char::is_whitespace).filter(|at| *at > DOCUMENT_BYTES / 2);
        let (piece, next) = rest.split_at(at_space.unwrap_or(end));
        pieces.push(piece);
        rest = next;
    }
    pieces.push(rest);
    pieces
}

/// The searchable text of a message.
pub(crate) fn text(message: &SessionMessage) -> String {
    let mut text = String::new();
    push_bounded(&mut text, &own_text(message), (TEXT_HEAD, TEXT_TAIL));
    for call in &message.tool_calls {
        text.push('\n');
        text.push_str(&call.name);
        for json in [&call.input, &call.output] {
            if !json.is_empty() {
                text.push('\n');
                push_bounded(&mut text, &leaf_text(json), (CALL_HEAD, CALL_TAIL));
            }
        }
    }
    text
}

/// The content without the results, which it repeats as JSON.
fn own_text(message: &SessionMessage) -> String {
    let outputs = message.tool_calls.iter().filter(|call| call.is_response());
    let mut text = message.content.clone();
    for ToolCall { output, .. } in outputs {
        if let Some(at) = text.find(output.as_str()) {
            text.replace_range(at..at + output.len(), "\n");
        }
    }
    text
}

/// The strings and numbers of a JSON text, one per line. Other text is returned as it is.
fn leaf_text(json: &str) -> String {
    fn push(value: &Value, text: &mut String) {
        match value {
            Value::Null | Value::Bool(_) => {}
            Value::Number(number) => {
                let _ = writeln!(text, "{number}");
            }
            Value::String(string) => {
                text.push_str(string);
                text.push('\n');
            }
            Value::Array(items) => items.iter().for_each(|item| push(item, text)),
            Value::Object(fields) => fields.values().for_each(|field| push(field, text)),
        }
    }
    let Ok(value) = serde_json::from_str::<Value>(json) else { return json.to_owned() };
    let mut text = String::new();
    push(&value, &mut text);
    text
}

fn push_bounded(target: &mut String, text: &str, (head, tail): (usize, usize)) {
    if text.len() <= head + tail {
        target.push_str(text);
        return;
    }
    target.push_str(&text[..text.floor_char_boundary(head)]);
    target.push('\n');
    target.push_str(&text[text.ceil_char_boundary(text.len() - tail)..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(content: &str, tool_calls: Vec<ToolCall>) -> SessionMessage {
        SessionMessage { content: content.into(), tool_calls, ..SessionMessage::default() }
    }

    fn terms(message: &SessionMessage) -> Vec<String> {
        documents(message).into_iter().map(|document| document.terms).collect()
    }

    #[test]
    fn calls_are_searched_by_name_and_leaf_values() {
        let input = r#"{"path":"src/main.rs","lines":[1,2],"all":true,"none":null}"#.to_owned();
        let call = ToolCall { id: "call_9".into(), name: "readFile".into(), input, ..ToolCall::default() };
        assert_eq!(terms(&message("", vec![call])), ["read file readfile src main rs mainrs 1 2"]);
    }

    #[test]
    fn a_result_is_indexed_once_and_without_its_json() {
        let output = r#"{"text":"a \"quoted\" word"}"#.to_owned();
        let content = format!("before {output}");
        let call = ToolCall { name: "t".into(), output, ..ToolCall::default() };
        assert_eq!(text(&message(&content, vec![call])), "before \n\nt\na \"quoted\" word\n");
    }

    #[test]
    fn the_middle_of_a_large_result_is_not_indexed() {
        let output =
            serde_json::to_string(&format!("first {} middle {} last", "x ".repeat(9000), "y ".repeat(9000)))
                .unwrap();
        let call = ToolCall { name: "t".into(), output, ..ToolCall::default() };
        let all = terms(&message("", vec![call])).join(" ");
        assert!(all.contains("first") && all.contains("last") && !all.contains("middle"), "{all}");
    }

    #[test]
    fn a_long_message_becomes_several_documents() {
        let content = (0..6000).map(|n| format!("word{n}")).collect::<Vec<_>>().join(" ");
        let documents = documents(&message(&content, Vec::new()));
        assert!(documents.len() > 4);
        let all: HashSet<&str> = documents.iter().flat_map(|document| document.terms.split(' ')).collect();
        assert!((0..6000).all(|n| all.contains(format!("word{n}").as_str())));
    }
}
