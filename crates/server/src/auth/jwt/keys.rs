//! The public keys of an issuer, from a JWKS. A key signs with one algorithm; what a token's header says cannot change it.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde::Deserialize;

/// The ways to sign that are good: a public key checks them, so nobody who can check can sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    Rs256,
    Es256,
    EdDsa,
}

impl Algorithm {
    pub(super) fn named(name: &str) -> Option<Self> {
        match name {
            "RS256" => Some(Self::Rs256),
            "ES256" => Some(Self::Es256),
            "EdDSA" | "Ed25519" => Some(Self::EdDsa),
            _ => None,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Keys(Vec<Key>);

#[derive(Debug)]
pub(super) struct Key {
    id: Option<String>,
    public: Public,
}

#[derive(Debug)]
enum Public {
    Rsa { n: Vec<u8>, e: Vec<u8> },
    P256(Vec<u8>),
    Ed25519(Vec<u8>),
}

#[derive(Deserialize)]
struct Raw {
    keys: Vec<RawKey>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawKey {
    kty: String,
    kid: Option<String>,
    r#use: Option<String>,
    alg: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

impl Keys {
    /// The keys of a set that can be used here; others are passed over.
    pub(super) fn parse(jwks: &[u8]) -> Result<Self, serde_json::Error> {
        let raw: Raw = serde_json::from_slice(jwks)?;
        Ok(Self(raw.keys.into_iter().filter_map(RawKey::meant).collect()))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The key of that id. A token that names none is good only if there is no choice.
    pub(super) fn find(&self, id: Option<&str>, algorithm: Algorithm) -> Option<&Key> {
        let mut fitting = match id {
            Some(_) => self.0.iter().find(|key| key.id.as_deref() == id),
            None if self.0.len() == 1 => self.0.first(),
            None => None,
        }
        .into_iter();
        fitting.find(|key| key.algorithm() == algorithm)
    }
}

impl Key {
    fn algorithm(&self) -> Algorithm {
        match self.public {
            Public::Rsa { .. } => Algorithm::Rs256,
            Public::P256(_) => Algorithm::Es256,
            Public::Ed25519(_) => Algorithm::EdDsa,
        }
    }

    pub(super) fn has_signed(&self, message: &[u8], signature: &[u8]) -> bool {
        let checked = match &self.public {
            Public::Rsa { n, e } => {
                RsaPublicKeyComponents { n, e }.verify(&RSA_PKCS1_2048_8192_SHA256, message, signature)
            }
            Public::P256(point) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature)
            }
            Public::Ed25519(key) => UnparsedPublicKey::new(&ED25519, key).verify(message, signature),
        };
        checked.is_ok()
    }
}

impl RawKey {
    fn meant(self) -> Option<Key> {
        let bytes = |text: &Option<String>| BASE64.decode(text.as_deref()?).ok();
        let public = match (self.kty.as_str(), self.crv.as_deref()) {
            ("RSA", _) => Public::Rsa { n: bytes(&self.n)?, e: bytes(&self.e)? },
            ("EC", Some("P-256")) => Public::P256([vec![4], bytes(&self.x)?, bytes(&self.y)?].concat()),
            ("OKP", Some("Ed25519")) => Public::Ed25519(bytes(&self.x)?),
            _ => return None,
        };
        let key = Key { id: self.kid, public };
        let signs = self.r#use.is_none_or(|purpose| purpose == "sig");
        let fits = self.alg.is_none_or(|name| Algorithm::named(&name) == Some(key.algorithm()));
        (signs && fits).then_some(key)
    }
}
