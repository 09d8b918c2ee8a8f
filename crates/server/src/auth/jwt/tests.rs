//! Valid tokens, and every reason to refuse one.

mod fetch;
mod signature_vectors;

use super::*;
use ring::{
    rand::SystemRandom,
    rsa::{KeyPairComponents, PublicKeyComponents},
    signature::{
        ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair,
        EcdsaSigningAlgorithm, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RSA_PSS_SHA256, RsaEncoding,
        RsaKeyPair,
    },
};
use serde_json::json;

const NOW: u64 = 1_800_000_000;

enum Signer {
    P256(EcdsaKeyPair),
    P384(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
    Rsa(Box<RsaKeyPair>),
}

impl Signer {
    fn p256() -> Self {
        Self::P256(ecdsa_pair(&ECDSA_P256_SHA256_FIXED_SIGNING))
    }

    fn p384() -> Self {
        Self::P384(ecdsa_pair(&ECDSA_P384_SHA384_FIXED_SIGNING))
    }

    /// The key of RFC 7515, A.2: ring does not generate RSA keys.
    fn rsa() -> Self {
        let key: Value = serde_json::from_str(include_str!("tests/rfc7515-a2-key.json")).unwrap();
        let part = |name: &str| BASE64.decode(key[name].as_str().unwrap()).unwrap();
        let components = KeyPairComponents {
            public_key: PublicKeyComponents { n: part("n"), e: part("e") },
            d: part("d"),
            p: part("p"),
            q: part("q"),
            dP: part("dp"),
            dQ: part("dq"),
            qInv: part("qi"),
        };
        Self::Rsa(Box::new(RsaKeyPair::from_components(&components).unwrap()))
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
            Self::P384(pair) => {
                let point = pair.public_key().as_ref();
                let (x, y) = (BASE64.encode(&point[1..49]), BASE64.encode(&point[49..]));
                json!({"kty": "EC", "crv": "P-384", "kid": id, "x": x, "y": y, "key_ops": ["verify"]})
            }
            Self::Rsa(pair) => {
                let public = PublicKeyComponents::<Vec<u8>>::from(pair.public());
                json!({"kty": "RSA", "kid": id, "n": BASE64.encode(public.n), "e": BASE64.encode(public.e)})
            }
            Self::Ed25519(pair) => {
                json!({"kty": "OKP", "crv": "Ed25519", "kid": id, "x": BASE64.encode(pair.public_key().as_ref())})
            }
        }
    }

    fn sign(&self, header: &Value, claims: &Value) -> String {
        self.sign_text(&header.to_string(), &claims.to_string())
    }

    fn sign_text(&self, header: &str, claims: &str) -> String {
        let signed = format!("{}.{}", BASE64.encode(header), BASE64.encode(claims));
        let signature = match self {
            Self::Rsa(pair) => {
                let padding: &dyn RsaEncoding =
                    if header.contains("PS256") { &RSA_PSS_SHA256 } else { &RSA_PKCS1_SHA256 };
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(padding, &SystemRandom::new(), signed.as_bytes(), &mut signature).unwrap();
                signature
            }
            Self::P256(pair) | Self::P384(pair) => {
                pair.sign(&SystemRandom::new(), signed.as_bytes()).unwrap().as_ref().to_vec()
            }
            Self::Ed25519(pair) => pair.sign(signed.as_bytes()).as_ref().to_vec(),
        };
        format!("{signed}.{}", BASE64.encode(signature))
    }
}

fn ecdsa_pair(algorithm: &'static EcdsaSigningAlgorithm) -> EcdsaKeyPair {
    let rng = SystemRandom::new();
    let pkcs8 = EcdsaKeyPair::generate_pkcs8(algorithm, &rng).unwrap();
    EcdsaKeyPair::from_pkcs8(algorithm, pkcs8.as_ref(), &rng).unwrap()
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
    JwkSet::parse(json!({ "keys": all }).to_string().as_bytes()).unwrap().0
}

fn verify(token: &str, keys: &JwkSet) -> Result<String, JwtError> {
    let claims = UnverifiedJwt::new(token)?.claims(keys)?;
    config("").check(&claims, NOW)
}

#[test]
fn a_token_signed_by_a_known_key_authenticates_its_user() {
    for (signer, algorithm) in [
        (Signer::p256(), "ES256"),
        (Signer::p384(), "ES384"),
        (Signer::ed25519(), "EdDSA"),
        (Signer::ed25519(), "Ed25519"),
        (Signer::rsa(), "RS256"),
        (Signer::rsa(), "PS256"),
    ] {
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
        (with(claims(), "iat", json!(NOW + 61)), JwtError::NotYetValid),
        (with(claims(), "iat", json!("now")), JwtError::NotYetValid),
        (with(claims(), "iss", json!("https://issuer.example/")), JwtError::Issuer),
        (with(claims(), "iss", json!(["https://issuer.example"])), JwtError::Issuer),
        (with(claims(), "aud", json!("lango2")), JwtError::Audience),
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
        with(claims(), "iat", json!(NOW + 59)),
        with(claims(), "exp", json!(NOW - 59)),
    ] {
        assert_eq!(verify(&valid), Ok("ann".to_owned()), "{valid}");
    }
}

