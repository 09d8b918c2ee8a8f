//! Joins surrogate pairs that a server splits over two frames as JSON escapes.

use std::borrow::Cow;

/// The escapes of one stream. A high surrogate at the end of a delta is withheld until its low surrogate arrives in a
/// later frame.
#[derive(Debug, Default)]
pub(super) struct SurrogateJoiner {
    /// The escape of a high surrogate without its low one.
    pending: Option<String>,
}

const REPLACEMENT: &str = "\\ufffd";

impl SurrogateJoiner {
    /// Replaces the unpaired surrogate escapes in a JSON text, which no JSON parser accepts.
    pub(super) fn join<'a>(&mut self, json: &'a str) -> Cow<'a, str> {
        let mut joined = String::new();
        let (mut at, mut copied) = (0, 0);
        while let Some(found) = json[at..].find('\\') {
            let start = at + found;
            let Some(unit) = escaped_unit(&json[start..]) else {
                // The escaped character may have several bytes, but the first of them is enough to skip a backslash.
                at = start + 1 + usize::from(json[start + 1..].starts_with(['\\', '"', 'u']));
                continue;
            };
            at = start + 6;
            let is_high = (0xd800..0xdc00).contains(&unit);
            let is_low = (0xdc00..0xe000).contains(&unit);
            let paired =
                is_high && escaped_unit(&json[at..]).is_some_and(|next| (0xdc00..0xe000).contains(&next));
            if paired {
                at += 6;
            } else if is_high || is_low {
                joined.push_str(&json[copied..start]);
                joined.push_str(&self.replace(is_high, &json[start..at]));
                copied = at;
            }
        }
        if copied == 0 {
            return json.into();
        }
        joined.push_str(&json[copied..]);
        joined.into()
    }

    fn replace(&mut self, is_high: bool, escape: &str) -> String {
        match (self.pending.take(), is_high) {
            (None, true) => {
                self.pending = Some(escape.to_owned());
                String::new()
            }
            (Some(_), true) => {
                self.pending = Some(escape.to_owned());
                REPLACEMENT.to_owned()
            }
            (Some(high), false) => high + escape,
            (None, false) => REPLACEMENT.to_owned(),
        }
    }
}

/// The code unit of a `\uXXXX` escape at the start of a text.
fn escaped_unit(text: &str) -> Option<u16> {
    u16::from_str_radix(text.strip_prefix("\\u")?.get(..4)?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(frames: &[&str]) -> String {
        let mut joiner = SurrogateJoiner::default();
        let frames = frames.iter().map(|frame| joiner.join(frame).into_owned());
        frames.map(|frame| serde_json::from_str::<String>(&frame).unwrap()).collect()
    }

    #[test]
    fn split_pair_is_joined() {
        assert_eq!(texts(&[r#""a\ud83c""#, r#""\udf0d b""#]), "a🌍 b");
        assert_eq!(texts(&[r#""a\ud83c""#, r#""""#, r#""\udf0d""#]), "a🌍");
    }

    #[test]
    fn whole_pairs_and_escaped_backslashes_are_unchanged() {
        for text in [r#""\ud83c\udf0d""#, r#""\\ud83c""#, r#""\n\"\u00e4""#, r#""plain""#] {
            assert!(matches!(SurrogateJoiner::default().join(text), Cow::Borrowed(_)), "{text}");
        }
    }

    #[test]
    fn unpaired_surrogate_is_replaced() {
        assert_eq!(texts(&[r#""\udf0d""#]), "\u{fffd}");
        assert_eq!(texts(&[r#""\ud83c""#, r#""\ud83c""#, r#""\udf0d""#]), "\u{fffd}🌍");
    }
}
