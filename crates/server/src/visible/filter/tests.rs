//! Tests of the filter: every split of a text gives the same bytes.

use super::*;
use serde_json::{Value, json};

fn in_chunks(syntax: TextSyntax, chunks: &[&[u8]]) -> Vec<u8> {
    let mut filter = VisibleFilter::new(syntax);
    let mut out: Vec<u8> =
        chunks.iter().flat_map(|chunk| filter.push(Bytes::copy_from_slice(chunk))).collect();
    out.extend(filter.finish());
    out
}

/// The output for a text in one chunk, in two at every position, and byte by byte.
#[track_caller]
fn shown(syntax: TextSyntax, text: &[u8]) -> String {
    let whole = in_chunks(syntax, &[text]);
    for at in 0..=text.len() {
        let (begin, end) = text.split_at(at);
        assert_eq!(in_chunks(syntax, &[begin, end]), whole, "split at {at}");
    }
    assert_eq!(in_chunks(syntax, &text.chunks(1).collect::<Vec<_>>()), whole, "byte by byte");
    String::from_utf8_lossy(&whole).into_owned()
}

#[test]
fn characters_and_json_escapes_are_shown_in_keys_and_values() {
    for (json, expected) in [
        ("{\"k\u{e0041}\":\"v\u{e0042}\"}", r#"{"k<U+E0041>":"v<U+E0042>"}"#),
        (r#"{"k\udb40\udc41":"v\uDB40\uDC42"}"#, r#"{"k<U+E0041>":"v<U+E0042>"}"#),
        (r#"["\u200b\u202e\u00ad\ufeff"]"#, r#"["<U+200B><U+202E><U+00AD><U+FEFF>"]"#),
        (r#"["\u001b[0m\u007f\b"]"#, "[\"\u{fffd}[0m\u{fffd}\u{fffd}\"]"),
        // The text `\u200b`, whose backslash is visible.
        (r#"["\\u200b","\\\u200b"]"#, r#"["\\u200b","\\<U+200B>"]"#),
        (r#"["\n\t\"\/\u0041\u00e9"]"#, r#"["\n\t\"\/\u0041\u00e9"]"#),
        // Lone surrogates and invalid escapes stay as they are.
        (r#"["\ud800\udb40x\udc41\udb40\u0041\uzzzz"]"#, r#"["\ud800\udb40x\udc41\udb40\u0041\uzzzz"]"#),
        (r#"["\udb40"#, r#"["\udb40"#),
        (r#"["\udb40\udc"#, r#"["\udb40\udc"#),
        ("[\"\\", "[\"\\"),
    ] {
        assert_eq!(shown(TextSyntax::Json, json.as_bytes()), expected, "{json}");
    }
}

#[test]
fn joiners_are_kept_between_characters_that_they_join() {
    for (json, expected) in [
        ("[\"\u{1f469}\u{200d}\u{1f467}\"]", "[\"\u{1f469}\u{200d}\u{1f467}\"]"),
        (r#"["\ud83d\udc69\u200d\ud83d\udc67"]"#, r#"["\ud83d\udc69\u200d\ud83d\udc67"]"#),
        ("[\"a\u{200d}b\"]", "[\"a<U+200D>b\"]"),
        ("[\"\u{e9}\u{200d}\\u200d\u{e9}\"]", "[\"\u{e9}<U+200D><U+200D>\u{e9}\"]"),
        // The ends of a string are the ends of the text, which may continue in the next event.
        ("[\"\u{1f469}\u{200d}\",\"\u{200d}\u{1f467}\"]", "[\"\u{1f469}\u{200d}\",\"\u{200d}\u{1f467}\"]"),
        ("[\"a\u{200d}\",\"\u{200c}b\"]", "[\"a<U+200D>\",\"<U+200C>b\"]"),
    ] {
        assert_eq!(shown(TextSyntax::Json, json.as_bytes()), expected, "{json}");
    }
}

#[test]
fn events_of_a_stream_are_json() {
    let text = "id: 3\ndata: {\"text\":\"a\u{e0041}\\u200b\"}\n\n: keep-alive\n\ndata: {}\n\n";
    let expected = "id: 3\ndata: {\"text\":\"a<U+E0041><U+200B>\"}\n\n: keep-alive\n\ndata: {}\n\n";
    assert_eq!(shown(TextSyntax::Json, text.as_bytes()), expected);
}

#[test]
fn plain_text_has_no_escapes_and_html_escapes_angle_brackets() {
    assert_eq!(shown(TextSyntax::Plain, "\"\\u200b\u{200b}".as_bytes()), "\"\\u200b<U+200B>");
    assert_eq!(shown(TextSyntax::Html, "<b>\u{200b}</b>".as_bytes()), "<b>&lt;U+200B&gt;</b>");
}

#[test]
fn bytes_that_are_not_utf8_stay_as_they_are() {
    let bytes = b"\"\xff\xe2\x80\xc3(\xf3\xa0\x81".as_slice();
    shown(TextSyntax::Json, bytes);
    assert_eq!(in_chunks(TextSyntax::Json, &[bytes]), bytes);
}

#[test]
fn unchanged_chunks_are_not_copied() {
    let mut filter = VisibleFilter::new(TextSyntax::Json);
    for text in [r#"{"a":"b"}"#, r#"{"a":"\n\u00e9 \"x\""}"#, "{\"\u{1f600}\":1}"] {
        let chunk = Bytes::from(text);
        assert_eq!(filter.push(chunk.clone()).as_ptr(), chunk.as_ptr(), "{text}");
    }
}

/// The text as the terminal shows it, in all strings.
fn expected(value: &Value) -> Value {
    let text = |text: &str| visible_text(text).unwrap_or_else(|| text.to_owned());
    match value {
        Value::String(string) => text(string).into(),
        Value::Array(items) => items.iter().map(expected).collect(),
        Value::Object(map) => map.iter().map(|(key, value)| (text(key), expected(value))).collect(),
        other => other.clone(),
    }
}

#[test]
fn the_result_is_json_with_the_text_that_a_terminal_shows() {
    let hidden: Vec<char> = ('\0'..='\u{10ffff}')
        .filter(|c| Shown::decide(Some('a'), *c, Some('b')) != Shown::Unchanged)
        .collect();
    for c in hidden.iter().copied().chain("\"\\/\u{e9}\u{1f469}\u{2028}".chars()) {
        let text = format!("a{c}b\u{1f469}{c}\u{1f467}\"{c}\\{c}{c}");
        let value = json!({ &text: [text, {"n": 1.5, &text: null}] });
        let escaped: String = value.to_string().chars().map(escape_all).collect();
        for json in [value.to_string(), serde_json::to_string_pretty(&value).unwrap(), escaped] {
            let out = in_chunks(TextSyntax::Json, &json.as_bytes().chunks(3).collect::<Vec<_>>());
            assert_eq!(
                serde_json::from_slice::<Value>(&out).unwrap(),
                expected(&value),
                "U+{:04X}",
                c as u32
            );
        }
    }
}

/// Characters beyond ASCII as JSON escapes.
fn escape_all(c: char) -> String {
    if c.is_ascii() {
        return c.to_string();
    }
    c.encode_utf16(&mut [0; 2]).iter().fold(String::new(), |all, unit| format!("{all}\\u{unit:04x}"))
}
