//! Redaction of whole texts and of streams, verbatim and encoded.

use base64::{
    Engine,
    engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD},
};
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn mask() -> Mask {
    Mask::new(["sk-canary-1", "sk-canary-12", "short", "a.b*c[d]e"].map(str::to_owned))
}

#[test]
fn secrets_are_redacted_in_text_and_in_json_keys_and_values() {
    assert_eq!(
        mask().apply("a sk-canary-1, sk-canary-12 and a.b*c[d]e".to_owned()),
        "a [masked], [masked] and [masked]"
    );
    assert_eq!(mask().apply("short stays".to_owned()), "short stays");
    let value = json!({"sk-canary-1": ["x sk-canary-12 y", 1, null], "b": {"c": "sk-canary-1"}});
    assert_eq!(
        mask().apply_json(value),
        json!({"[masked]": ["x [masked] y", 1, null], "b": {"c": "[masked]"}})
    );
    assert_eq!(format!("{:?}", mask()), "Mask(3)");
}

#[test]
fn stream_holds_back_only_a_possible_prefix_of_a_secret() {
    let mut stream = mask().stream();
    assert_eq!(*stream.push(b"listening on 80\n"), *b"listening on 80\n");
    assert_eq!(*stream.push(b"x sk-ca"), *b"x ");
    assert_eq!(*stream.push(b"nary-1"), *b"");
    assert_eq!(*stream.push(b"2!"), *b"[masked]!");
    assert_eq!(stream.finish(), b"");
}

/// Encodings of a secret between other bytes, without the separators that a program adds.
fn encodings(before: &[u8], secret: &str, after: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let whole = [before, secret.as_bytes(), after].concat();
    let every_byte =
        |format: fn(u8) -> String| whole.iter().copied().map(format).collect::<String>().into_bytes();
    let around = |text: String| [before, text.as_bytes(), after].concat();
    let unreserved = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    let json = Value::from(secret).to_string();
    vec![
        ("verbatim", whole.clone()),
        ("reversed", whole.iter().rev().copied().collect()),
        ("base64", STANDARD.encode(&whole).into_bytes()),
        ("base64 without padding", STANDARD_NO_PAD.encode(&whole).into_bytes()),
        ("base64 for URLs", URL_SAFE.encode(&whole).into_bytes()),
        ("base64 for URLs without padding", URL_SAFE_NO_PAD.encode(&whole).into_bytes()),
        ("hex", every_byte(|byte| format!("{byte:02x}"))),
        ("upper-case hex", every_byte(|byte| format!("{byte:02X}"))),
        ("percent-encoded", every_byte(|byte| format!("%{byte:02X}"))),
        ("lower-case percent-encoded", every_byte(|byte| format!("%{byte:02x}"))),
        ("reserved characters percent-encoded", around(secret.bytes().map(unreserved).collect())),
        ("JSON", around(json[1..json.len() - 1].to_owned())),
    ]
}