#[test]
fn a_token_cannot_choose_its_algorithm() {
    let (signer, other) = (Signer::p256(), Signer::ed25519());
    let known = keys(&[signer.jwk("k"), other.jwk("o")]);
    for algorithm in
        ["none", "None", "HS256", "HS512", "RS512", "PS512", "ES512", "ES256K", "Ed448", "es256", ""]
    {
        let token = signer.sign(&json!({"alg": algorithm, "kid": "k"}), &claims());
        assert_eq!(verify(&token, &known), Err(JwtError::Algorithm), "{algorithm}");
        let (unsigned, _) = token.rsplit_once('.').unwrap();
        assert_eq!(verify(&format!("{unsigned}."), &known), Err(JwtError::Algorithm), "{algorithm}");
    }
    let token = |header: Value| signer.sign(&header, &claims());
    assert_eq!(verify(&token(json!({"alg": "EdDSA", "kid": "k"})), &known), Err(JwtError::Key));
    assert_eq!(verify(&token(json!({"alg": "EdDSA", "kid": "o"})), &known), Err(JwtError::Signature));
    assert_eq!(verify(&token(json!({"alg": "ES256", "kid": "x"})), &known), Err(JwtError::Key));
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
    let key = Signer::p256().jwk("k");
    let unusable = [
        with(key.clone(), "use", json!("enc")),
        with(key.clone(), "key_ops", json!(["sign"])),
        with(key.clone(), "alg", json!("ES384")),
        with(key.clone(), "alg", json!("ECDH-ES")),
        with(key.clone(), "crv", json!("P-384")),
        with(key, "x", json!("AAAA")),
        json!({"kty": "oct", "k": "AAAA"}),
        json!({"kty": "EC"}),
    ];
    assert!(keys(&unusable).is_empty());
}

#[test]
fn without_a_key_id_the_only_key_that_fits_the_algorithm_verifies() {
    let (p256, p384, other, rsa) = (Signer::p256(), Signer::p384(), Signer::p256(), Signer::rsa());
    let ok = Ok("ann".to_owned());
    let anonymous = |signer: &Signer| without(signer.jwk(""), "kid");
    let token = |id: Option<&str>| match id {
        Some(id) => p256.sign(&json!({"alg": "ES256", "kid": id}), &claims()),
        None => p256.sign(&json!({"alg": "ES256"}), &claims()),
    };
    let named = keys(&[p256.jwk("a"), p384.jwk("b"), rsa.jwk("c")]);
    assert_eq!(verify(&token(None), &named), ok, "the token has no id");
    assert_eq!(verify(&token(Some("b")), &named), Err(JwtError::Key), "the id of a key of another type");
    assert_eq!(verify(&token(Some("x")), &named), Err(JwtError::Key), "an unknown id");
    let unnamed = keys(&[anonymous(&p256), anonymous(&p384), anonymous(&rsa)]);
    assert_eq!(verify(&token(None), &unnamed), ok);
    assert_eq!(verify(&token(Some("x")), &unnamed), ok, "the keys have no ids");
    let mixed = keys(&[p256.jwk("a"), anonymous(&other)]);
    assert_eq!(verify(&token(Some("a")), &mixed), ok);
    assert_eq!(verify(&token(None), &mixed), Err(JwtError::Key), "two keys fit");
    assert_eq!(verify(&token(Some("x")), &mixed), Err(JwtError::Key), "some keys have ids");
    let twice = keys(&[p256.jwk("a"), other.jwk("a")]);
    assert_eq!(verify(&token(Some("a")), &twice), Err(JwtError::Key), "two keys have the id");
    let encryption = with(other.jwk("b"), "use", json!("enc"));
    assert_eq!(verify(&token(None), &keys(&[p256.jwk("a"), encryption])), ok);
    assert_eq!(verify(&token(None), &keys(&[])), Err(JwtError::Key));
}

