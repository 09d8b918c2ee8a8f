//! The public keys of an issuer, from a JWKS. The type, the curve and the `alg` of a key decide which algorithms it verifies; the header
//! of a token cannot add one.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256,
    RSA_PSS_2048_8192_SHA256, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey,
    VerificationAlgorithm,
};
use serde::Deserialize;
use serde_json::Value;

/// The supported signature algorithms. All are asymmetric: a key that verifies tokens cannot sign them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    Rs256,
    Ps256,
    Es256,
    Es384,
    EdDsa,
}

impl Algorithm {
    pub(super) fn from_name(name: &str) -> Option<Self> {
        match name {
            "RS256" => Some(Self::Rs256),
            "PS256" => Some(Self::Ps256),
            "ES256" => Some(Self::Es256),
            "ES384" => Some(Self::Es384),
            "EdDSA" | "Ed25519" => Some(Self::EdDsa),
            _ => None,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct JwkSet(Vec<Jwk>);

#[derive(Debug, PartialEq)]
pub(super) struct Jwk {
    id: Option<String>,
    /// The member `alg`. Without it, the key verifies every algorithm of its type.
    algorithm: Option<Algorithm>,
    public: PublicKey,
}

#[derive(Debug, PartialEq)]
enum PublicKey {
    Rsa { n: Vec<u8>, e: Vec<u8> },
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
}

#[derive(Deserialize)]
struct RawJwkSet {
    keys: Vec<Value>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawJwk {
    kty: String,
    kid: Option<String>,
    r#use: Option<String>,
    key_ops: Option<Vec<String>>,
    alg: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

impl JwkSet {
    /// Parses a JWKS. Keys that are not for signatures or have another algorithm are skipped; invalid keys are skipped and returned
    /// as problems. A key that is listed twice counts once.
    pub(super) fn parse(jwks: &[u8]) -> Result<(Self, Vec<String>), serde_json::Error> {
        let raw: RawJwkSet = serde_json::from_slice(jwks)?;
        let (mut keys, mut problems) = (Vec::new(), Vec::new());
        for (index, key) in raw.keys.into_iter().enumerate() {
            match RawJwk::deserialize(key) {
                Ok(key) => keys.extend(key.into_jwk().filter(|key| !keys.contains(key))),
                Err(error) => problems.push(format!("key {index} is skipped: {error}")),
            }
        }
        Ok((Self(keys), problems))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The only key that has the id and fits the algorithm. Without an id in the token or in all keys of the set, the algorithm decides.
    /// `None` if no key fits, or more than one.
    pub(super) fn find(&self, id: Option<&str>, algorithm: Algorithm) -> Option<&Jwk> {
        let has_ids = self.0.iter().any(|key| key.id.is_some());
        let is_candidate =
            |key: &&Jwk| (id.is_none() || !has_ids || key.id.as_deref() == id) && key.fits(algorithm);
        let mut candidates = self.0.iter().filter(is_candidate);
        candidates.next().filter(|_| candidates.next().is_none())
    }
}

impl Jwk {
    fn fits(&self, algorithm: Algorithm) -> bool {
        let fits_type = match self.public {
            PublicKey::Rsa { .. } => matches!(algorithm, Algorithm::Rs256 | Algorithm::Ps256),
            PublicKey::P256(_) => algorithm == Algorithm::Es256,
            PublicKey::P384(_) => algorithm == Algorithm::Es384,
            PublicKey::Ed25519(_) => algorithm == Algorithm::EdDsa,
        };
        fits_type && self.algorithm.is_none_or(|only| only == algorithm)
    }

    /// Verifies a signature. An algorithm that does not fit the key verifies nothing.
    pub(super) fn verifies(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        if !self.fits(algorithm) {
            return false;
        }
        let rsa = |parameters: &RsaParameters, n: &[u8], e: &[u8]| {
            RsaPublicKeyComponents { n, e }.verify(parameters, message, signature)
        };
        let curve = |parameters: &'static dyn VerificationAlgorithm, key: &[u8]| {
            UnparsedPublicKey::new(parameters, key).verify(message, signature)
        };
        let verified = match (&self.public, algorithm) {
            (PublicKey::Rsa { n, e }, Algorithm::Ps256) => rsa(&RSA_PSS_2048_8192_SHA256, n, e),
            (PublicKey::Rsa { n, e }, _) => rsa(&RSA_PKCS1_2048_8192_SHA256, n, e),
            (PublicKey::P256(point), _) => curve(&ECDSA_P256_SHA256_FIXED, point),
            (PublicKey::P384(point), _) => curve(&ECDSA_P384_SHA384_FIXED, point),
            (PublicKey::Ed25519(key), _) => curve(&ED25519, key),
        };
        verified.is_ok()
    }
}

impl RawJwk {
    fn into_jwk(self) -> Option<Jwk> {
        let decode = |text: &Option<String>| BASE64.decode(text.as_deref()?).ok();
        let public = match (self.kty.as_str(), self.crv.as_deref()) {
            ("RSA", _) => PublicKey::Rsa { n: decode(&self.n)?, e: decode(&self.e)? },
            ("EC", Some("P-256")) => PublicKey::P256(point(&decode(&self.x)?, &decode(&self.y)?, 32)?),
            ("EC", Some("P-384")) => PublicKey::P384(point(&decode(&self.x)?, &decode(&self.y)?, 48)?),
            ("OKP", Some("Ed25519")) => PublicKey::Ed25519(decode(&self.x)?),
            _ => return None,
        };
        let is_for_signatures = self.r#use.is_none_or(|purpose| purpose == "sig")
            && self.key_ops.is_none_or(|operations| operations.iter().any(|operation| operation == "verify"));
        // An algorithm that is not supported is not the same as none.
        let algorithm = match self.alg {
            Some(name) => Some(Algorithm::from_name(&name)?),
            None => None,
        };
        let key = Jwk { id: self.kid, algorithm, public };
        let fits_itself = algorithm.is_none_or(|algorithm| key.fits(algorithm));
        (is_for_signatures && fits_itself).then_some(key)
    }
}

/// The uncompressed encoding of a point whose coordinates have `length` bytes each.
fn point(x: &[u8], y: &[u8], length: usize) -> Option<Vec<u8>> {
    (x.len() == length && y.len() == length).then(|| [&[4], x, y].concat())
}
