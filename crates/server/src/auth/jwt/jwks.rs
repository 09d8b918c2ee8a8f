//! The public keys of an issuer, from a JWKS. Each key has one algorithm, which the header of a token cannot change.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde::Deserialize;

/// The supported signature algorithms. All are asymmetric: a key that verifies tokens cannot sign them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    Rs256,
    Es256,
    EdDsa,
}

impl Algorithm {
    pub(super) fn from_name(name: &str) -> Option<Self> {
        match name {
            "RS256" => Some(Self::Rs256),
            "ES256" => Some(Self::Es256),
            "EdDSA" | "Ed25519" => Some(Self::EdDsa),
            _ => None,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct JwkSet(Vec<Jwk>);

#[derive(Debug)]
pub(super) struct Jwk {
    id: Option<String>,
    public: PublicKey,
}

#[derive(Debug)]
enum PublicKey {
    Rsa { n: Vec<u8>, e: Vec<u8> },
    P256(Vec<u8>),
    Ed25519(Vec<u8>),
}

#[derive(Deserialize)]
struct RawJwkSet {
    keys: Vec<RawJwk>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawJwk {
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

impl JwkSet {
    /// Parses a JWKS. Keys that are not for signatures or have another algorithm are skipped.
    pub(super) fn parse(jwks: &[u8]) -> Result<Self, serde_json::Error> {
        let raw: RawJwkSet = serde_json::from_slice(jwks)?;
        Ok(Self(raw.keys.into_iter().filter_map(RawJwk::into_jwk).collect()))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The key with an id and an algorithm. A token without a key id matches only if the set has a single key.
    pub(super) fn find(&self, id: Option<&str>, algorithm: Algorithm) -> Option<&Jwk> {
        let candidate = match id {
            Some(_) => self.0.iter().find(|key| key.id.as_deref() == id),
            None if self.0.len() == 1 => self.0.first(),
            None => None,
        };
        candidate.filter(|key| key.algorithm() == algorithm)
    }
}

impl Jwk {
    fn algorithm(&self) -> Algorithm {
        match self.public {
            PublicKey::Rsa { .. } => Algorithm::Rs256,
            PublicKey::P256(_) => Algorithm::Es256,
            PublicKey::Ed25519(_) => Algorithm::EdDsa,
        }
    }

    pub(super) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let verified = match &self.public {
            PublicKey::Rsa { n, e } => {
                RsaPublicKeyComponents { n, e }.verify(&RSA_PKCS1_2048_8192_SHA256, message, signature)
            }
            PublicKey::P256(point) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature)
            }
            PublicKey::Ed25519(key) => UnparsedPublicKey::new(&ED25519, key).verify(message, signature),
        };
        verified.is_ok()
    }
}

impl RawJwk {
    fn into_jwk(self) -> Option<Jwk> {
        let decode = |text: &Option<String>| BASE64.decode(text.as_deref()?).ok();
        let public = match (self.kty.as_str(), self.crv.as_deref()) {
            ("RSA", _) => PublicKey::Rsa { n: decode(&self.n)?, e: decode(&self.e)? },
            ("EC", Some("P-256")) => PublicKey::P256([vec![4], decode(&self.x)?, decode(&self.y)?].concat()),
            ("OKP", Some("Ed25519")) => PublicKey::Ed25519(decode(&self.x)?),
            _ => return None,
        };
        let key = Jwk { id: self.kid, public };
        let is_for_signatures = self.r#use.is_none_or(|purpose| purpose == "sig");
        let has_algorithm = self.alg.is_none_or(|name| Algorithm::from_name(&name) == Some(key.algorithm()));
        (is_for_signatures && has_algorithm).then_some(key)
    }
}