#[test]
fn the_algorithm_of_a_key_restricts_its_tokens() {
    let rsa = Signer::rsa();
    let token = |algorithm: &str| rsa.sign(&json!({"alg": algorithm, "kid": "k"}), &claims());
    let pss = keys(&[with(rsa.jwk("k"), "alg", json!("PS256"))]);
    assert_eq!(verify(&token("PS256"), &pss), Ok("ann".to_owned()));
    assert_eq!(verify(&token("RS256"), &pss), Err(JwtError::Key));
    // The same key, listed once for each algorithm.
    let both = keys(&["PS256", "RS256"].map(|algorithm| with(rsa.jwk("k"), "alg", json!(algorithm))));
    assert_eq!(verify(&token("RS256"), &both), Ok("ann".to_owned()));
    // The signature of one padding is not one of the other.
    let swapped = token("PS256").rsplit_once('.').unwrap().1.to_owned();
    let (signed, _) =
        token("RS256").rsplit_once('.').map(|(signed, end)| (signed.to_owned(), end.len())).unwrap();
    assert_eq!(verify(&format!("{signed}.{swapped}"), &both), Err(JwtError::Signature));
}

#[test]
fn types_other_than_those_of_access_tokens_are_refused() {
    let signer = Signer::ed25519();
    let keys = keys(&[signer.jwk("k")]);
    let verify = |typ: &Value| {
        verify(&signer.sign(&json!({"alg": "EdDSA", "kid": "k", "typ": typ}), &claims()), &keys)
    };
    for accepted in
        ["JWT", "jwt", "application/jwt", "at+jwt", "AT+JWT", "application/at+jwt", "Application/AT+JWT"]
    {
        assert_eq!(verify(&json!(accepted)), Ok("ann".to_owned()), "{accepted}");
    }
    let refused = ["", "JWS", "logout+jwt", "dpop+jwt", "secevent+jwt", "application/", "JWT ", "at+jwt;x"];
    for refused in refused.map(Value::from).into_iter().chain([json!(null), json!(1), json!(["JWT"])]) {
        assert_eq!(verify(&refused), Err(JwtError::Type), "{refused}");
    }
}

#[test]
fn duplicate_members_are_refused_in_header_and_claims() {
    let signer = Signer::ed25519();
    let keys = keys(&[signer.jwk("k")]);
    let (header, claims) = (r#"{"alg":"EdDSA","kid":"k"}"#, claims().to_string());
    assert_eq!(verify(&signer.sign_text(header, &claims), &keys), Ok("ann".to_owned()));
    for header in [
        r#"{"alg":"EdDSA","kid":"k","alg":"EdDSA"}"#,
        r#"{"alg":"EdDSA","kid":"x","kid":"k"}"#,
        r#"{"alg":"EdDSA","kid":"k","k\u0069d":"k"}"#,
        r#"{"alg":"EdDSA","kid":"k","x":[{"a":1,"a":1}]}"#,
        r#"["EdDSA"]"#,
    ] {
        assert_eq!(verify(&signer.sign_text(header, &claims), &keys), Err(JwtError::Malformed), "{header}");
    }
    for extra in [r#""sub":"bob""#, r#""exp":1"#, r#""x":{"a":1,"a":2}"#] {
        let claims = format!("{},{extra}}}", claims.trim_end_matches('}'));
        assert_eq!(verify(&signer.sign_text(header, &claims), &keys), Err(JwtError::Malformed), "{extra}");
    }
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
    let jwt = JwtVerifier::open(config(&path.to_string_lossy()), |_| ()).unwrap();
    let token = new.sign(&json!({"alg": "ES256", "kid": "k"}), &claims());
    assert_eq!(jwt.verify(&token, NOW).await, Err(JwtError::Key));
    write(&new);
    assert_eq!(jwt.verify(&token, NOW).await, Ok("ann".to_owned()));
}

#[test]
fn insecure_urls_and_missing_files_are_refused() {
    assert!(matches!(
        JwtVerifier::open(config("http://issuer.example/jwks"), |_| ()),
        Err(JwksError::Insecure(_))
    ));
    assert!(matches!(JwtVerifier::open(config("nowhere/jwks.json"), |_| ()), Err(JwksError::File { .. })));
}

#[test]
fn an_invalid_key_is_skipped_and_a_repeated_one_counts_once() {
    let signer = Signer::ed25519();
    let set = json!({"keys": [{"kty": "OKP", "kid": 7}, signer.jwk("k"), {"kty": "EC", "x": 1}, 3, signer.jwk("k")]});
    let (keys, problems) = JwkSet::parse(set.to_string().as_bytes()).unwrap();
    assert_eq!(problems.len(), 3);
    assert!(problems[0].starts_with("key 0 is skipped: invalid type: integer `7`"), "{problems:?}");
    for header in [json!({"alg": "EdDSA", "kid": "k"}), json!({"alg": "EdDSA"})] {
        assert_eq!(verify(&signer.sign(&header, &claims()), &keys), Ok("ann".to_owned()), "{header}");
    }
    assert!(JwkSet::parse(b"{\"keys\": 1}").is_err());
}
