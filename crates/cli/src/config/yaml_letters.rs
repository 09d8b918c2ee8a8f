//! The letters `y` and `n` in YAML are strings, as for ADK's loader.
//!
//! PyYAML reads `yes`, `no`, `on`, `off`, `true` and `false` as booleans, and single letters as strings. `serde_saphyr` reads the
//! letters as booleans too, or none of the words.

use granit_parser::{Event, Parser, ScalarStyle};
use std::borrow::Cow;

/// Puts quotes around each plain scalar that is one of these letters. Text that does not parse is returned unchanged, so that
/// its error is reported with the right position.
pub(super) fn quote_letters(text: &str) -> Cow<'_, str> {
    let mut offsets = Vec::new();
    for event in Parser::new_from_str(text) {
        let Ok((event, span)) = event else { return text.into() };
        if let Event::Scalar(value, ScalarStyle::Plain, ..) = &event
            && matches!(value.as_ref(), "y" | "Y" | "n" | "N")
        {
            offsets.push(span.start.index());
        }
    }
    if offsets.is_empty() {
        return text.into();
    }
    let mut offsets = offsets.into_iter().peekable();
    let mut quoted = String::with_capacity(text.len() + 16);
    for (at, c) in text.chars().enumerate() {
        let is_letter = offsets.next_if_eq(&at).is_some();
        quoted.extend(is_letter.then_some('\''));
        quoted.push(c);
        quoted.extend(is_letter.then_some('\''));
    }
    quoted.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn load(yaml: &str) -> Value {
        serde_saphyr::from_str(&quote_letters(yaml)).unwrap()
    }

    /// The expected values are those of PyYAML 6.0.3.
    #[test]
    fn words_are_booleans_and_letters_are_strings() {
        let yaml = "[y, n, Y, N, yes, no, on, off, On, OFF, true, Yes, \"y\", 'n']";
        let expected =
            json!(["y", "n", "Y", "N", true, false, true, false, true, false, true, true, "y", "n"]);
        assert_eq!(load(yaml), expected);
        let yaml = "properties:\n  x: {type: integer}\n  y: {type: integer} # ä\nrequired:\n- x\n- y\nn: n\n";
        let expected = json!({
            "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}},
            "required": ["x", "y"],
            "n": "n",
        });
        assert_eq!(load(yaml), expected);
    }

    #[test]
    fn letters_inside_other_scalars_are_not_changed() {
        let yaml = "a: |\n  - y\n  n\nb: x y\nc: >\n  y\nd: 'y: n'\n";
        assert_eq!(quote_letters(yaml), yaml);
        assert_eq!(quote_letters("größe: [ä, n]"), "größe: [ä, 'n']");
        assert_eq!(quote_letters("a: [y"), "a: [y");
    }
}
