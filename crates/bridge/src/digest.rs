//! The SHA-256 digest of bytes in hexadecimal digits: of recipes, request bodies and requests with an idempotency key.

use ring::digest::{SHA256, digest};
use std::fmt::Write;

pub(crate) fn sha256_hex(bytes: &[u8]) -> String {
    digest(&SHA256, bytes).as_ref().iter().fold(String::with_capacity(64), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}
