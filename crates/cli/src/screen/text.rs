//! Sanitizing: text of models, tools and files cannot control the terminal.

use adk::{content::Part, input::REQUEST_INPUT, pending::is_question_name};
use serde::Serialize;
use serde_json::{Map, Value};
use std::fmt::Write;
use visible_text::{Shown, classify};

/// Replaces control characters, except line feeds and tabs, and shows invisible characters as `<U+200B>`. Removes carriage returns.
pub(crate) fn printable(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for (c, shown) in classify(text).filter(|(c, _)| *c != '\r') {
        // Writing to a String does not fail.
        let _ = shown.write(c, &mut safe);
    }
    safe
}

/// One line of at most `max` characters.
pub(crate) fn one_line(text: &str, max: usize) -> String {
    let line = printable(text).split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= max {
        return line;
    }
    let head: String = line.chars().take(max.saturating_sub(1)).collect();
    format!("{head}…")
}

/// A call or its result in one line; `None` for other parts.
pub(crate) fn summarize_part(part: &Part, max: usize) -> Option<String> {
    if let Some(call) = part.call() {
        let line = match question(&call.name, call.args.as_ref()) {
            Some(question) => format!("? {question}"),
            None => format!("→ {} {}", call.name, object(call.args.as_ref())),
        };
        return Some(one_line(&line, max));
    }
    let response = part.response()?;
    Some(one_line(&format!("← {} {}", name(&response.name), object(response.response.as_ref())), max))
}

/// The question of a call that asks the user; `None` for other calls.
fn question(tool: &str, args: Option<&Map<String, Value>>) -> Option<String> {
    let args = args.filter(|_| is_question_name(tool))?;
    if tool == REQUEST_INPUT {
        return args.get("message").and_then(Value::as_str).map(str::to_owned);
    }
    let call = args.get("originalFunctionCall")?;
    let name = call.get("name").and_then(Value::as_str).unwrap_or_default();
    Some(approval_question(name, call.get("args").and_then(Value::as_object)))
}

/// The question whether a call may run, without the choices.
pub(crate) fn approval_question(name: &str, args: Option<&Map<String, Value>>) -> String {
    one_line(&format!("May {name} run with {}?", object(args)), 400)
}

fn name(name: &str) -> &str {
    if is_question_name(name) { "answer" } else { name }
}

fn object(fields: Option<&Map<String, Value>>) -> String {
    fields.and_then(|fields| serde_json::to_string(fields).ok()).unwrap_or_else(|| "{}".to_owned())
}

/// JSON in one line.
pub(crate) fn json(value: &impl Serialize) -> serde_json::Result<String> {
    serde_json::to_string(value).map(escape_controls)
}

/// Indented JSON.
pub(crate) fn json_pretty(value: &impl Serialize) -> serde_json::Result<String> {
    serde_json::to_string_pretty(value).map(escape_controls)
}

/// Escapes the control and invisible characters that JSON allows unescaped. Except for line feeds, they occur only inside strings.
fn escape_controls(json: String) -> String {
    let is_escaped = |(c, shown): (char, Shown)| shown == Shown::Escaped || c.is_control() && c != '\n';
    if json.is_ascii() && !json.contains('\u{7f}') || !classify(&json).any(is_escaped) {
        return json;
    }
    let mut safe = String::with_capacity(json.len() + 16);
    for (c, shown) in classify(&json) {
        if is_escaped((c, shown)) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                // Writing to a String does not fail.
                let _ = write!(safe, "\\u{unit:04x}");
            }
        } else {
            safe.push(c);
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_do_not_reach_the_terminal() {
        assert_eq!(
            printable("a\u{1b}]0;title\u{7}b\tc\nd\u{9b}31m"),
            "a\u{fffd}]0;title\u{fffd}b\tc\nd\u{fffd}31m"
        );
    }

    #[test]
    fn invisible_characters_are_shown_as_escapes() {
        assert_eq!(printable("ok\u{e0049}\u{202e}\u{200b}"), "ok<U+E0049><U+202E><U+200B>");
    }

    #[test]
    fn crlf_becomes_lf() {
        assert_eq!(printable("one\r\ntwo\r\n"), "one\ntwo\n");
    }

    #[test]
    fn long_text_is_truncated_to_one_line() {
        assert_eq!(one_line("one\ntwo  three", 100), "one two three");
        assert_eq!(one_line("abcdef", 4), "abc…");
    }

    #[test]
    fn json_escapes_terminal_controls_without_changing_the_value() {
        let escaped = json(&"a\u{9b}31m\u{1b}[0m\u{7f}").unwrap();
        assert_eq!(escaped, r#""a\u009b31m\u001b[0m\u007f""#);
        assert_eq!(serde_json::from_str::<String>(&escaped).unwrap(), "a\u{9b}31m\u{1b}[0m\u{7f}");
        let invisible = "\u{e9}\u{e0041}\u{202e}\u{1f469}\u{200d}\u{1f467}";
        let escaped = json(&invisible).unwrap();
        assert_eq!(escaped, "\"\u{e9}\\udb40\\udc41\\u202e\u{1f469}\u{200d}\u{1f467}\"");
        assert_eq!(serde_json::from_str::<String>(&escaped).unwrap(), invisible);
    }
}
