//! Tokens of a team's own issuer. What one says counts only after a key of the issuer has vouched for it.
//!
//! | read | for |
//! |---|---|
//! | `jwks` | the issuer's keys, and whether a signature is one's |
//! | `jwks_source` | where they come from: a file, or an address that is asked again when a key is not known |

mod jwks;
mod jwks_source;
#[cfg(test)]
mod tests;

pub use jwks_source::JwksError;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use jwks::{Algorithm, JwkSet};
use jwks_source::JwksSource;
use serde_json::{Map, Value};

/// Clocks differ: so many seconds are forgiven.
const LEEWAY: f64 = 60.0;
/// Longer is no token but an attack.
const LONGEST: usize = 16 * 1024;

/// Whose tokens are good, and for whom they have to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JwtConfig {
    /// A file, or an https address.
    pub jwks: String,
    pub issuer: String,
    pub audience: String,
    /// The claim that names the user.
    pub user_claim: String,
}

#[derive(Debug)]
pub struct JwtVerifier {
    config: JwtConfig,
    source: JwksSource,
}

/// Why a token is not good. For whoever runs the server; strangers are told less.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JwtError {
    #[error("it is not a JWT")]
    Malformed,
    #[error("its algorithm is not RS256, ES256 or EdDSA")]
    Algorithm,
    #[error("its header has extensions that are not known here")]
    Critical,
    #[error("its key is not known")]
    Key,
    #[error("its signature is wrong")]
    Signature,
    #[error("it has expired, or does not say when it will")]
    Expired,
    #[error("it is not good yet")]
    Early,
    #[error("it is from another issuer")]
    Issuer,
    #[error("it is made for another audience")]
    Audience,
    #[error("it names no user")]
    User,
}

impl JwtVerifier {
    pub fn open(config: JwtConfig) -> Result<Self, JwksError> {
        Ok(Self { source: JwksSource::open(&config.jwks)?, config })
    }

    /// The user that a token is good for.
    pub async fn user(&self, token: &str, now: u64) -> Result<String, JwtError> {
        let token = UnverifiedJwt::new(token)?;
        let keys = self.source.keys().await;
        let claims = match token.claims(&keys) {
            // Issuers change their keys without telling anybody.
            Err(JwtError::Key) => {
                let newer = self.source.newer().await;
                token.claims(&newer)?
            }
            known => known?,
        };
        self.config.judge(&claims, now)
    }
}

/// A token in its parts. Nothing of it is believed yet.
struct UnverifiedJwt<'a> {
    algorithm: Algorithm,
    key: Option<String>,
    signed: &'a str,
    claims: &'a str,
    signature: Vec<u8>,
}

impl<'a> UnverifiedJwt<'a> {
    fn new(token: &'a str) -> Result<Self, JwtError> {
        if token.len() > LONGEST {
            return Err(JwtError::Malformed);
        }
        let (signed, signature) = token.rsplit_once('.').ok_or(JwtError::Malformed)?;
        let (header, claims) = signed.split_once('.').ok_or(JwtError::Malformed)?;
        let signature = BASE64.decode(signature).map_err(|_| JwtError::Malformed)?;
        let header = object(header)?;
        if header.contains_key("crit") {
            return Err(JwtError::Critical);
        }
        let algorithm = header.get("alg").and_then(Value::as_str).and_then(Algorithm::named);
        let key = match header.get("kid") {
            Some(Value::String(id)) => Some(id.clone()),
            Some(_) => return Err(JwtError::Malformed),
            None => None,
        };
        Ok(Self { algorithm: algorithm.ok_or(JwtError::Algorithm)?, key, signed, claims, signature })
    }

    /// What it says, if one of the keys has signed it.
    fn claims(&self, keys: &JwkSet) -> Result<Map<String, Value>, JwtError> {
        let key = keys.find(self.key.as_deref(), self.algorithm).ok_or(JwtError::Key)?;
        if !key.has_signed(self.signed.as_bytes(), &self.signature) {
            return Err(JwtError::Signature);
        }
        object(self.claims)
    }
}

fn object(part: &str) -> Result<Map<String, Value>, JwtError> {
    let bytes = BASE64.decode(part).map_err(|_| JwtError::Malformed)?;
    serde_json::from_slice(&bytes).map_err(|_| JwtError::Malformed)
}

impl JwtConfig {
    /// The user whom the claims name, if they are meant for this server and for now.
    fn judge(&self, claims: &Map<String, Value>, now: u64) -> Result<String, JwtError> {
        #[expect(clippy::cast_precision_loss, reason = "seconds since 1970")]
        let now = now as f64;
        let time = |name: &str| claims.get(name).map(Value::as_f64);
        let text = |name: &str| claims.get(name).and_then(Value::as_str);
        match time("exp") {
            Some(Some(end)) if now < end + LEEWAY => {}
            Some(_) | None => return Err(JwtError::Expired),
        }
        match time("nbf") {
            Some(Some(begin)) if now + LEEWAY >= begin => {}
            Some(_) => return Err(JwtError::Early),
            None => {}
        }
        if text("iss") != Some(&self.issuer) {
            return Err(JwtError::Issuer);
        }
        let is_meant = match claims.get("aud") {
            Some(Value::Array(all)) => all.iter().any(|one| *one == *self.audience),
            Some(one) => *one == *self.audience,
            None => false,
        };
        if !is_meant {
            return Err(JwtError::Audience);
        }
        text(&self.user_claim).filter(|user| !user.is_empty()).map(str::to_owned).ok_or(JwtError::User)
    }
}
