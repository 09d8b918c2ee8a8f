//! What was said, held once: by the event that says it and by every request that shows it.
//!
//! **Invariant.** A text that others share is never changed: who changes it gets a copy of its own, which nobody has
//! weighed yet.

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

/// A string that is cloned without being copied, and weighed once.
#[derive(Default)]
pub struct Text(Arc<Words>);

#[derive(Default)]
struct Words {
    words: String,
    /// Zero until somebody has weighed them.
    weight: AtomicU32,
}

impl Text {
    pub fn as_str(&self) -> &str {
        &self.0.words
    }

    /// What it weighs, by `scale` unless that is known. There is one scale in a process.
    pub fn weight(&self, scale: impl FnOnce(&str) -> u32) -> u32 {
        match self.0.weight.load(Ordering::Relaxed) {
            0 => {
                let weight = scale(self);
                self.0.weight.store(weight, Ordering::Relaxed);
                weight
            }
            known => known,
        }
    }

    pub fn push_str(&mut self, more: &str) {
        let words = Arc::make_mut(&mut self.0);
        words.words.push_str(more);
        *words.weight.get_mut() = 0;
    }
}

impl Clone for Text {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// A copy is made in order to be changed.
impl Clone for Words {
    fn clone(&self) -> Self {
        Self::from(self.words.clone())
    }
}

impl From<String> for Words {
    fn from(words: String) -> Self {
        Self { words, weight: AtomicU32::new(0) }
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl Borrow<str> for Text {
    fn borrow(&self) -> &str {
        self
    }
}

impl From<String> for Text {
    fn from(words: String) -> Self {
        Self(Arc::new(words.into()))
    }
}

impl From<&str> for Text {
    fn from(words: &str) -> Self {
        words.to_owned().into()
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || **self == **other
    }
}

impl Eq for Text {}

impl PartialEq<&str> for Text {
    fn eq(&self, other: &&str) -> bool {
        **self == **other
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.as_str(), f)
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(words: &str) -> u32 {
        u32::try_from(words.len()).unwrap()
    }

    fn nobody(words: &str) -> u32 {
        panic!("weighed again: {words}")
    }

    #[test]
    fn a_text_and_its_clones_are_weighed_once() {
        let text = Text::from("hello");
        let shown = text.clone();
        assert_eq!(text.weight(bytes), 5);
        assert_eq!((text.weight(nobody), shown.weight(nobody)), (5, 5));
    }

    #[test]
    fn who_changes_a_text_changes_nobody_elses() {
        let mut text = Text::from("hello");
        let shown = text.clone();
        text.weight(bytes);
        text.push_str(", world");
        assert_eq!((&*text, &*shown), ("hello, world", "hello"));
        assert_eq!((text.weight(bytes), shown.weight(nobody)), (12, 5));
        text.push_str("!");
        assert_eq!(text.weight(bytes), 13);
    }

    #[test]
    fn it_reads_prints_and_compares_as_the_string_that_it_is() {
        let text: Text = serde_json::from_str(r#""a\nb""#).unwrap();
        assert_eq!(serde_json::to_string(&text).unwrap(), r#""a\nb""#);
        assert_eq!(format!("{text:?} {text}"), "\"a\\nb\" a\nb");
        let (equal, shared) = (Text::from("a\nb"), text.clone());
        assert!(text == "a\nb" && text == equal && text == shared && text != Text::default());
    }
}
