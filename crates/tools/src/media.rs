//! Detection of binary data by its first bytes.

/// How many bytes [`binary_kind`] needs.
pub(crate) const SNIFF_BYTES: usize = 8 * 1024;

const MAGIC: [(&[u8], &str); 15] = [
    (b"\x89PNG\r\n\x1a\n", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"RIFF", "a RIFF container (WebP, WAV or AVI)"),
    (b"%PDF-", "a PDF document"),
    (b"PK\x03\x04", "a ZIP archive (or a document packed as one)"),
    (b"\x1f\x8b", "gzip data"),
    (b"\x28\xb5\x2f\xfd", "zstd data"),
    (b"\xfd7zXZ\0", "xz data"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"\x7fELF", "an ELF program or library"),
    (b"\xcf\xfa\xed\xfe", "a Mach-O program or library"),
    (b"\0asm", "a WebAssembly module"),
    (b"SQLite format 3\0", "a SQLite database"),
    (b"OggS", "Ogg audio or video"),
];

/// The kind of binary data that begins with `sample`, or `None` for text, which may hold a few invalid bytes.
pub(crate) fn binary_kind(sample: &[u8]) -> Option<&'static str> {
    if sample.starts_with(b"\xff\xfe") || sample.starts_with(b"\xfe\xff") {
        return Some("UTF-16 text, which cannot be read here");
    }
    if let Some(kind) = magic(sample) {
        return Some(kind);
    }
    let invalid = sample.utf8_chunks().filter(|chunk| !chunk.invalid().is_empty()).count();
    let is_binary = sample.contains(&0) || invalid * 10 > sample.len();
    is_binary.then_some("binary data")
}

/// The kind of binary data whose magic bytes `sample` begins with.
pub(crate) fn magic(sample: &[u8]) -> Option<&'static str> {
    MAGIC.iter().find(|(magic, _)| sample.starts_with(magic)).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_with_an_invalid_byte_or_a_truncated_character_is_text() {
        assert_eq!(binary_kind(b""), None);
        assert_eq!(binary_kind("grüße".as_bytes()), None);
        assert_eq!(binary_kind(b"caf\xe9 au lait, latin-1"), None);
        assert_eq!(binary_kind(&"日本語の文章です".as_bytes()[..23]), None);
    }

    #[test]
    fn binary_data_is_identified_by_its_magic_bytes() {
        assert_eq!(binary_kind(b"\x89PNG\r\n\x1a\n\0\0"), Some("a PNG image"));
        assert_eq!(binary_kind(b"SQLite format 3\0"), Some("a SQLite database"));
        assert_eq!(binary_kind(b"abc\0def"), Some("binary data"));
        assert_eq!(binary_kind(&[0xfe, 0x80, 0x99, 0xc3]), Some("binary data"));
        assert_eq!(binary_kind(b"\xff\xfeh\0i\0"), Some("UTF-16 text, which cannot be read here"));
    }
}
