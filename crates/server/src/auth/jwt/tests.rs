//! Valid tokens, and every reason to refuse one.

use super::*;
use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair},
};
use serde_json::json;
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

const NOW: u64 = 1_800_000_000;

enum Signer {
    P256(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

impl Signer {
    fn p256() -> Self {
        let rng = SystemRandom::new();
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &rng).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8.as_ref(), &rng).unwrap();
        Self::P256(pair)
    }

    fn ed25519() -> Self {
        let pkcs8 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Self::Ed25519(Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).unwrap())
    }

    fn jwk(&self, id: &str) -> Value {
        match self {
            Self::P256(pair) => {
                let point = pair.public_key().as_ref();
                let (x, y) = (BASE64.encode(&point[1..33]), BASE64.encode(&point[33..]));
                json!({"kty": "EC", "crv": "P-256", "kid": id, "x": x, "y": y, "use": "sig"})
            }
            Self::Ed25519(pair) => {
                json!({"kty": "OKP", "crv": "Ed25519", "kid": id, "x": BASE64.encode(pair.public_key().as_ref())})
            }
        }
    }

    fn sign(&self, header: &Value, claims: &Value) -> String {
        let signed = format!("{}.{}", BASE64.encode(header.to_string()), BASE64.encode(claims.to_string()));
        let signature = match self {
            Self::P256(pair) => pair.sign(&SystemRandom::new(), signed.as_bytes()).unwrap().as_ref().to_vec(),
            Self::Ed25519(pair) => pair.sign(signed.as_bytes()).as_ref().to_vec(),
        };
        format!("{signed}.{}", BASE64.encode(signature))
    }
}

fn config(jwks: &str) -> JwtConfig {
    JwtConfig {
        jwks: jwks.to_owned(),
        issuer: "https://issuer.example".to_owned(),
        audience: "lango".to_owned(),
        user_claim: "sub".to_owned(),
    }
}

fn claims() -> Value {
    json!({"iss": "https://issuer.example", "aud": "lango", "sub": "ann", "exp": NOW + 300})
}

fn without(mut claims: Value, name: &str) -> Value {
    claims.as_object_mut().unwrap().remove(name);
    claims
}

fn with(mut claims: Value, name: &str, value: Value) -> Value {
    claims[name] = value;
    claims
}

fn keys(all: &[Value]) -> JwkSet {
    JwkSet::parse(json!({ "keys": all }).to_string().as_bytes()).unwrap()
}

fn verify(token: &str, keys: &JwkSet) -> Result<String, JwtError> {
    let claims = UnverifiedJwt::new(token)?.claims(keys)?;
    config("").check(&claims, NOW)
}

#[test]
fn a_token_signed_by_a_known_key_authenticates_its_user() {
    for (signer, algorithm) in [(Signer::p256(), "ES256"), (Signer::ed25519(), "EdDSA")] {
        let token = signer.sign(&json!({"alg": algorithm, "kid": "k"}), &claims());
        assert_eq!(verify(&token, &keys(&[signer.jwk("k")])), Ok("ann".to_owned()), "{algorithm}");
    }
}

/// The example of RFC 7515, A.2: the only token of these tests that another program has signed.
#[test]
fn the_rs256_example_of_rfc_7515_is_valid() {
    let key = json!({"kty": "RSA", "e": "AQAB", "n": "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ"});
    let token = "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw";
    let claims = UnverifiedJwt::new(token).unwrap().claims(&keys(std::slice::from_ref(&key))).unwrap();
    assert_eq!(claims["iss"], "joe");
    let altered = token.replace(".cC4h", ".dC4h");
    assert_eq!(verify(&altered, &keys(&[key])), Err(JwtError::Signature));
}

