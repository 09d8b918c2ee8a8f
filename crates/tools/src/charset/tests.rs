//! Short texts in the encodings of the Web, and data that is not text.

use encoding_rs::{BIG5, EUC_JP, EUC_KR, GB18030, SHIFT_JIS, WINDOWS_1250, WINDOWS_1251, WINDOWS_1252};

use super::*;

/// Short texts as they are in files of users.
const TEXTS: [(&Encoding, &str); 16] = [
    (WINDOWS_1251, "Привет, мир! Это короткий файл."),
    (WINDOWS_1251, "Список покупок:\r\n- молоко\r\n- хлеб\r\n"),
    (SHIFT_JIS, "これは日本語のテキストです。"),
    (SHIFT_JIS, "買い物リスト\n牛乳、パン、卵\n"),
    (EUC_JP, "これは日本語のテキストです。"),
    (GB18030, "这是一个简短的中文文件。"),
    (GB18030, "会议记录\n下周一上午九点开会。\n"),
    (BIG5, "這是一個簡短的中文檔案。"),
    (BIG5, "會議記錄\n下週一上午九點開會。\n"),
    (EUC_KR, "안녕하세요. 짧은 한국어 파일입니다."),
    (WINDOWS_1250, "Příliš žluťoučký kůň úpěl ďábelské ódy."),
    (WINDOWS_1250, "Zażółć gęślą jaźń, proszę państwa."),
    (WINDOWS_1252, "Ein kurzer Text über Größe, Übung und Äpfel."),
    (WINDOWS_1252, "“Un café, s’il vous plaît” – déjà vu"),
    (WINDOWS_1252, "El niño comió mañana en España."),
    (UTF_8, "Ein kurzer Text über 日本語 und 中文"),
];

#[test]
fn short_texts_are_read_in_their_encoding() {
    for (encoding, text) in TEXTS {
        let (bytes, _, unmappable) = encoding.encode(text);
        assert!(!unmappable, "{text}");
        let SampleKind::Text(found) = detect(&bytes) else { panic!("{} is binary: {text}", encoding.name()) };
        assert_eq!(decode(&bytes, found), text, "{} was read as {}", encoding.name(), found.name());
    }
}

#[test]
fn utf16_is_text_with_and_without_a_byte_order_mark() {
    let text = "Name;Größe\r\nŁódź;12\r\n";
    let little: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let big: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
    for (mark, bytes, expected) in [
        (&b"\xff\xfe"[..], &little, UTF_16LE),
        (b"\xfe\xff", &big, UTF_16BE),
        (b"", &little, UTF_16LE),
        (b"", &big, UTF_16BE),
    ] {
        let bytes = [mark, bytes].concat();
        assert_eq!(detect(&bytes), SampleKind::Text(expected));
        assert_eq!(decode(&bytes, expected), text);
    }
    assert_eq!(decode(b"\xef\xbb\xbfa", UTF_8), "a");
}

#[test]
fn text_with_an_invalid_byte_or_a_cut_character_is_utf8() {
    assert_eq!(detect(b""), SampleKind::Text(UTF_8));
    let cut = &"日本語の文章です".as_bytes()[..23];
    assert_eq!(detect(cut), SampleKind::Text(UTF_8));
    let bad = [b"ok ".as_slice(), &[0xff], " grüße äöüß 日本".as_bytes()].concat();
    assert_eq!(detect(&bad), SampleKind::Text(UTF_8));
    let late = [vec![b'a'; 30_000], b" caf\xe9".to_vec()].concat();
    assert_eq!(detect(&late), SampleKind::Text(WINDOWS_1252));
}

#[test]
fn data_that_is_not_text_is_binary() {
    assert_eq!(detect(b"\x89PNG\r\n\x1a\n"), SampleKind::Binary("a PNG image"));
    assert_eq!(detect(b"abc\0def"), SampleKind::Binary("binary data"));
    assert_eq!(detect(&[0xfe, 0x80, 0x99, 0xc3]), SampleKind::Binary("binary data"));
    let mut seed = 1_u32;
    let noise = |_| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        u8::try_from(seed >> 24).unwrap_or(1).max(1)
    };
    let noise: Vec<u8> = (0..4096).map(noise).collect();
    assert_eq!(detect(&noise), SampleKind::Binary("binary data"));
    // Little-endian integers have zeros in half of their bytes, as UTF-16 does.
    let integers: Vec<u8> = (0..200_u16).flat_map(u16::to_le_bytes).collect();
    assert_eq!(detect(&integers), SampleKind::Binary("binary data"));
}

#[test]
fn page_is_read_by_mark_header_declaration_and_bytes_in_this_order() {
    let russian = WINDOWS_1251.encode("<p>Да</p>").0.into_owned();
    let page = |head: &str| [head.as_bytes(), &russian].concat();
    for (body, content_type, expected) in [
        (page(""), "text/html; charset=windows-1251", WINDOWS_1251),
        (page(""), "text/html; Charset=\"cp1251\"", WINDOWS_1251),
        (page("<meta charset=windows-1251>"), "text/html", WINDOWS_1251),
        (page("<META CHARSET='koi8-r'>"), "text/html; charset=windows-1251", WINDOWS_1251),
        (
            page("<meta http-equiv=Content-Type content='text/html; charset=windows-1251'>"),
            "text/html",
            WINDOWS_1251,
        ),
        (page("<?xml version='1.0' encoding='windows-1251'?>"), "application/xhtml+xml", WINDOWS_1251),
        // The server names UTF-8, and the page is right.
        (page("<meta charset=windows-1251>"), "text/html; charset=utf-8", WINDOWS_1251),
        (page("<meta charset=utf-16>"), "text/html; charset=windows-1251", WINDOWS_1251),
        (page("\u{feff}"), "text/html; charset=windows-1251", UTF_8),
        ("<meta charset=nonsense><p>Größe".as_bytes().to_vec(), "text/html", UTF_8),
    ] {
        let hints = PageHints { content_type, domain: None };
        assert_eq!(detect_page(&body, hints), SampleKind::Text(expected), "{content_type}");
    }
    let hints = PageHints { content_type: "text/html; charset=utf-8", domain: None };
    assert_eq!(detect_page(b"%PDF-1.7", hints), SampleKind::Binary("a PDF document"));
    let hints = PageHints { content_type: "text/html", domain: Some("ru") };
    assert_eq!(detect_page(&WINDOWS_1251.encode("<p>Да, это так").0, hints), SampleKind::Text(WINDOWS_1251));
}
