//! Secrets and their digests: a client holds 256 random bits, the server stores their SHA-256.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::{fmt, io};
use subtle::ConstantTimeEq;

/// A bearer token, login code or cookie value. `Debug` does not print it.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenSecret(String);

impl TokenSecret {
    pub fn generate() -> io::Result<Self> {
        let mut bytes = [0; 32];
        let filled = SystemRandom::new().fill(&mut bytes);
        filled.map_err(|_| io::Error::other("the system's random number generator failed"))?;
        Ok(Self(BASE64.encode(bytes)))
    }

    /// A secret that was generated before.
    pub fn from_text(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub fn reveal(&self) -> &str {
        &self.0
    }

    pub fn digest(&self) -> TokenDigest {
        TokenDigest::new(&self.0)
    }
}

impl fmt::Debug for TokenSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenSecret(…)")
    }
}

/// The SHA-256 of a secret. Comparison takes constant time.
#[derive(Clone, Copy)]
pub struct TokenDigest([u8; 32]);

impl TokenDigest {
    pub fn new(secret: &str) -> Self {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(ring::digest::digest(&ring::digest::SHA256, secret.as_bytes()).as_ref());
        Self(bytes)
    }
}

impl PartialEq for TokenDigest {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for TokenDigest {}

impl fmt::Debug for TokenDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenDigest(…)")
    }
}

impl Serialize for TokenDigest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&BASE64.encode(self.0))
    }
}

impl<'de> Deserialize<'de> for TokenDigest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes = BASE64.decode(text).ok().and_then(|bytes| bytes.try_into().ok());
        bytes.map(Self).ok_or_else(|| de::Error::custom("a digest must be 32 bytes in base64"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_secrets_differ_and_have_256_bits() {
        let (one, other) = (TokenSecret::generate().unwrap(), TokenSecret::generate().unwrap());
        assert_ne!(one, other);
        assert_eq!(BASE64.decode(one.reveal()).unwrap().len(), 32);
    }

    #[test]
    fn a_digest_is_sha_256_and_survives_serialization() {
        let digest = TokenDigest::new("abc");
        let text = serde_json::to_string(&digest).unwrap();
        assert_eq!(text, "\"ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0\"");
        assert_eq!(serde_json::from_str::<TokenDigest>(&text).unwrap(), digest);
        assert_ne!(TokenDigest::new("abd"), digest);
        assert!(serde_json::from_str::<TokenDigest>("\"AAAA\"").is_err());
    }

    #[test]
    fn debug_output_does_not_contain_the_secret() {
        let secret = TokenSecret::from_text("canary");
        assert!(!format!("{secret:?} {:?}", secret.digest()).contains("canary"));
    }
}
