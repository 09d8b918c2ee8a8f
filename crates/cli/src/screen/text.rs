//! Foreign text made harmless: nothing that a model, a tool or a file says can steer the terminal.

use adk::{content::Part, pending::REQUEST_CONFIRMATION};
use serde::Serialize;
use serde_json::{Map, Value};
use std::fmt::Write;

/// Text without what could steer a terminal or turn its direction around. Line ends of other systems become ours.
pub(crate) fn printable(text: &str) -> String {
    let harmless =
        |letter: char| !letter.is_control() && !turns_around(letter) || matches!(letter, '\n' | '\t');
    let letters = text.chars().filter(|letter| *letter != '\r');
    letters.map(|letter| if harmless(letter) { letter } else { '\u{fffd}' }).collect()
}

/// Marks that make a text look as if it said something else.
fn turns_around(letter: char) -> bool {
    matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// One line of at most so many letters.
pub(crate) fn one_line(text: &str, most: usize) -> String {
    let line = printable(text).split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= most {
        return line;
    }
    let head: String = line.chars().take(most.saturating_sub(1)).collect();
    format!("{head}…")
}

/// A call or its answer in a line; `None` for anything else.
pub(crate) fn glimpse(part: &Part, most: usize) -> Option<String> {
    if let Some(call) = part.call() {
        let line = match question(&call.name, call.args.as_ref()) {
            Some(asked) => format!("? {asked}"),
            None => format!("→ {} {}", call.name, object(call.args.as_ref())),
        };
        return Some(one_line(&line, most));
    }
    let response = part.response()?;
    Some(one_line(&format!("← {} {}", name(&response.name), object(response.response.as_ref())), most))
}

/// The call that a person is asked about.
fn question(asking: &str, args: Option<&Map<String, Value>>) -> Option<String> {
    let asked = args.filter(|_| asking == REQUEST_CONFIRMATION)?.get("originalFunctionCall")?;
    let name = asked.get("name").and_then(Value::as_str).unwrap_or_default();
    Some(may_it_run(name, asked.get("args").and_then(Value::as_object)))
}

/// The question whether a call may run, without the way to answer it.
pub(crate) fn may_it_run(name: &str, args: Option<&Map<String, Value>>) -> String {
    one_line(&format!("May {name} run with {}?", object(args)), 400)
}

fn name(name: &str) -> &str {
    if name == REQUEST_CONFIRMATION { "answer" } else { name }
}

fn object(fields: Option<&Map<String, Value>>) -> String {
    fields.and_then(|fields| serde_json::to_string(fields).ok()).unwrap_or_else(|| "{}".to_owned())
}

/// JSON in one line.
pub(crate) fn json(value: &impl Serialize) -> serde_json::Result<String> {
    serde_json::to_string(value).map(without_controls)
}

/// JSON in many lines.
pub(crate) fn json_pretty(value: &impl Serialize) -> serde_json::Result<String> {
    serde_json::to_string_pretty(value).map(without_controls)
}

/// What JSON lets through and a terminal obeys is escaped; but for line ends it can only be inside a string.
fn without_controls(json: String) -> String {
    let obeyed = |letter: char| letter.is_control() && letter != '\n';
    if !json.contains(obeyed) {
        return json;
    }
    let mut safe = String::with_capacity(json.len() + 16);
    for letter in json.chars() {
        if obeyed(letter) {
            // Writing to a String does not fail.
            let _ = write!(safe, "\\u{:04x}", u32::from(letter));
        } else {
            safe.push(letter);
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
    fn text_cannot_be_turned_around() {
        assert_eq!(printable("a\u{202e}txt.exe"), "a\u{fffd}txt.exe");
    }

    #[test]
    fn line_ends_of_other_systems_are_line_ends() {
        assert_eq!(printable("one\r\ntwo\r\n"), "one\ntwo\n");
    }

    #[test]
    fn a_long_text_is_cut_to_one_line() {
        assert_eq!(one_line("one\ntwo  three", 100), "one two three");
        assert_eq!(one_line("abcdef", 4), "abc…");
    }

    #[test]
    fn json_says_the_same_without_what_a_terminal_obeys() {
        let said = json(&"a\u{9b}31m\u{1b}[0m\u{7f}").unwrap();
        assert_eq!(said, r#""a\u009b31m\u001b[0m\u007f""#);
        assert_eq!(serde_json::from_str::<String>(&said).unwrap(), "a\u{9b}31m\u{1b}[0m\u{7f}");
    }
}