#[test]
fn claims_are_checked() {
    let signer = Signer::ed25519();
    let keys = keys(&[signer.jwk("k")]);
    let verify = |claims: &Value| verify(&signer.sign(&json!({"alg": "EdDSA", "kid": "k"}), claims), &keys);
    for (invalid, error) in [
        (with(claims(), "exp", json!(NOW - 61)), JwtError::Expired),
        (with(claims(), "exp", json!("never")), JwtError::Expired),
        (without(claims(), "exp"), JwtError::Expired),
        (with(claims(), "nbf", json!(NOW + 61)), JwtError::NotYetValid),
        (with(claims(), "nbf", json!("now")), JwtError::NotYetValid),
        (with(claims(), "iss", json!("https://other.example")), JwtError::Issuer),
        (without(claims(), "iss"), JwtError::Issuer),
        (with(claims(), "aud", json!("other")), JwtError::Audience),
        (with(claims(), "aud", json!(["other"])), JwtError::Audience),
        (without(claims(), "aud"), JwtError::Audience),
        (with(claims(), "sub", json!("")), JwtError::User),
        (with(claims(), "sub", json!(7)), JwtError::User),
        (without(claims(), "sub"), JwtError::User),
    ] {
        assert_eq!(verify(&invalid), Err(error), "{invalid}");
    }
    for valid in [
        with(claims(), "aud", json!(["other", "lango"])),
        with(claims(), "nbf", json!(NOW)),
        with(claims(), "exp", json!(NOW - 59)),
    ] {
        assert_eq!(verify(&valid), Ok("ann".to_owned()), "{valid}");
    }
}

#[test]
fn a_token_cannot_choose_its_algorithm() {
    let (signer, other) = (Signer::p256(), Signer::ed25519());
    let known = keys(&[signer.jwk("k"), other.jwk("o")]);
    for algorithm in ["none", "None", "HS256", "HS512", "RS512", "PS256", "ES384", ""] {
        let token = signer.sign(&json!({"alg": algorithm, "kid": "k"}), &claims());
        assert_eq!(verify(&token, &known), Err(JwtError::Algorithm), "{algorithm}");
        let (unsigned, _) = token.rsplit_once('.').unwrap();
        assert_eq!(verify(&format!("{unsigned}."), &known), Err(JwtError::Algorithm), "{algorithm}");
    }
    let token = |header: Value| signer.sign(&header, &claims());
    assert_eq!(verify(&token(json!({"alg": "EdDSA", "kid": "k"})), &known), Err(JwtError::Key));
    assert_eq!(verify(&token(json!({"alg": "EdDSA", "kid": "o"})), &known), Err(JwtError::Signature));
    assert_eq!(verify(&token(json!({"alg": "ES256", "kid": "x"})), &known), Err(JwtError::Key));
    assert_eq!(verify(&token(json!({"alg": "ES256"})), &known), Err(JwtError::Key), "two keys and no key id");
    assert_eq!(verify(&token(json!({"alg": "ES256"})), &keys(&[signer.jwk("k")])), Ok("ann".to_owned()));
    assert_eq!(
        verify(&token(json!({"alg": "ES256", "kid": "k", "crit": ["x"]})), &known),
        Err(JwtError::Critical)
    );
    let own = json!({"alg": "ES256", "kid": "k", "jwk": other.jwk("k")});
    assert_eq!(verify(&other.sign(&own, &claims()), &known), Err(JwtError::Signature));
}

#[test]
fn an_altered_token_is_refused() {
    let signer = Signer::ed25519();
    let known = keys(&[signer.jwk("k")]);
    let token = signer.sign(&json!({"alg": "EdDSA", "kid": "k"}), &claims());
    let parts: Vec<&str> = token.split('.').collect();
    let bob = BASE64.encode(with(claims(), "sub", json!("bob")).to_string());
    assert_eq!(verify(&format!("{}.{bob}.{}", parts[0], parts[2]), &known), Err(JwtError::Signature));
    for invalid in [
        "",
        ".",
        "..",
        "a.b",
        "a.b.c",
        &token[1..],
        &format!("{token}.x"),
        &format!("{token}="),
        &"a".repeat(20_000),
    ] {
        assert!(verify(invalid, &known).is_err(), "{invalid}");
    }
}

