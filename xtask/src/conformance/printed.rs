//! Texts in which the canned model prints a tool response: Python prints a dict, we print JSON with the same values.
//!
//! Streamed text is split at blanks, which are at different positions in the two, so the chunks are joined before comparison.

use super::rules;
use serde_json::{Value, json};
use std::{iter::Peekable, str::Chars};

const OPENING: &str = " said: {";

/// The text before the dict, and the dict; `None` for a text without a dict.
pub(super) fn read(text: &str) -> Option<Value> {
    let (before, dict) = text.split_at(text.find(OPENING)? + OPENING.len() - 1);
    let value: Value = serde_json::from_str(dict).or_else(|_| serde_json::from_str(&to_json(dict))).ok()?;
    Some(json!({"text": before, "printed": value}))
}

fn to_json(python: &str) -> String {
    let mut json = String::with_capacity(python.len());
    let mut rest = python.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\'' | '"' => json.push_str(&Value::from(quoted(&mut rest, c)).to_string()),
            'A'..='Z' => json.push_str(word(&mut rest, c)),
            _ => json.push(c),
        }
    }
    json
}

fn quoted(rest: &mut Peekable<Chars<'_>>, quote: char) -> String {
    let mut text = String::new();
    while let Some(c) = rest.next().filter(|c| *c != quote) {
        match c {
            '\\' => text.push(match rest.next() {
                Some('n') => '\n',
                Some('t') => '\t',
                Some(other) => other,
                None => c,
            }),
            _ => text.push(c),
        }
    }
    text
}

/// Converts `True`, `False` and `None`, the only words with a capital letter.
fn word(rest: &mut Peekable<Chars<'_>>, first: char) -> &'static str {
    while rest.next_if(char::is_ascii_lowercase).is_some() {}
    match first {
        'T' => "true",
        'F' => "false",
        _ => "null",
    }
}

/// Joins the streamed chunks of such a text if their events are equal otherwise.
pub(super) fn join(snapshot: &mut Value) {
    let Some(events) = snapshot.get_mut("body").and_then(Value::as_array_mut) else { return };
    let runs = events.chunk_by(|one, next| frame(one).is_some_and(|own| frame(next).as_ref() == Some(&own)));
    *events = runs.flat_map(|run| whole(run).map_or_else(|| run.to_vec(), |event| vec![event])).collect();
}

/// A partial text event without its text and time.
fn frame(event: &Value) -> Option<Value> {
    let is_chunk = event["partial"] == true && event["content"]["parts"].as_array()?.len() == 1;
    let mut frame = is_chunk.then(|| event.clone())?;
    *frame.pointer_mut("/content/parts/0/text")? = Value::Null;
    *frame.get_mut("timestamp")? = rules::normalized("", "timestamp", &event["timestamp"]);
    Some(frame)
}

fn whole(run: &[Value]) -> Option<Value> {
    let chunks = run.iter().map(|event| event["content"]["parts"][0]["text"].as_str());
    let text: String = chunks.collect::<Option<_>>()?;
    let mut event = run.first()?.clone();
    event["content"]["parts"][0]["text"] = text.as_str().into();
    text.contains(OPENING).then_some(event)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn python_dict_and_json_with_the_same_values_are_equal() {
        let python =
            read(r#"Tool a said: {'b': 'it is', "c'": "it's \\ \"x\"", 'd': [True, False, None, 1.5, {}]}"#);
        let json = read(r#"Tool a said: {"b":"it is","c'":"it's \\ \"x\"","d":[true,false,null,1.5,{}]}"#);
        assert!(python.is_some());
        assert_eq!(python, json);
        assert_ne!(read("Tool a said: {'b': 1}"), read("Tool c said: {'b': 1}"));
        assert_ne!(read("Tool a said: {'b': 1}"), read("Tool a said: {'b': '1'}"));
        for text in ["You said: hi", "Tool a said: {'b': ", "Tool a said: {'b': 1} and more"] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    fn stream(chunks: &[&str]) -> Value {
        let chunk = |text: &&str| json!({"content": {"parts": [{"text": text}]}, "partial": true, "id": "1", "timestamp": 1.7e9});
        json!({"body": chunks.iter().map(chunk).collect::<Vec<_>>()})
    }

    fn texts(mut snapshot: Value) -> Vec<String> {
        join(&mut snapshot);
        let events = snapshot["body"].as_array().unwrap();
        events.iter().map(|event| event["content"]["parts"][0]["text"].to_string()).collect()
    }

    #[test]
    fn only_chunks_of_a_printed_dict_are_joined() {
        assert_eq!(texts(stream(&["Tool", " a", " said:", " {'b':", " 1}"])), [r#""Tool a said: {'b': 1}""#]);
        assert_eq!(texts(stream(&["Hello", " you"])), [r#""Hello""#, r#"" you""#]);
    }

    #[test]
    fn chunk_that_differs_in_more_than_its_text_is_not_joined() {
        for (key, value) in [("id", json!("2")), ("partial", json!(false)), ("timestamp", json!("now"))] {
            let mut snapshot = stream(&["Tool", " a said: {'b':", " 1}"]);
            snapshot["body"][2][key] = value;
            assert_eq!(texts(snapshot).len(), 2, "{key}");
        }
    }
}
