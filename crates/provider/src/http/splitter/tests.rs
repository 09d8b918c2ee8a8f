//! Frames do not depend on how the bytes were cut.

use super::*;
use proptest::prelude::*;
use std::fmt::Write as _;

type Frames = Vec<(String, String)>;

fn read(splitter: &mut Splitter, frames: &mut Frames) -> Result<(), FramingError> {
    while let Some(frame) = splitter.next_frame()? {
        frames.push((frame.event.to_owned(), frame.data.to_owned()));
    }
    Ok(())
}

fn split<'a>(framing: Framing, pieces: impl IntoIterator<Item = &'a [u8]>) -> Result<Frames, FramingError> {
    let mut splitter = Splitter::new(framing);
    let mut frames = Frames::new();
    for piece in pieces {
        splitter.feed(piece);
        read(&mut splitter, &mut frames)?;
    }
    splitter.end();
    read(&mut splitter, &mut frames)?;
    Ok(frames)
}

fn shape(framing: Framing, bytes: &[u8]) -> String {
    match split(framing, [bytes]) {
        Ok(frames) => {
            let lines: Vec<String> =
                frames.iter().map(|(event, data)| format!("{event:?} {data:?}")).collect();
            lines.join("\n")
        }
        Err(broken) => broken.to_string(),
    }
}

fn events(text: &str) -> String {
    shape(Framing::Sse, text.as_bytes())
}

#[test]
fn an_event_has_a_name_and_data_and_ends_with_a_blank_line() {
    insta::assert_snapshot!(events("event: a\ndata: 1\n\ndata: 2\n\nevent:b\ndata:3\nid: x\nretry: 5\n\n"), @r#"
    "a" "1"
    "" "2"
    "b" "3"
    "#);
}

#[test]
fn a_line_ends_with_a_feed_a_return_or_both() {
    insta::assert_snapshot!(events("data: 1\r\n\r\ndata: 2\r\rdata: 3\n\ndata: 4\r\ndata: 5\r\n\r\n"), @r#"
    "" "1"
    "" "2"
    "" "3"
    "" "4\n5"
    "#);
}

#[test]
fn one_space_after_the_colon_is_not_part_of_the_data() {
    insta::assert_snapshot!(events("data:{}\n\ndata:  two\n\ndata: a: b\n\n"), @r#"
    "" "{}"
    "" " two"
    "" "a: b"
    "#);
}

#[test]
fn lines_of_data_are_joined_even_when_they_are_empty() {
    insta::assert_snapshot!(events("data: a\n: comment\ndata\ndata:\ndata: b\n\ndata: c\n\n"), @r#"
    "" "a\n\n\nb"
    "" "c"
    "#);
}

#[test]
fn what_has_no_data_is_no_frame() {
    insta::assert_snapshot!(events(": hello\n\n:\n\nevent: ping\n\ndata:\n\nevent: x\n\ndata: 1\n\n"), @r#""" "1""#);
}

#[test]
fn the_last_event_needs_no_blank_line() {
    insta::assert_snapshot!(events("data: 1\n\nevent: e\ndata: 2"), @r#"
    "" "1"
    "e" "2"
    "#);
    insta::assert_snapshot!(events("data: 1\n\nevent: e\ndata: 2\r\n"), @r#"
    "" "1"
    "e" "2"
    "#);
}

#[test]
fn a_byte_order_mark_is_skipped_once() {
    insta::assert_snapshot!(events("\u{feff}data: 1\n\n\u{feff}data: 2\n\n"), @r#""" "1""#);
    insta::assert_snapshot!(shape(Framing::JsonLines, "\u{feff}{}\n".as_bytes()), @r#""" "{}""#);
}

#[test]
fn lines_of_json_end_with_a_feed_only() {
    insta::assert_snapshot!(shape(Framing::JsonLines, b"{\"a\":\r1}\r\n\n  \n{}\n\r\n[]"), @r#"
    "" "{\"a\":\r1}"
    "" "{}"
    "" "[]"
    "#);
}

#[test]
fn bytes_that_are_not_utf8_are_an_error() {
    insta::assert_snapshot!(shape(Framing::Sse, b"data: \xff\n\n"), @"the stream is not UTF-8");
    insta::assert_snapshot!(shape(Framing::Sse, b"event: \xff\ndata: 1\n\n"), @"the stream is not UTF-8");
    insta::assert_snapshot!(shape(Framing::JsonLines, b"\xc3\n"), @"the stream is not UTF-8");
}

#[test]
fn a_piece_that_never_ends_is_an_error_and_a_long_stream_is_none() {
    for framing in [Framing::Sse, Framing::JsonLines] {
        let endless = |piece: &[u8], pieces: usize| {
            let mut splitter = Splitter { longest: 1000, ..Splitter::new(framing) };
            for _ in 0..pieces {
                splitter.feed(piece);
                while splitter.next_frame()?.is_some() {}
            }
            Ok(())
        };
        assert_eq!(endless(b"data: 12345", 200), Err(FramingError::TooLong { longest: 1000 }));
        assert_eq!(endless(b"data: 12345\n\n", 200), Ok(()));
        assert_eq!(endless(b": comment\n", 200), Ok(()));
    }
    assert_eq!(
        FramingError::TooLong { longest: LONGEST }.to_string(),
        "a piece of the stream is longer than 64 MB"
    );
}

/// Streams with all that may be in one, and with what may not.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just("data: ".to_owned()),
        Just("event: e".to_owned()),
        Just("data".to_owned()),
        Just("\u{feff}".to_owned()),
        Just(":".to_owned()),
        Just("\n\n".to_owned()),
        Just("\r\n".to_owned()),
        Just("\r".to_owned()),
        Just("\n".to_owned()),
        "[ -~üß🌍]{0,6}",
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat().into_bytes())
}

proptest! {
    #[test]
    fn any_cut_of_the_bytes_gives_the_same_frames(
        bytes in stream(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        framing in prop_oneof![Just(Framing::Sse), Just(Framing::JsonLines)],
    ) {
        let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        places.extend([0, bytes.len()]);
        places.sort_unstable();
        let pieces = places.windows(2).map(|pair| &bytes[pair[0]..pair[1]]);
        let whole = split(framing, [bytes.as_slice()]);
        prop_assert_eq!(split(framing, pieces), whole.clone());
        prop_assert_eq!(split(framing, bytes.chunks(1)), whole);
    }

    #[test]
    fn what_was_written_is_read(events in prop::collection::vec(("[a-z.]{0,8}", "[ -~ü🌍]{1,20}(\n[ -~ü🌍]{0,9}){0,3}"), 0..9)) {
        let mut bytes = String::new();
        for (name, data) in &events {
            if !name.is_empty() {
                write!(bytes, "event: {name}\r\n").unwrap();
            }
            for line in data.lines().chain(data.ends_with('\n').then_some("")) {
                write!(bytes, "data: {line}\r\n").unwrap();
            }
            bytes += ": comment\r\n\r\n";
        }
        prop_assert_eq!(split(Framing::Sse, [bytes.as_bytes()]), Ok(events));
    }
}
