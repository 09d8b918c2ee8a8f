//! JWTs that must not be accepted.

use crate::serve_auth::jwt::Issuer;
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use ring::hmac;
use serde_json::{Value, json};
use std::time::{SystemTime, UNIX_EPOCH};

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// The header and the claims of a valid token for Ann.
fn header_and_claims() -> (Value, Value) {
    let claims = json!({"iss": "https://issuer.example", "aud": "lango", "sub": "ann", "exp": now() + 600});
    (json!({"alg": "EdDSA", "kid": "now"}), claims)
}

pub(super) fn valid(issuer: &Issuer) -> String {
    let (header, claims) = header_and_claims();
    issuer.token(&header, &claims)
}

/// Tokens for Ann, as `Authorization` headers.
pub(super) fn invalid(issuer: &Issuer) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    let now = now();
    let (header, claims) = header_and_claims();
    let with = |base: &Value, key: &str, value: Value| {
        let mut changed = base.clone();
        changed[key] = value;
        changed
    };
    for (key, value) in [
        ("alg", json!("none")),
        ("alg", json!("None")),
        ("alg", json!("HS256")),
        ("alg", json!("RS256")),
        ("alg", json!("ES256")),
        ("alg", json!(["EdDSA"])),
        ("alg", Value::Null),
        ("kid", json!("old")),
        ("kid", json!("../../etc/passwd")),
        ("kid", json!("now' OR '1'='1")),
        ("kid", json!(1)),
        ("crit", json!(["exp"])),
        ("crit", json!([])),
        ("b64", json!(false)),
        ("typ", json!("logout+jwt")),
    ] {
        let id = format!("header {key} = {value}");
        // `b64` without `crit` has no meaning (RFC 7797), so it is combined.
        let base = if key == "b64" { with(&header, "crit", json!(["b64"])) } else { header.clone() };
        all.push((id, issuer.token(&with(&base, key, value), &claims)));
    }
    for (key, value) in [
        ("exp", json!(now - 600)),
        ("exp", Value::Null),
        ("exp", json!("never")),
        ("exp", json!(-1)),
        ("nbf", json!(now + 3600)),
        ("iat", json!(now + 3600)),
        ("iss", json!("https://issuer.example/")),
        ("iss", json!(["https://issuer.example"])),
        ("iss", Value::Null),
        ("aud", json!("other")),
        ("aud", json!([])),
        ("aud", json!("lango2")),
        ("sub", json!("")),
        ("sub", json!(["ann"])),
        ("sub", Value::Null),
    ] {
        let id = format!("claim {key} = {value}");
        all.push((id, issuer.token(&header, &with(&claims, key, value))));
    }
    all.extend(forged(issuer, &header.to_string(), &claims.to_string()));
    all
}

/// Tokens with a wrong signature or shape.
fn forged(issuer: &Issuer, header: &str, claims: &str) -> Vec<(String, String)> {
    let good = issuer.token(&serde_json::from_str(header).unwrap(), &serde_json::from_str(claims).unwrap());
    let (signed, signature) = good.rsplit_once('.').unwrap();
    let payload = BASE64.encode(claims);
    let raw = |header: &str, claims: &str| issuer.sign(&BASE64.encode(header), &BASE64.encode(claims));
    let hs256 = format!("{}.{payload}", BASE64.encode(r#"{"alg":"HS256","kid":"now"}"#));
    let tag = |key: &[u8]| {
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), hs256.as_bytes());
        format!("Bearer {hs256}.{}", BASE64.encode(tag))
    };
    let jwks: Value = serde_json::from_str(&issuer.jwks()).unwrap();
    let x = jwks["keys"][0]["x"].as_str().unwrap();
    let duplicate = claims.replacen('{', r#"{"sub":"bob","#, 1);
    let escaped = claims.replacen('{', "{\"s\\u0075b\":\"bob\",", 1);
    let other = Issuer::new();
    let embedded: Value = serde_json::from_str(&other.jwks()).unwrap();
    let own_key = json!({"alg": "EdDSA", "kid": "now", "jwk": embedded["keys"][0]});
    let rows = [
        ("without a signature", format!("{signed}.")),
        ("two parts", signed.to_owned()),
        ("four parts", format!("{good}.x")),
        ("truncated signature", good[..good.len() - 2].to_owned()),
        ("padded signature", format!("{good}==")),
        ("other claims", good.replacen(&payload, &BASE64.encode(claims.replace("ann", "eve")), 1)),
        ("signature of zeros", format!("{signed}.{}", BASE64.encode([0; 64]))),
        ("signature of another key", other.sign(&BASE64.encode(header), &payload)),
        ("key in the header", other.token(&own_key, &serde_json::from_str(claims).unwrap())),
        ("HS256 with the public key", tag(&BASE64.decode(x).unwrap())),
        ("HS256 with the text of the public key", tag(x.as_bytes())),
        ("HS256 with the key set", tag(issuer.jwks().as_bytes())),
        ("HS256 with an empty key", tag(b"")),
        ("duplicate claim", raw(header, &duplicate)),
        ("duplicate claim with an escape", raw(header, &escaped)),
        ("duplicate alg", raw(&header.replacen('{', r#"{"alg":"none","#, 1), claims)),
        ("claims are a list", raw(header, "[]")),
        ("claims are no JSON", raw(header, "ann")),
        ("header is no JSON", raw("EdDSA", claims)),
        ("JSON serialization", format!("Bearer {{\"payload\":\"{payload}\",\"signature\":\"{signature}\"}}")),
    ];
    rows.map(|(id, token)| (id.to_owned(), token)).into()
}
