//! Tokens of a team's own issuer.

use crate::common::{Place, Running};
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

struct Issuer(Ed25519KeyPair);

impl Issuer {
    fn new() -> Self {
        let pkcs8 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Self(Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).unwrap())
    }

    fn jwks(&self) -> String {
        let x = BASE64.encode(self.0.public_key().as_ref());
        json!({"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "now", "x": x}]}).to_string()
    }

    fn token(&self, header: &Value, claims: &Value) -> String {
        let signed = format!("{}.{}", BASE64.encode(header.to_string()), BASE64.encode(claims.to_string()));
        let signature = BASE64.encode(self.0.sign(signed.as_bytes()));
        format!("Bearer {signed}.{signature}")
    }
}

fn claims(end: u64) -> Value {
    json!({"iss": "https://issuer.example", "aud": "lango", "email": "ann", "exp": end})
}

#[test]
fn a_token_of_the_issuer_is_its_user_and_any_other_is_nobody() {
    let place = Place::canned();
    let issuer = Issuer::new();
    let written = fs::read_to_string(place.here().join("lango.toml")).unwrap();
    let jwt = "[server.jwt]\njwks = \"jwks.json\"\nissuer = \"https://issuer.example\"\naudience = \"lango\"\nuserClaim = \"email\"\n";
    place.file("lango.toml", format!("{written}\n{jwt}"));
    place.file("jwks.json", issuer.jwks());
    let server = Running::start(&place, &[]);
    let asked = |token: &str, user: &str| {
        server.get(&format!("/apps/canned/users/{user}/sessions"), &[("authorization", token)]).status
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let header = json!({"alg": "EdDSA", "kid": "now"});
    let good = issuer.token(&header, &claims(now + 600));
    assert_eq!((asked(&good, "ann"), asked(&good, "bob")), (200, 404));
    let none = BASE64.encode(r#"{"alg":"none"}"#);
    let said = BASE64.encode(claims(now + 600).to_string());
    for bad in [
        issuer.token(&header, &claims(now - 600)),
        issuer.token(&json!({"alg": "EdDSA", "kid": "old"}), &claims(now + 600)),
        issuer.token(&json!({"alg": "none", "kid": "now"}), &claims(now + 600)),
        issuer.token(&json!({"alg": "HS256", "kid": "now"}), &claims(now + 600)),
        Issuer::new().token(&header, &claims(now + 600)),
        format!("Bearer {none}.{said}."),
    ] {
        assert_eq!(asked(&bad, "ann"), 401, "{bad}");
    }
    let other = Issuer::new();
    place.file("jwks.json", other.jwks());
    assert_eq!(asked(&other.token(&header, &claims(now + 600)), "ann"), 200);
    assert_eq!(asked(&good, "ann"), 401);
}
