//! Bodies that are compressed with gzip. No request asks for it; some proxies compress anyway.

use crate::Error;
use bytes::Bytes;
use flate2::write::GzDecoder;
use reqwest::header::{CONTENT_ENCODING, HeaderMap};
use std::io::Write as _;

/// Decompresses a body chunk by chunk.
pub(super) struct Inflater(GzDecoder<Vec<u8>>);

/// The decoder for the body with these headers; `None` for a body that is not compressed.
pub(super) fn for_headers(provider: &str, headers: &HeaderMap) -> Result<Option<Inflater>, Error> {
    let encoding =
        headers.get(CONTENT_ENCODING).and_then(|encoding| encoding.to_str().ok()).unwrap_or_default();
    match encoding.trim().to_ascii_lowercase().as_str() {
        "" | "identity" => Ok(None),
        "gzip" | "x-gzip" => Ok(Some(Inflater(GzDecoder::new(Vec::new())))),
        other => {
            let message = format!("the body is compressed ({other}), which the request did not allow");
            Err(Error::Protocol { provider: provider.to_owned(), message })
        }
    }
}

impl Inflater {
    /// The bytes that this chunk completes, possibly none.
    pub(super) fn inflate(&mut self, provider: &str, chunk: &[u8]) -> Result<Bytes, Error> {
        let inflated = self.0.write_all(chunk).and_then(|()| self.0.flush());
        let broken = || Error::Protocol {
            provider: provider.to_owned(),
            message: "the body cannot be decompressed".to_owned(),
        };
        inflated.map_err(|_| broken())?;
        Ok(std::mem::take(self.0.get_mut()).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::GzEncoder};

    fn inflater(encoding: &str) -> Result<Option<Inflater>, Error> {
        for_headers("p", &HeaderMap::from_iter([(CONTENT_ENCODING, encoding.parse().unwrap())]))
    }

    #[test]
    fn chunks_of_one_byte_are_decompressed() {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all("data: Grüß dich\n\n".repeat(100).as_bytes()).unwrap();
        let compressed = encoder.finish().unwrap();
        let mut inflater = inflater(" GZIP ").unwrap().unwrap();
        let chunks = compressed.iter().map(|byte| inflater.inflate("p", &[*byte]).unwrap());
        let all: Vec<u8> = chunks.flatten().collect();
        assert_eq!(String::from_utf8(all).unwrap(), "data: Grüß dich\n\n".repeat(100));
    }

    #[test]
    fn other_compression_is_a_clear_error() {
        assert!(inflater("identity").unwrap().is_none());
        let error = inflater("br").err().unwrap().to_string();
        assert_eq!(
            error,
            "p sent a response that cannot be parsed: the body is compressed (br), which the request did not allow"
        );
        let broken = inflater("gzip").unwrap().unwrap().inflate("p", b"not compressed").unwrap_err();
        assert_eq!(
            broken.to_string(),
            "p sent a response that cannot be parsed: the body cannot be decompressed"
        );
    }
}
