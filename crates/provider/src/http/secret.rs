//! Values that are sent and never shown.

use crate::{Error, truncate::truncate_chars};
use std::fmt;

/// A key, or a header's value. It has no way into a log: both of its formats hide it.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretString(String);

/// A shorter value says nothing, and to hide it would spoil every message.
const SHORTEST: usize = 4;

const HIDDEN: &str = "[hidden]";

impl SecretString {
    /// Space around a value, as a file or an environment leaves it, is not part of it.
    pub fn new(value: impl AsRef<str>) -> Self {
        Self(value.as_ref().trim().to_owned())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value itself, for whoever sends it or hides it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

impl fmt::Display for SecretString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

/// The longest message of an error, in characters.
const MESSAGE: usize = 1000;

impl Error {
    /// The same without the secrets, which a server may have repeated, and not longer than people read.
    pub(crate) fn without(self, secrets: &[SecretString]) -> Self {
        self.reworded(|message| truncate_chars(&hide(message, secrets), MESSAGE).to_owned())
    }
}

fn hide(text: &str, secrets: &[SecretString]) -> String {
    let worth_hiding = secrets.iter().map(SecretString::reveal).filter(|secret| secret.len() >= SHORTEST);
    worth_hiding.fold(text.to_owned(), |text, secret| text.replace(secret, HIDDEN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_shown() {
        let secret = SecretString::new(" sk-canary\n");
        assert_eq!(format!("{secret} {secret:?} {:?}", Some(&secret)), "[hidden] [hidden] Some([hidden])");
        assert_eq!(secret.reveal(), "sk-canary");
    }

    #[test]
    fn what_others_say_is_shown_without_it() {
        let secrets = [SecretString::new("sk-canary"), SecretString::new("a"), SecretString::new("")];
        assert_eq!(hide("a key: sk-canary, sk-canary!", &secrets), "a key: [hidden], [hidden]!");
    }
}
