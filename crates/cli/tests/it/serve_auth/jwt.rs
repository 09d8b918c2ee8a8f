//! JWTs of a configured issuer.

use crate::common::{AuthServer, TestEnv};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use ring::{
    rand::SystemRandom,
    signature::{Ed25519KeyPair, KeyPair},
};
use serde_json::{Value, json};
use std::{
    fs,
    time::{SystemTime, UNIX_EPOCH},
};

pub(crate) struct Issuer(Ed25519KeyPair);

impl Issuer {
    pub(crate) fn new() -> Self {
        let pkcs8 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Self(Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).unwrap())
    }

    pub(crate) fn jwks(&self) -> String {
        let x = BASE64.encode(self.0.public_key().as_ref());
        json!({"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "now", "x": x}]}).to_string()
    }

    pub(crate) fn token(&self, header: &Value, claims: &Value) -> String {
        self.sign(&BASE64.encode(header.to_string()), &BASE64.encode(claims.to_string()))
    }

    /// A token of an encoded header and encoded claims.
    pub(crate) fn sign(&self, header: &str, claims: &str) -> String {
        let signed = format!("{header}.{claims}");
        let signature = BASE64.encode(self.0.sign(signed.as_bytes()));
        format!("Bearer {signed}.{signature}")
    }
}

fn claims(end: u64) -> Value {
    json!({"iss": "https://issuer.example", "aud": "lango", "email": "ann", "exp": end})
}

#[test]
fn jwt_authenticates_its_user_and_invalid_tokens_are_rejected() {
    let env = TestEnv::canned();
    let issuer = Issuer::new();
    let written = fs::read_to_string(env.workdir().join("lango.toml")).unwrap();
    let jwt = "[server.jwt]\njwks = \"jwks.json\"\nissuer = \"https://issuer.example\"\naudience = \"lango\"\nuserClaim = \"email\"\n";
    env.file("lango.toml", format!("{written}\n{jwt}"));
    env.file("jwks.json", issuer.jwks());
    let server = AuthServer::start(&env, &[]);
    let status = |token: &str, user: &str| {
        server.get(&format!("/apps/canned/users/{user}/sessions"), &[("authorization", token)]).status
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let header = json!({"alg": "EdDSA", "kid": "now"});
    let good = issuer.token(&header, &claims(now + 600));
    assert_eq!((status(&good, "ann"), status(&good, "bob")), (200, 404));
    let access = issuer.token(&json!({"alg": "EdDSA", "typ": "at+jwt"}), &claims(now + 600));
    assert_eq!(status(&access, "ann"), 200, "without a key id");
    let none = BASE64.encode(r#"{"alg":"none"}"#);
    let payload = BASE64.encode(claims(now + 600).to_string());
    for bad in [
        issuer.token(&header, &claims(now - 600)),
        issuer.token(&json!({"alg": "EdDSA", "kid": "old"}), &claims(now + 600)),
        issuer.token(&json!({"alg": "none", "kid": "now"}), &claims(now + 600)),
        issuer.token(&json!({"alg": "EdDSA", "kid": "now", "typ": "logout+jwt"}), &claims(now + 600)),
        issuer.token(&json!({"alg": "HS256", "kid": "now"}), &claims(now + 600)),
        Issuer::new().token(&header, &claims(now + 600)),
        format!("Bearer {none}.{payload}."),
    ] {
        assert_eq!(status(&bad, "ann"), 401, "{bad}");
    }
    let other = Issuer::new();
    env.file("jwks.json", other.jwks());
    assert_eq!(status(&other.token(&header, &claims(now + 600)), "ann"), 200);
    assert_eq!(status(&good, "ann"), 401);
}
