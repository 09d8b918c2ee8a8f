//! Redaction: configured secrets are replaced in the output of tools before it is stored or shown, verbatim and in common encodings.
//!
//! To mask secrets in the error messages of providers, see `provider::http::secret`.
//!
//! | module | contents |
//! |---|---|
//! | `needles` | the forms of a secret, and the search for all of them |

mod needles;
#[cfg(test)]
mod tests;

use std::{
    borrow::Cow,
    fmt,
    sync::{Arc, OnceLock},
};

use needles::Needles;
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
    needles: OnceLock<Option<Needles>>,
}

impl Mask {
    pub fn new(secrets: impl IntoIterator<Item = String>) -> Self {
        let mut all: Vec<String> = secrets.into_iter().filter(|secret| secret.len() >= MIN_SECRET).collect();
        all.sort();
        all.dedup();
        Self((!all.is_empty()).then(|| Arc::new(SecretSet { all, needles: OnceLock::new() })))
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
            Some(secrets) => secrets.redact(text, text.len()).0,
            None => Cow::Borrowed(text),
        }
    }

    /// Redaction of text that arrives in chunks; a secret may span two of them.
    pub fn stream(&self) -> MaskStream {
        MaskStream { mask: self.clone(), held: Vec::new() }
    }
}

impl SecretSet {
    /// `None` if the secrets exceed the limits of the search.
    fn needles(&self) -> Option<&Needles> {
        self.needles.get_or_init(|| Needles::compile(&self.all)).as_ref()
    }

    /// Redacts the first `length` bytes, or more if a secret begins there and ends later. Returns them and their length in `text`.
    fn redact<'t>(&self, text: &'t [u8], length: usize) -> (Cow<'t, [u8]>, usize) {
        let Some(needles) = self.needles() else {
            // Fail closed: without a search, the whole text is redacted.
            return (Cow::Owned(MASKED.as_bytes().to_vec()), text.len());
        };
        let (mut masked, mut copied) = (Vec::new(), 0);
        for found in needles.find_all(text) {
            if found.start >= length {
                break;
            }
            masked.extend_from_slice(&text[copied..found.start]);
            masked.extend_from_slice(MASKED.as_bytes());
            copied = found.end;
        }
        let end = length.max(copied);
        if copied == 0 {
            return (Cow::Borrowed(&text[..end]), end);
        }
        masked.extend_from_slice(&text[copied..end]);
        (Cow::Owned(masked), end)
    }

    /// Length of the prefix of `text` that can be redacted now. The rest may be the beginning of a secret.
    fn complete_prefix(&self, text: &[u8]) -> usize {
        self.needles().map_or(text.len(), |needles| text.len() - needles.partial_suffix(text))
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
        if self.held.is_empty() {
            let (masked, end) = secrets.redact(chunk, secrets.complete_prefix(chunk));
            self.held.extend_from_slice(&chunk[end..]);
            return masked;
        }
        self.held.extend_from_slice(chunk);
        let (masked, end) = secrets.redact(&self.held, secrets.complete_prefix(&self.held));
        let masked = masked.into_owned();
        self.held.drain(..end);
        Cow::Owned(masked)
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