#[test]
fn keys_that_are_not_for_signatures_are_skipped() {
    let signer = Signer::p256();
    let mut encryption = signer.jwk("k");
    encryption["use"] = json!("enc");
    let mut other = signer.jwk("k");
    other["alg"] = json!("ES384");
    assert!(keys(&[encryption, other, json!({"kty": "oct", "k": "AAAA"}), json!({"kty": "EC"})]).is_empty());
}

#[tokio::test]
async fn a_changed_file_is_reloaded() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("jwks.json");
    let write = |signer: &Signer| {
        let new = home.path().join("new.json");
        std::fs::write(&new, json!({"keys": [signer.jwk("k")]}).to_string()).unwrap();
        std::fs::rename(&new, &path).unwrap();
    };
    let (old, new) = (Signer::ed25519(), Signer::p256());
    write(&old);
    let jwt = JwtVerifier::open(config(&path.to_string_lossy())).unwrap();
    let token = new.sign(&json!({"alg": "ES256", "kid": "k"}), &claims());
    assert_eq!(jwt.verify(&token, NOW).await, Err(JwtError::Key));
    write(&new);
    assert_eq!(jwt.verify(&token, NOW).await, Ok("ann".to_owned()));
}

/// An HTTP server that answers each request with the next body. Returns its URL and the number of requests.
async fn serve_jwks(bodies: Vec<String>) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/jwks", listener.local_addr().unwrap());
    let requests = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&requests);
    tokio::spawn(async move {
        for body in bodies {
            let (mut socket, _) = listener.accept().await.unwrap();
            let _ = socket.read(&mut [0; 4096]).await.unwrap();
            count.fetch_add(1, Ordering::SeqCst);
            let head = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length:";
            socket.write_all(format!("{head} {}\r\n\r\n{body}", body.len()).as_bytes()).await.unwrap();
        }
    });
    (url, requests)
}

#[tokio::test]
async fn a_url_is_fetched_on_demand_and_at_a_limited_rate_for_unknown_keys() {
    let (old, new) = (Signer::ed25519(), Signer::p256());
    let sets = [json!({"keys": [old.jwk("old")]}), json!({"keys": [old.jwk("old"), new.jwk("new")]})];
    let (url, requests) = serve_jwks(sets.iter().map(Value::to_string).collect()).await;
    let jwt = JwtVerifier::open(config(&url)).unwrap();
    assert_eq!(requests.load(Ordering::SeqCst), 0, "no token was verified yet");
    let known = old.sign(&json!({"alg": "EdDSA", "kid": "old"}), &claims());
    let unknown = new.sign(&json!({"alg": "ES256", "kid": "new"}), &claims());
    for _ in 0..3 {
        assert_eq!(jwt.verify(&known, NOW).await, Ok("ann".to_owned()));
        assert_eq!(jwt.verify(&unknown, NOW).await, Err(JwtError::Key));
    }
    assert_eq!(requests.load(Ordering::SeqCst), 1);
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(31)).await;
    tokio::time::resume();
    assert_eq!(jwt.verify(&unknown, NOW).await, Ok("ann".to_owned()));
    assert_eq!((jwt.verify(&known, NOW).await.is_ok(), requests.load(Ordering::SeqCst)), (true, 2));
}

#[tokio::test]
async fn without_keys_every_token_is_refused() {
    let (url, _) = serve_jwks(vec!["no keys".to_owned()]).await;
    let signer = Signer::ed25519();
    let token = signer.sign(&json!({"alg": "EdDSA", "kid": "k"}), &claims());
    assert_eq!(JwtVerifier::open(config(&url)).unwrap().verify(&token, NOW).await, Err(JwtError::Key));
}

#[test]
fn insecure_urls_and_missing_files_are_refused() {
    assert!(matches!(JwtVerifier::open(config("http://issuer.example/jwks")), Err(JwksError::Insecure(_))));
    assert!(matches!(JwtVerifier::open(config("nowhere/jwks.json")), Err(JwksError::File { .. })));
}
