//! Decompression of a body, up to a size limit.

use std::io::Read;

use flate2::read::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};

/// The data of a compressed body.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Decompressed {
    pub(super) data: Vec<u8>,
    /// Why the data is incomplete.
    pub(super) cut: Option<String>,
}

/// Decompresses at most `limit` bytes. `None` for an unknown content coding.
pub(super) fn decompress(body: &[u8], coding: &str, limit: usize) -> Option<Decompressed> {
    match coding.trim() {
        "gzip" | "x-gzip" => Some(read(MultiGzDecoder::new(body), limit)),
        // The standard says zlib; some servers send the bare deflate stream.
        "deflate" if body.first().is_some_and(|byte| byte & 0x0f == 8) => {
            Some(read(ZlibDecoder::new(body), limit))
        }
        "deflate" => Some(read(DeflateDecoder::new(body), limit)),
        _ => None,
    }
}

fn read(decoder: impl Read, limit: usize) -> Decompressed {
    let mut data = Vec::new();
    let result = decoder.take(limit as u64 + 1).read_to_end(&mut data);
    if data.len() > limit {
        data.truncate(limit);
        return Decompressed { data, cut: Some(format!("only the first {limit} bytes were decompressed")) };
    }
    let cut =
        result.err().map(|_| format!("the compressed data is damaged or cut after {} bytes", data.len()));
    Decompressed { data, cut }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::{
        Compression,
        write::{DeflateEncoder, GzEncoder, ZlibEncoder},
    };

    use super::*;

    fn gzip(data: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(data).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn gzip_zlib_and_bare_deflate_are_decompressed() {
        let mut zlib = ZlibEncoder::new(Vec::new(), Compression::default());
        zlib.write_all(b"text").unwrap();
        let mut bare = DeflateEncoder::new(Vec::new(), Compression::default());
        bare.write_all(b"text").unwrap();
        for (body, coding) in [
            (gzip(b"text"), "gzip"),
            ([gzip(b"te"), gzip(b"xt")].concat(), "x-gzip"),
            (zlib.finish().unwrap(), "deflate"),
            (bare.finish().unwrap(), "deflate"),
        ] {
            let found = decompress(&body, coding, 100).unwrap();
            assert_eq!(found, Decompressed { data: b"text".to_vec(), cut: None }, "{coding}");
        }
        assert_eq!(decompress(b"x", "br", 100), None);
        assert_eq!(decompress(b"x", "gzip, gzip", 100), None);
    }

    #[test]
    fn large_expansion_stops_at_the_limit() {
        let bomb = gzip(&vec![b'a'; 10_000_000]);
        assert!(bomb.len() < 20_000);
        let found = decompress(&bomb, "gzip", 1000).unwrap();
        assert_eq!(found.data.len(), 1000);
        assert_eq!(found.cut.unwrap(), "only the first 1000 bytes were decompressed");
    }

    #[test]
    fn damaged_data_is_used_up_to_the_damage() {
        let whole = gzip(&(0..5000_u32).flat_map(u32::to_le_bytes).collect::<Vec<u8>>());
        let found = decompress(&whole[..whole.len() / 2], "gzip", 100_000).unwrap();
        assert!(!found.data.is_empty() && found.data.len() < 20_000);
        assert!(found.cut.unwrap().starts_with("the compressed data is damaged or cut after"));
        assert_eq!(decompress(b"no gzip", "gzip", 10).unwrap().data, b"");
    }
}
