//! Redaction: configured secrets are replaced in the output of tools before it is stored or shown.

use std::{
    borrow::Cow,
    fmt,
    sync::{Arc, OnceLock},
};

use regex::bytes::{Regex, RegexBuilder};
use serde_json::{Map, Value};

/// Replaces each secret.
const MASKED: &str = "[masked]";
/// Shorter values occur in ordinary text too often to be redacted.
const MIN_SECRET: usize = 8;

/// The set of secrets to redact. `Debug` prints only their number.
#[derive(Clone, Default)]
pub struct Mask(Option<Arc<SecretSet>>);

struct SecretSet {
    all: Vec<String>,
    /// Compiled on first use, so that an idle server does not pay for it.
    regex: OnceLock<Option<Regex>>,
}

impl Mask {
    pub fn new(secrets: impl IntoIterator<Item = String>) -> Self {
        let mut all: Vec<String> = secrets.into_iter().filter(|secret| secret.len() >= MIN_SECRET).collect();
        // Longest first: the regex prefers the earlier alternative, so a secret wins over its own prefix.
        all.sort_by_key(|secret| (std::cmp::Reverse(secret.len()), secret.clone()));
        all.dedup();
        Self((!all.is_empty()).then(|| Arc::new(SecretSet { all, regex: OnceLock::new() })))
    }

    pub fn apply(&self, text: String) -> String {
        match self.bytes(text.as_bytes()) {
            Cow::Borrowed(_) => text,
            Cow::Owned(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        }
    }

    /// Redacts all strings of a JSON value, including field names.
    pub fn apply_json(&self, value: Value) -> Value {
        if self.0.is_none() {
            return value;
        }
        match value {
            Value::String(text) => self.apply(text).into(),
            Value::Array(items) => items.into_iter().map(|item| self.apply_json(item)).collect(),
            Value::Object(fields) => Value::Object(
                fields
                    .into_iter()
                    .map(|(key, item)| (self.apply(key), self.apply_json(item)))
                    .collect::<Map<_, _>>(),
            ),
            Value::Null | Value::Bool(_) | Value::Number(_) => value,
        }
    }

    fn bytes<'t>(&self, text: &'t [u8]) -> Cow<'t, [u8]> {
        match &self.0 {
            Some(secrets) => match secrets.regex() {
                Some(regex) => regex.replace_all(text, MASKED.as_bytes()),
                // Fail closed: without a regex, the whole text is redacted.
                None => Cow::Owned(MASKED.as_bytes().to_vec()),
            },
            None => Cow::Borrowed(text),
        }
    }

    /// Redaction of text that arrives in chunks; a secret may span two of them.
    pub fn stream(&self) -> MaskStream {
        MaskStream { mask: self.clone(), held: Vec::new() }
    }
}

impl SecretSet {
    /// `None` if the secrets exceed the size limit of a regex.
    fn regex(&self) -> Option<&Regex> {
        let build = || {
            let pattern: Vec<String> = self.all.iter().map(|secret| regex::escape(secret)).collect();
            RegexBuilder::new(&pattern.join("|")).unicode(false).build().ok()
        };
        self.regex.get_or_init(build).as_ref()
    }

    /// Length of the prefix of `text` that can be redacted now. The rest may be the beginning of a secret.
    fn complete_prefix(&self, text: &[u8]) -> usize {
        let longest = self.all.first().map_or(0, String::len);
        let is_partial_secret = |count: &usize| {
            let end = &text[text.len() - count..];
            self.all.iter().any(|secret| secret.len() > end.len() && secret.as_bytes().starts_with(end))
        };
        let partial = (1..longest.min(text.len() + 1)).rev().find(is_partial_secret).unwrap_or(0);
        let complete = text.len() - partial;
        // Do not split a secret that is already complete.
        let mut matches = self.regex().into_iter().flat_map(|regex| regex.find_iter(text));
        let across = matches.find(|found| found.start() < complete && found.end() > complete);
        across.map_or(complete, |found| found.end())
    }
}

/// A mask for text that arrives in chunks.
#[derive(Debug)]
pub struct MaskStream {
    mask: Mask,
    /// The end of the text so far, which may be the beginning of a secret.
    held: Vec<u8>,
}

impl MaskStream {
    /// Adds a chunk and returns the redacted text that is complete so far.
    pub fn push<'c>(&mut self, chunk: &'c [u8]) -> Cow<'c, [u8]> {
        let Some(secrets) = &self.mask.0 else { return Cow::Borrowed(chunk) };
        let mut text = if self.held.is_empty() {
            Cow::Borrowed(chunk)
        } else {
            self.held.extend_from_slice(chunk);
            Cow::Owned(std::mem::take(&mut self.held))
        };
        let complete = secrets.complete_prefix(&text);
        if complete < text.len() {
            self.held = text.to_mut().split_off(complete);
        }
        match self.mask.bytes(&text) {
            Cow::Borrowed(_) => text,
            Cow::Owned(masked) => Cow::Owned(masked),
        }
    }

    /// Returns the held text, redacted, at the end of the stream.
    pub fn finish(&mut self) -> Vec<u8> {
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
    fn secrets_are_redacted_in_text_and_in_json_keys_and_values() {
        assert_eq!(
            mask().apply("a sk-canary-1, sk-canary-12 and a.b*c[d]e".to_owned()),
            "a [masked], [masked] and [masked]"
        );
        assert_eq!(mask().apply("short stays".to_owned()), "short stays");
        let value = json!({"sk-canary-1": ["x sk-canary-12 y", 1, null], "b": {"c": "sk-canary-1"}});
        assert_eq!(
            mask().apply_json(value),
            json!({"[masked]": ["x [masked] y", 1, null], "b": {"c": "[masked]"}})
        );
        assert_eq!(format!("{:?}", mask()), "Mask(3)");
    }

    #[test]
    fn stream_holds_back_only_a_possible_prefix_of_a_secret() {
        let mut stream = mask().stream();
        assert_eq!(*stream.push(b"listening on 80\n"), *b"listening on 80\n");
        assert_eq!(*stream.push(b"x sk-ca"), *b"x ");
        assert_eq!(*stream.push(b"nary-1"), *b"");
        assert_eq!(*stream.push(b"2!"), *b"[masked]!");
        assert_eq!(stream.finish(), b"");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn chunked_text_is_redacted_like_the_whole_text(
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
                out.extend_from_slice(&stream.push(&whole.as_bytes()[pair[0]..pair[1]]));
            }
            out.extend(stream.finish());
            prop_assert_eq!(String::from_utf8(out).unwrap(), only.apply(whole));
        }
    }
}
