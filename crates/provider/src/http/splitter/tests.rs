//! Framing does not depend on how the bytes are split.

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

fn split<'a>(
    framing: Framing,
    fragments: impl IntoIterator<Item = &'a [u8]>,
) -> Result<Frames, FramingError> {
    let mut splitter = Splitter::new(framing);
    let mut frames = Frames::new();
    for fragment in fragments {
        splitter.feed(fragment);
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
fn event_has_name_and_data_and_ends_at_a_blank_line() {
    insta::assert_snapshot!(events("event: a\ndata: 1\n\ndata: 2\n\nevent:b\ndata:3\nid: x\nretry: 5\n\n"), @r#"
    "a" "1"
    "" "2"
    "b" "3"
    "#);
}

#[test]
fn sse_line_ends_with_lf_cr_or_crlf() {
    insta::assert_snapshot!(events("data: 1\r\n\r\ndata: 2\r\rdata: 3\n\ndata: 4\r\ndata: 5\r\n\r\n"), @r#"
    "" "1"
    "" "2"
    "" "3"
    "" "4\n5"
    "#);
}

#[test]
fn one_space_after_the_colon_is_stripped() {
    insta::assert_snapshot!(events("data:{}\n\ndata:  two\n\ndata: a: b\n\n"), @r#"
    "" "{}"
    "" " two"
    "" "a: b"
    "#);
}

#[test]
fn several_data_lines_are_joined_with_line_feeds() {
    insta::assert_snapshot!(events("data: a\n: comment\ndata\ndata:\ndata: b\n\ndata: c\n\n"), @r#"
    "" "a\n\n\nb"
    "" "c"
    "#);
}

#[test]
fn events_without_data_yield_no_frame() {
    insta::assert_snapshot!(events(": hello\n\n:\n\nevent: ping\n\ndata:\n\nevent: x\n\ndata: 1\n\n"), @r#""" "1""#);
}

#[test]
fn last_event_is_returned_without_a_blank_line() {
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
fn byte_order_mark_is_skipped_only_at_the_start() {
    insta::assert_snapshot!(events("\u{feff}data: 1\n\n\u{feff}data: 2\n\n"), @r#""" "1""#);
    insta::assert_snapshot!(shape(Framing::JsonLines, "\u{feff}{}\n".as_bytes()), @r#""" "{}""#);
}

#[test]
fn json_lines_end_with_lf_only() {
    insta::assert_snapshot!(shape(Framing::JsonLines, b"{\"a\":\r1}\r\n\n  \n{}\n\r\n[]"), @r#"
    "" "{\"a\":\r1}"
    "" "{}"
    "" "[]"
    "#);
}

#[test]
fn invalid_utf8_is_replaced() {
    insta::assert_snapshot!(shape(Framing::Sse, b"data: \xff\n\n"), @r#""" "�""#);
    insta::assert_snapshot!(shape(Framing::Sse, b"event: \xff\ndata: 1\n\n"), @r#""" "1""#);
    insta::assert_snapshot!(shape(Framing::JsonLines, b"\xc3\n"), @r#""" "�""#);
}

#[test]
fn oversized_frame_is_an_error_and_a_long_stream_is_not() {
    for framing in [Framing::Sse, Framing::JsonLines] {
        let feed_repeatedly = |fragment: &[u8], fragments: usize| {
            let mut splitter = Splitter { max: 1000, ..Splitter::new(framing) };
            for _ in 0..fragments {
                splitter.feed(fragment);
                while splitter.next_frame()?.is_some() {}
            }
            Ok(())
        };
        assert_eq!(feed_repeatedly(b"data: 12345", 200), Err(FramingError::TooLong { max: 1000 }));
        assert_eq!(feed_repeatedly(b"data: 12345\n\n", 200), Ok(()));
        assert_eq!(feed_repeatedly(b": comment\n", 200), Ok(()));
    }
    assert_eq!(
        FramingError::TooLong { max: MAX_FRAME }.to_string(),
        "an SSE event or a JSON line exceeds 64 MB"
    );
}

/// Valid and invalid event streams.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let fragment = prop_oneof![
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
    prop::collection::vec(fragment, 0..40).prop_map(|fragments| fragments.concat().into_bytes())
}

proptest! {
    #[test]
    fn frames_do_not_depend_on_chunk_boundaries(
        bytes in stream(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        framing in prop_oneof![Just(Framing::Sse), Just(Framing::JsonLines)],
    ) {
        let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        places.extend([0, bytes.len()]);
        places.sort_unstable();
        let fragments = places.windows(2).map(|pair| &bytes[pair[0]..pair[1]]);
        let whole = split(framing, [bytes.as_slice()]);
        prop_assert_eq!(split(framing, fragments), whole.clone());
        prop_assert_eq!(split(framing, bytes.chunks(1)), whole);
    }

    #[test]
    fn written_events_are_read_back(events in prop::collection::vec(("[a-z.]{0,8}", "[ -~ü🌍]{1,20}(\n[ -~ü🌍]{0,9}){0,3}"), 0..9)) {
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
