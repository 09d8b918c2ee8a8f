//! JWTs of an external issuer. Claims are read only after a key of the issuer has verified the signature.
//!
//! | module | contents |
//! |---|---|
//! | `jwks` | the keys of the issuer, and signature verification |
//! | `jwks_source` | loads the keys: from a file, or from a URL that is fetched again for an unknown key |
//! | `strict_json` | JSON objects without duplicate members |

mod jwks;
mod jwks_source;
mod strict_json;
#[cfg(test)]
mod tests;

pub use jwks_source::JwksError;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use jwks::{Algorithm, JwkSet};
use jwks_source::JwksSource;
use serde_json::{Map, Value};

/// Tolerated clock difference in seconds.
const LEEWAY: f64 = 60.0;
/// The maximum length of a token.
const MAX_LENGTH: usize = 16 * 1024;

/// The issuer whose tokens are accepted, and the audience that they must name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JwtConfig {
    /// A file, or an https URL.
    pub jwks: String,
    pub issuer: String,
    pub audience: String,
    /// The claim that holds the user.
    pub user_claim: String,
}

#[derive(Debug)]
pub struct JwtVerifier {
    config: JwtConfig,
    source: JwksSource,
}

/// Why a token is refused. Clients only learn that it is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JwtError {
    #[error("not a JWT")]
    Malformed,
    #[error("the algorithm is not RS256, PS256, ES256, ES384 or EdDSA")]
    Algorithm,
    #[error("the type is neither JWT nor at+jwt")]
    Type,
    #[error("the header has critical extensions, which are not supported")]
    Critical,
    #[error("the key is unknown, or several keys fit")]
    Key,
    #[error("the signature is invalid")]
    Signature,
    #[error("expired, or without an expiry")]
    Expired,
    #[error("not valid yet, or issued in the future")]
    NotYetValid,
    #[error("issued by another issuer")]
    Issuer,
    #[error("issued for another audience")]
    Audience,
    #[error("the user claim is missing or empty")]
    User,
}

impl JwtVerifier {
    /// `report` receives problems of single keys, which are skipped.
    pub fn open(config: JwtConfig, report: fn(&str)) -> Result<Self, JwksError> {
        Ok(Self { source: JwksSource::open(&config.jwks, report)?, config })
    }

    /// Verifies a token and returns its user.
    pub async fn verify(&self, token: &str, now: u64) -> Result<String, JwtError> {
        let token = UnverifiedJwt::new(token)?;
        let keys = self.source.keys().await;
        let claims = match token.claims(&keys) {
            // The issuer may have rotated its keys.
            Err(JwtError::Key) => {
                let refreshed = self.source.refreshed_keys().await;
                token.claims(&refreshed)?
            }
            claims => claims?,
        };
        self.config.check(&claims, now)
    }
}

/// A parsed token whose signature is not verified yet.
struct UnverifiedJwt<'a> {
    algorithm: Algorithm,
    key: Option<String>,
    signed: &'a str,
    claims: &'a str,
    signature: Vec<u8>,
}

impl<'a> UnverifiedJwt<'a> {
    fn new(token: &'a str) -> Result<Self, JwtError> {
        if token.len() > MAX_LENGTH {
            return Err(JwtError::Malformed);
        }
        let (signed, signature) = token.rsplit_once('.').ok_or(JwtError::Malformed)?;
        let (header, claims) = signed.split_once('.').ok_or(JwtError::Malformed)?;
        let signature = BASE64.decode(signature).map_err(|_| JwtError::Malformed)?;
        let header = decode_object(header)?;
        if header.contains_key("crit") {
            return Err(JwtError::Critical);
        }
        if !header.get("typ").is_none_or(is_accepted_type) {
            return Err(JwtError::Type);
        }
        let algorithm = header.get("alg").and_then(Value::as_str).and_then(Algorithm::from_name);
        let key = match header.get("kid") {
            Some(Value::String(id)) => Some(id.clone()),
            Some(_) => return Err(JwtError::Malformed),
            None => None,
        };
        Ok(Self { algorithm: algorithm.ok_or(JwtError::Algorithm)?, key, signed, claims, signature })
    }

    /// Verifies the signature and returns the claims.
    fn claims(&self, keys: &JwkSet) -> Result<Map<String, Value>, JwtError> {
        let key = keys.find(self.key.as_deref(), self.algorithm).ok_or(JwtError::Key)?;
        if !key.verifies(self.algorithm, self.signed.as_bytes(), &self.signature) {
            return Err(JwtError::Signature);
        }
        decode_object(self.claims)
    }
}

fn decode_object(part: &str) -> Result<Map<String, Value>, JwtError> {
    let bytes = BASE64.decode(part).map_err(|_| JwtError::Malformed)?;
    strict_json::parse_object(&bytes).map_err(|_| JwtError::Malformed)
}

/// Tokens of other kinds, for example logout tokens, do not give access.
fn is_accepted_type(typ: &Value) -> bool {
    const ACCEPTED: [&str; 4] = ["JWT", "application/jwt", "at+jwt", "application/at+jwt"];
    typ.as_str().is_some_and(|typ| ACCEPTED.iter().any(|accepted| accepted.eq_ignore_ascii_case(typ)))
}

impl JwtConfig {
    /// Checks times, issuer and audience, and returns the user.
    fn check(&self, claims: &Map<String, Value>, now: u64) -> Result<String, JwtError> {
        #[expect(clippy::cast_precision_loss, reason = "seconds since 1970")]
        let now = now as f64;
        let time = |name: &str| claims.get(name).map(Value::as_f64);
        let text = |name: &str| claims.get(name).and_then(Value::as_str);
        match time("exp") {
            Some(Some(expiry)) if now < expiry + LEEWAY => {}
            Some(_) | None => return Err(JwtError::Expired),
        }
        for name in ["nbf", "iat"] {
            match time(name) {
                Some(Some(start)) if now + LEEWAY >= start => {}
                Some(_) => return Err(JwtError::NotYetValid),
                None => {}
            }
        }
        if text("iss") != Some(&self.issuer) {
            return Err(JwtError::Issuer);
        }
        let has_audience = match claims.get("aud") {
            Some(Value::Array(all)) => all.iter().any(|one| *one == *self.audience),
            Some(one) => *one == *self.audience,
            None => false,
        };
        if !has_audience {
            return Err(JwtError::Audience);
        }
        text(&self.user_claim).filter(|user| !user.is_empty()).map(str::to_owned).ok_or(JwtError::User)
    }
}
