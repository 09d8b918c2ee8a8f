//! Encodes the draft of a streamed answer as rows of the store, and decodes it. Each piece is an event with the text
//! that was streamed since the previous piece.

use adk::{content::Content, event::Event};
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize)]
struct DraftPiece {
    /// How many earlier saves were acknowledged. A save whose acknowledgement was lost is repeated with a longer
    /// text: of two pieces with one number, the later replaces the earlier.
    number: u64,
    event: Event,
}

/// Encodes one piece: the frame of the answer's event with the streamed text.
pub(crate) fn encode_piece(number: u64, frame: &Event, content: Content) -> String {
    let event = Event { content: Some(content), ..frame.clone() };
    serde_json::to_string(&DraftPiece { number, event }).unwrap_or_default()
}

/// Assembles the pieces into the event of the interrupted answer. Unreadable pieces are skipped.
pub fn restore(stored: &session::Draft) -> Option<Event> {
    let mut pieces: Vec<DraftPiece> = Vec::with_capacity(stored.pieces.len());
    for piece in stored.pieces.iter().filter_map(|piece| serde_json::from_str::<DraftPiece>(piece).ok()) {
        pieces.pop_if(|last| last.number == piece.number);
        pieces.push(piece);
    }
    let (mut draft, mut frame) = (adk::draft::AnswerDraft::default(), None);
    for DraftPiece { mut event, .. } in pieces {
        if let Some(content) = event.content.take() {
            draft.push(&content);
        }
        frame = Some(event);
    }
    draft.into_event(frame?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn restored(pieces: &[(u64, &str)]) -> Option<String> {
        let frame = Event::new("i", "root");
        let pieces = pieces.iter().map(|(number, text)| encode_piece(*number, &frame, Content::model(*text)));
        let draft = session::Draft { run: "r".to_owned(), pieces: pieces.collect() };
        restore(&draft).map(|event| event.content.unwrap_or_default().text())
    }

    #[test]
    fn repeated_piece_replaces_its_first_attempt() {
        assert_eq!(restored(&[(0, "Alpha "), (1, "beta ")]).as_deref(), Some("Alpha beta "));
        assert_eq!(
            restored(&[(0, "Alpha "), (1, "beta "), (1, "beta gamma "), (2, "delta")]).as_deref(),
            Some("Alpha beta gamma delta")
        );
        assert_eq!(restored(&[]), None);
    }

    #[test]
    fn unreadable_piece_is_skipped() {
        let frame = Event::new("i", "root");
        let pieces = vec![encode_piece(0, &frame, Content::model("Alpha ")), "{".to_owned()];
        let event = restore(&session::Draft { run: "r".to_owned(), pieces }).unwrap();
        assert_eq!((event.interrupted, event.content), (Some(true), Some(Content::model("Alpha "))));
    }
}