/// Masks a text that arrives in chunks. `cuts` are positions in per mille.
fn masked_in_chunks(mask: &Mask, text: &[u8], cuts: &[usize]) -> Vec<u8> {
    let mut cuts: Vec<usize> =
        cuts.iter().map(|cut| cut * text.len() / 1000).chain([0, text.len()]).collect();
    cuts.sort_unstable();
    let mut stream = mask.stream();
    let mut masked = Vec::new();
    for pair in cuts.windows(2) {
        masked.extend_from_slice(&stream.push(&text[pair[0]..pair[1]]));
    }
    masked.extend(stream.finish());
    masked
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

#[test]
fn encoded_secrets_are_redacted() {
    let secret = "p/ss \"w\u{f6}rd\"<1>";
    let mask = Mask::new([secret.to_owned()]);
    for (text, masked) in [
        ("KEY=p/ss \"w\u{f6}rd\"<1>;", "KEY=[masked];"),
        (">1<\"dr\u{f6}w\" ss/p\n", "[masked]\n"),
        // base64 of the secret, and of "k=" before and a line feed after it.
        ("cC9zcyAid8O2cmQiPDE+", "[masked]"),
        ("az1wL3NzICJ3w7ZyZCI8MT4K", "az1[masked]K"),
        ("702f7373202277c3b67264223c313e", "[masked]"),
        ("x%70%2f%73%73%20%22%77%c3%b6%72%64%22%3c%31%3ey", "x[masked]y"),
        ("?q=p%2Fss%20%22w%C3%B6rd%22%3C1%3E&r=1", "?q=[masked]&r=1"),
        ("?q=p/ss%20%22w%C3%B6rd%22%3C1%3E", "?q=[masked]"),
        ("?q=p%2Fss+%22w%C3%B6rd%22%3C1%3E&r=1", "?q=[masked]&r=1"),
        ("cC9zcyAi\nd8O2cmQi\n  PDE+\nnext", "[masked]\nnext"),
        ("702f73732022\r\n77c3b67264\r\n223c313e\r\n", "[masked]\r\n"),
        (r#"{"key":"p/ss \"wörd\"<1>"}"#, r#"{"key":"[masked]"}"#),
        (r#"{"key":"p\/ss \"wörd\"<1>"}"#, r#"{"key":"[masked]"}"#),
        (r#"{"key":"p/ss \"w\u00f6rd\"<1>"}"#, r#"{"key":"[masked]"}"#),
        (r#"{"key":"p/ss \"wörd\"\u003c1\u003e"}"#, r#"{"key":"[masked]"}"#),
    ] {
        assert_eq!(mask.apply(text.to_owned()), masked);
    }
}

#[test]
fn ordinary_text_passes_unchanged() {
    let mask = Mask::new(["password".to_owned(), "0000000".to_owned()]);
    for text in ["passwor assword cGFzc3dvc 70617373776f7264 drowssa 0000000 3030303030303030", "", "===="] {
        let expected = text.replace("70617373776f7264", MASKED);
        assert_eq!(mask.apply(text.to_owned()), expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn chunked_text_is_redacted_like_the_whole_text(
        parts in prop::collection::vec(prop::sample::select(vec!["sk-canary-1", "sk-can", " ", "ary-1", "a.b*c[d]e", "\n"]), 0..12),
        cuts in prop::collection::vec(0usize..100, 0..8),
    ) {
        let whole = parts.concat();
        let only = Mask::new(["sk-canary-1", "a.b*c[d]e"].map(str::to_owned));
        let mut stream = only.stream();
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(whole.len())).chain([0, whole.len()]).collect();
        cuts.sort_unstable();
        let mut out = Vec::new();
        for pair in cuts.windows(2) {
            out.extend_from_slice(&stream.push(&whole.as_bytes()[pair[0]..pair[1]]));
        }
        out.extend(stream.finish());
        prop_assert_eq!(String::from_utf8(out).unwrap(), only.apply(whole));
    }

    #[test]
    fn no_wrapped_encoding_of_a_secret_survives(
        secret in "[!-~]{16,120}",
        before in prop::collection::vec(any::<u8>(), 0..40),
        after in prop::collection::vec(any::<u8>(), 0..40),
        width in 16usize..80,
        line_break in prop::sample::select(vec!["\n", "\r\n", "\n    "]),
        chunk in 1usize..100,
    ) {
        let mask = Mask::new([secret.clone()]);
        for (encoding, text) in encodings(&before, &secret, &after) {
            if !encoding.contains("base64") && !encoding.contains("hex") {
                continue;
            }
            let lines: Vec<&[u8]> = text.chunks(width).collect();
            let wrapped = lines.join(line_break.as_bytes());
            let alone = encodings(&[], &secret, &[]).into_iter().find(|(name, _)| *name == encoding).unwrap().1;
            let masked = mask.bytes(&wrapped).into_owned();
            prop_assert!(contains(&masked, MASKED.as_bytes()), "{encoding}");
            // Lines of the output arrive one by one or in larger chunks.
            let mut stream = mask.stream();
            let mut streamed: Vec<u8> = Vec::new();
            for part in wrapped.chunks(chunk * width) {
                streamed.extend_from_slice(&stream.push(part));
            }
            streamed.extend(stream.finish());
            for masked in [masked, streamed] {
                let joined: Vec<u8> = masked.into_iter().filter(|byte| !byte.is_ascii_whitespace()).collect();
                let middle = &alone[6..alone.len() - 4];
                prop_assert!(!contains(&joined, middle), "{encoding}");
            }
        }
    }

    #[test]
    fn no_encoding_of_a_secret_survives(
        secret in prop_oneof!["[ -~]{8,40}", "\\PC{8,30}", "[ab]{8,12}"],
        before in prop::collection::vec(any::<u8>(), 0..40),
        after in prop::collection::vec(any::<u8>(), 0..40),
        cuts in prop::collection::vec(0usize..=1000, 0..12),
    ) {
        let mask = Mask::new([secret.clone()]);
        for (encoding, text) in encodings(&before, &secret, &after) {
            let masked = masked_in_chunks(&mask, &text, &cuts);
            prop_assert!(contains(&masked, MASKED.as_bytes()), "{encoding}");
            prop_assert_eq!(&masked, &*mask.bytes(&text), "{}: chunks differ from the whole text", encoding);
            let alone = &encodings(&[], &secret, &[]).into_iter().find(|(name, _)| *name == encoding).unwrap().1;
            prop_assert!(!contains(&masked, alone), "{encoding}");
        }
    }

    /// At both ends, a character of base64 may depend on the secret and on the text beside it.
    #[test]
    fn of_a_base64_secret_at_most_two_characters_survive(
        secret in "[!-~]{12,40}",
        before in prop::collection::vec(any::<u8>(), 0..20),
        after in prop::collection::vec(any::<u8>(), 0..20),
    ) {
        let mask = Mask::new([secret.clone()]);
        let others = (before.len() * 8).div_ceil(6) + (after.len() * 8).div_ceil(6);
        for (encoding, text) in encodings(&before, &secret, &after) {
            if encoding.starts_with("base64") {
                let masked = String::from_utf8_lossy(&mask.bytes(&text)).replace(MASKED, "").replace('=', "");
                prop_assert!(masked.len() <= others + 2, "{}: {}", encoding, masked);
            }
        }
    }
}
