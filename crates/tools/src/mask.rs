//! Secrets of the configuration, taken out of what tools say before anybody stores or shows it.

use std::{
    borrow::Cow,
    fmt,
    sync::{Arc, OnceLock},
};

use regex::bytes::{Regex, RegexBuilder};
use serde_json::{Map, Value};

/// What stands where a secret was.
const MASKED: &str = "[masked]";
/// What is shorter is in too many texts to be a secret.
const SHORTEST: usize = 8;

/// The secrets to look for. It never prints them.
#[derive(Clone, Default)]
pub struct Mask(Option<Arc<Secrets>>);

struct Secrets {
    all: Vec<String>,
    /// Made when a tool first says something: a server that only waits does without.
    any: OnceLock<Option<Regex>>,
}

impl Mask {
    pub fn new(secrets: impl IntoIterator<Item = String>) -> Self {
        let mut all: Vec<String> = secrets.into_iter().filter(|secret| secret.len() >= SHORTEST).collect();
        // Of two that begin alike the longer one is found.
        all.sort_by_key(|secret| (std::cmp::Reverse(secret.len()), secret.clone()));
        all.dedup();
        Self((!all.is_empty()).then(|| Arc::new(Secrets { all, any: OnceLock::new() })))
    }

    pub fn text(&self, text: String) -> String {
        match self.bytes(text.as_bytes()) {
            Cow::Borrowed(_) => text,
            Cow::Owned(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        }
    }

    /// All texts in it, names of fields included.
    pub fn value(&self, value: Value) -> Value {
        if self.0.is_none() {
            return value;
        }
        match value {
            Value::String(text) => self.text(text).into(),
            Value::Array(items) => items.into_iter().map(|item| self.value(item)).collect(),
            Value::Object(fields) => Value::Object(
                fields
                    .into_iter()
                    .map(|(key, item)| (self.text(key), self.value(item)))
                    .collect::<Map<_, _>>(),
            ),
            Value::Null | Value::Bool(_) | Value::Number(_) => value,
        }
    }

    fn bytes<'t>(&self, text: &'t [u8]) -> Cow<'t, [u8]> {
        match &self.0 {
            Some(secrets) => match secrets.any() {
                Some(any) => any.replace_all(text, MASKED.as_bytes()),
                // Rather nothing at all than a secret.
                None => Cow::Owned(MASKED.as_bytes().to_vec()),
            },
            None => Cow::Borrowed(text),
        }
    }

    /// For text that comes in pieces: a secret may lie across two of them.
    pub fn stream(&self) -> MaskStream {
        MaskStream { mask: self.clone(), held: Vec::new() }
    }
}

impl Secrets {
    /// `None` if they are too many to look for.
    fn any(&self) -> Option<&Regex> {
        let build = || {
            let pattern: Vec<String> = self.all.iter().map(|secret| regex::escape(secret)).collect();
            RegexBuilder::new(&pattern.join("|")).unicode(false).build().ok()
        };
        self.any.get_or_init(build).as_ref()
    }

    /// How much of a text can be judged before the rest of it comes: its end may be the beginning of a secret.
    fn known(&self, text: &[u8]) -> usize {
        let longest = self.all.first().map_or(0, String::len);
        let may_begin = |count: &usize| {
            let end = &text[text.len() - count..];
            self.all.iter().any(|secret| secret.len() > end.len() && secret.as_bytes().starts_with(end))
        };
        let begun = (1..longest.min(text.len() + 1)).rev().find(may_begin).unwrap_or(0);
        let known = text.len() - begun;
        // A secret that is there already is not cut in two.
        let mut found = self.any().into_iter().flat_map(|any| any.find_iter(text));
        let across = found.find(|found| found.start() < known && found.end() > known);
        across.map_or(known, |found| found.end())
    }
}

/// A mask over a text that is still coming.
#[derive(Debug)]
pub struct MaskStream {
    mask: Mask,
    held: Vec<u8>,
}

impl MaskStream {
    /// What can be passed on by now.
    pub fn take<'p>(&mut self, piece: &'p [u8]) -> Cow<'p, [u8]> {
        let Some(secrets) = &self.mask.0 else { return Cow::Borrowed(piece) };
        let mut text = if self.held.is_empty() {
            Cow::Borrowed(piece)
        } else {
            self.held.extend_from_slice(piece);
            Cow::Owned(std::mem::take(&mut self.held))
        };
        let known = secrets.known(&text);
        if known < text.len() {
            self.held = text.to_mut().split_off(known);
        }
        match self.mask.bytes(&text) {
            Cow::Borrowed(_) => text,
            Cow::Owned(masked) => Cow::Owned(masked),
        }
    }

    /// What was held back, when nothing more comes.
    pub fn rest(&mut self) -> Vec<u8> {
        let held = std::mem::take(&mut self.held);
        self.mask.bytes(&held).into_owned()
    }
}

impl fmt::Debug for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mask({})", self.0.as_ref().map_or(0, |secrets| secrets.all.len()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn mask() -> Mask {
        Mask::new(["sk-canary-1", "sk-canary-12", "short", "a.b*c[d]e"].map(str::to_owned))
    }

    #[test]
    fn secrets_are_taken_out_of_texts_and_of_all_places_in_a_value() {
        assert_eq!(
            mask().text("a sk-canary-1, sk-canary-12 and a.b*c[d]e".to_owned()),
            "a [masked], [masked] and [masked]"
        );
        assert_eq!(mask().text("short stays".to_owned()), "short stays");
        let value = json!({"sk-canary-1": ["x sk-canary-12 y", 1, null], "b": {"c": "sk-canary-1"}});
        assert_eq!(
            mask().value(value),
            json!({"[masked]": ["x [masked] y", 1, null], "b": {"c": "[masked]"}})
        );
        assert_eq!(format!("{:?}", mask()), "Mask(3)");
    }

    #[test]
    fn what_cannot_be_the_beginning_of_a_secret_is_not_held_back() {
        let mut stream = mask().stream();
        assert_eq!(*stream.take(b"listening on 80\n"), *b"listening on 80\n");
        assert_eq!(*stream.take(b"x sk-ca"), *b"x ");
        assert_eq!(*stream.take(b"nary-1"), *b"");
        assert_eq!(*stream.take(b"2!"), *b"[masked]!");
        assert_eq!(stream.rest(), b"");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn a_text_in_pieces_is_masked_as_the_whole_would_be(
            parts in prop::collection::vec(prop::sample::select(vec!["sk-canary-1", "sk-can", " ", "ary-1", "a.b*c[d]e", "\n"]), 0..12),
            cuts in prop::collection::vec(0usize..100, 0..8),
        ) {
            let whole = parts.concat();
            let only = Mask::new(["sk-canary-1", "a.b*c[d]e"].map(str::to_owned));
            let mut stream = only.stream();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(whole.len())).chain([0, whole.len()]).collect();
            cuts.sort_unstable();
            let mut out = Vec::new();
            for pair in cuts.windows(2) {
                out.extend_from_slice(&stream.take(&whole.as_bytes()[pair[0]..pair[1]]));
            }
            out.extend(stream.rest());
            prop_assert_eq!(String::from_utf8(out).unwrap(), only.text(whole));
        }
    }
}
