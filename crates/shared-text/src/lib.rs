//! [`SharedText`]: a string that clones by reference count and caches its token estimate.
//!
//! An event and every request built from it hold the same allocation.
//!
//! **Invariant.** A shared buffer is never mutated: mutation copies it first (copy on write) and clears the cached count of
//! the copy.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::{
    borrow::Borrow,
    fmt,
    ops::Deref,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

/// A reference-counted string with a cached token estimate.
#[derive(Default)]
pub struct SharedText(Arc<CountedString>);

#[derive(Default)]
struct CountedString {
    string: String,
    /// The cached estimate; 0 means not computed.
    tokens: AtomicU32,
}

impl SharedText {
    pub fn as_str(&self) -> &str {
        &self.0.string
    }

    /// Returns the cached token estimate; the first call computes it with `estimate`.
    ///
    /// The cache does not record which function filled it, so all callers in a process must pass the same one.
    pub fn token_count(&self, estimate: impl FnOnce(&str) -> u32) -> u32 {
        match self.0.tokens.load(Ordering::Relaxed) {
            0 => {
                let tokens = estimate(self);
                self.0.tokens.store(tokens, Ordering::Relaxed);
                tokens
            }
            cached => cached,
        }
    }

    /// Appends to the string. A buffer that has other owners is copied first.
    pub fn push_str(&mut self, suffix: &str) {
        let counted = Arc::make_mut(&mut self.0);
        counted.string.push_str(suffix);
        *counted.tokens.get_mut() = 0;
    }
}

impl Clone for SharedText {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// `Arc::make_mut` clones only to mutate, so the clone starts without a cached count.
impl Clone for CountedString {
    fn clone(&self) -> Self {
        Self::from(self.string.clone())
    }
}

impl From<String> for CountedString {
    fn from(string: String) -> Self {
        Self { string, tokens: AtomicU32::new(0) }
    }
}

impl Deref for SharedText {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl Borrow<str> for SharedText {
    fn borrow(&self) -> &str {
        self
    }
}

impl From<String> for SharedText {
    fn from(string: String) -> Self {
        Self(Arc::new(string.into()))
    }
}

impl From<&str> for SharedText {
    fn from(string: &str) -> Self {
        string.to_owned().into()
    }
}

impl PartialEq for SharedText {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || **self == **other
    }
}

impl Eq for SharedText {}

impl PartialEq<&str> for SharedText {
    fn eq(&self, other: &&str) -> bool {
        **self == **other
    }
}

impl fmt::Debug for SharedText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for SharedText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.as_str(), f)
    }
}

impl Serialize for SharedText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}

impl<'de> Deserialize<'de> for SharedText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count_bytes(text: &str) -> u32 {
        u32::try_from(text.len()).unwrap()
    }

    fn must_be_cached(text: &str) -> u32 {
        panic!("the estimate of {text:?} was computed again")
    }

    #[test]
    fn clones_share_one_cached_token_count() {
        let text = SharedText::from("hello");
        let clone = text.clone();
        assert_eq!(text.token_count(count_bytes), 5);
        assert_eq!((text.token_count(must_be_cached), clone.token_count(must_be_cached)), (5, 5));
    }

    #[test]
    fn push_str_copies_a_shared_buffer_and_clears_its_token_count() {
        let mut text = SharedText::from("hello");
        let clone = text.clone();
        text.token_count(count_bytes);
        text.push_str(", world");
        assert_eq!((&*text, &*clone), ("hello, world", "hello"));
        assert_eq!((text.token_count(count_bytes), clone.token_count(must_be_cached)), (12, 5));
        text.push_str("!");
        assert_eq!(text.token_count(count_bytes), 13);
    }

    #[test]
    fn serde_format_and_equality_match_the_inner_string() {
        let text: SharedText = serde_json::from_str(r#""a\nb""#).unwrap();
        assert_eq!(serde_json::to_string(&text).unwrap(), r#""a\nb""#);
        assert_eq!(format!("{text:?} {text}"), "\"a\\nb\" a\nb");
        let (equal, shared) = (SharedText::from("a\nb"), text.clone());
        assert!(text == "a\nb" && text == equal && text == shared && text != SharedText::default());
    }
}
