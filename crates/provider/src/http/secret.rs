//! Values that are sent to a server and never printed. They are masked (redacted) in error messages, because servers echo them.
//!
//! To mask secrets in the output of tools, see `tools::mask`.

use crate::{Error, truncate::truncate_chars};
use std::fmt;

/// An API key or a header value. `Debug` and `Display` print a mask.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretString(String);

/// Shorter values are not masked: they carry no secret, and masking them would garble messages.
const MIN_MASKED_LEN: usize = 4;

const MASK: &str = "[hidden]";

impl SecretString {
    /// Trims white space, such as the line break of a file or variable.
    pub fn new(value: impl AsRef<str>) -> Self {
        Self(value.as_ref().trim().to_owned())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value itself, to send or to mask.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl fmt::Display for SecretString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

/// The maximum length of an error message, in characters.
const MAX_MESSAGE_CHARS: usize = 1000;

impl Error {
    /// Masks secrets that the server echoed, and truncates the message.
    pub(crate) fn mask_secrets(self, secrets: &[SecretString]) -> Self {
        self.map_message(|message| truncate_chars(&mask(message, secrets), MAX_MESSAGE_CHARS).to_owned())
    }
}

pub(crate) fn mask(text: &str, secrets: &[SecretString]) -> String {
    let maskable = secrets.iter().map(SecretString::reveal).filter(|secret| secret.len() >= MIN_MASKED_LEN);
    maskable.fold(text.to_owned(), |text, secret| text.replace(secret, MASK))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_string_is_masked_when_printed() {
        let secret = SecretString::new(" sk-canary\n");
        assert_eq!(format!("{secret} {secret:?} {:?}", Some(&secret)), "[hidden] [hidden] Some([hidden])");
        assert_eq!(secret.reveal(), "sk-canary");
    }

    #[test]
    fn mask_replaces_every_long_secret_in_a_text() {
        let secrets = [SecretString::new("sk-canary"), SecretString::new("a"), SecretString::new("")];
        assert_eq!(mask("a key: sk-canary, sk-canary!", &secrets), "a key: [hidden], [hidden]!");
    }
}
