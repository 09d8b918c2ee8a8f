//! Questions for input on the terminal: one line for each field.

use super::{RawKeyboard, read_line};
use crate::screen::{Style, one_line, printable};
use adk::input::{InputAnswer, InputRequest, choices};
use serde_json::{Map, Value, json};
use std::io::Write;

/// What a person types instead of a value.
const DECLINE: &str = "/decline";
const CANCEL: &str = "/cancel";

const HELP: &str = "/decline refuses to answer; Ctrl-C dismisses the question.";
const PASTED: &str = "Several lines were pasted; type or paste one line.";

/// The longest description of a field.
const MAX_ABOUT: usize = 400;

/// What a line means.
enum Typed {
    Text(String),
    Ended(InputAnswer),
}

/// Asks for each field, and then whether to send several of them. The end of input dismisses the question.
pub(super) async fn ask(
    request: &InputRequest,
    out: &mut (dyn Write + Send),
    style: Style,
) -> anyhow::Result<InputAnswer> {
    writeln!(out, "{}\n{}", style.bold(printable(&request.message)), style.dim(HELP))?;
    let mut keyboard = RawKeyboard::open()?;
    RawKeyboard::discard_input()?;
    let mut content = Map::new();
    let fields: Vec<(&str, &Value)> = request.fields().collect();
    for (name, schema) in &fields {
        let is_required = request.is_required(name);
        loop {
            let typed;
            (keyboard, typed) = read(keyboard, out, &label(name, schema, is_required)).await?;
            let text = match typed {
                Typed::Text(text) => text,
                Typed::Ended(answer) => return Ok(answer),
            };
            if text.is_empty() && (!is_required || schema.get("default").is_some()) {
                break;
            }
            match parse(name, schema, &text) {
                Ok(value) => {
                    content.insert((*name).to_owned(), value);
                    break;
                }
                Err(why) => writeln!(out, "{}", style.dim(printable(&why)))?,
            }
        }
    }
    // The only value was sent with Enter.
    if fields.len() != 1 {
        let (_, typed) = read(keyboard, out, "Enter sends the answer").await?;
        if let Typed::Ended(answer) = typed {
            return Ok(answer);
        }
    }
    request.parse_answer(&content).map_err(|why| anyhow::anyhow!("the question cannot be answered: {why}"))
}

/// Reads one line. Values are trimmed.
async fn read(
    mut keyboard: RawKeyboard,
    out: &mut (dyn Write + Send),
    label: &str,
) -> anyhow::Result<(RawKeyboard, Typed)> {
    loop {
        write!(out, "{label} › ")?;
        out.flush()?;
        let line;
        (keyboard, line) = read_line(keyboard, out).await?;
        writeln!(out)?;
        let typed = match line {
            None => Typed::Ended(InputAnswer::Cancel),
            Some(line) if line.is_burst => {
                writeln!(out, "{PASTED}")?;
                continue;
            }
            Some(line) => match line.text.trim() {
                DECLINE => Typed::Ended(InputAnswer::Decline),
                CANCEL => Typed::Ended(InputAnswer::Cancel),
                text => Typed::Text(text.to_owned()),
            },
        };
        return Ok((keyboard, typed));
    }
}

/// The value of one field.
fn parse(name: &str, schema: &Value, text: &str) -> Result<Value, String> {
    let schema = json!({"type": "object", "properties": {name: schema}, "required": [name]});
    let request = InputRequest { schema, ..InputRequest::default() };
    match request.parse_answer(&Map::from_iter([(name.to_owned(), text.into())])) {
        Ok(InputAnswer::Accept(mut content)) => Ok(content.shift_remove(name).unwrap_or_default()),
        Ok(InputAnswer::Decline | InputAnswer::Cancel) => Err("no value".to_owned()),
        Err(why) => Err(why),
    }
}

/// The name of a field with what the server says about it.
fn label(name: &str, schema: &Value, is_required: bool) -> String {
    let text = |key: &str| schema.get(key).and_then(Value::as_str).map(str::to_owned);
    let items = schema.get("items");
    let mut options = choices(schema);
    options.extend(items.map(choices).unwrap_or_default());
    let options: Vec<String> = options
        .into_iter()
        .map(|(value, title)| if value == title { value } else { format!("{value} = {title}") })
        .collect();
    let kind = match schema.get("type").and_then(Value::as_str) {
        Some("boolean") => Some("yes or no".to_owned()),
        Some("integer") => Some("a whole number".to_owned()),
        Some("number") => Some("a number".to_owned()),
        Some("array") => Some(format!("some of: {}; separated by commas", options.join(", "))),
        _ if !options.is_empty() => Some(format!("one of: {}", options.join(", "))),
        _ => text("format"),
    };
    let about: Vec<String> = [text("title"), text("description"), kind].into_iter().flatten().collect();
    let about = if about.is_empty() { String::new() } else { format!("({})", about.join("; ")) };
    let default = schema.get("default").map(|default| match default {
        Value::String(text) => format!("[{text}]"),
        other => format!("[{other}]"),
    });
    let optional = if is_required { "" } else { "[optional]" };
    let default = default.unwrap_or_else(|| optional.to_owned());
    let parts = [one_line(name, 80), one_line(&about, MAX_ABOUT), one_line(&default, 80)];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_has_the_type_the_choices_and_the_default() {
        let titled = json!([{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]);
        let labels: Vec<String> = [
            json!({"type": "string"}),
            json!({"type": "string", "title": "Name", "description": "Who?\u{1b}[2J\nx", "default": "Ann"}),
            json!({"type": "string", "format": "email"}),
            json!({"type": "integer", "default": 3}),
            json!({"type": "boolean"}),
            json!({"type": "string", "enum": ["a", "b"]}),
            json!({"type": "string", "oneOf": titled}),
            json!({"type": "array", "items": {"anyOf": titled}}),
        ]
        .iter()
        .map(|schema| label("it", schema, schema.get("format").is_none()))
        .collect();
        insta::assert_snapshot!(labels.join("\n"), @"
        it
        it (Name; Who?�[2J x) [Ann]
        it (email) [optional]
        it (a whole number) [3]
        it (yes or no)
        it (one of: a, b)
        it (one of: r = Red, g = Green)
        it (some of: r = Red, g = Green; separated by commas)
        ");
    }

    #[test]
    fn one_field_is_validated_alone() {
        let integer = json!({"type": "integer", "minimum": 1});
        assert_eq!(parse("n", &integer, "7"), Ok(json!(7)));
        assert!(parse("n", &integer, "0").is_err() && parse("n", &integer, "x").is_err());
    }
}
