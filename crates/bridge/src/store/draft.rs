//! Encodes the draft of a streamed answer as rows of the store, and decodes it. Each chunk is an event with the text
//! that was streamed since the previous chunk.

use adk::{content::Content, event::Event};
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize)]
struct DraftChunk {
    /// How many earlier saves were acknowledged. A save whose acknowledgement was lost is repeated with a longer
    /// text: of two chunks with one number, the later replaces the earlier.
    number: u64,
    event: Event,
}

/// Encodes one chunk: the frame of the answer's event with the streamed text.
pub(crate) fn encode_chunk(number: u64, frame: &Event, content: Content) -> String {
    let event = Event { content: Some(content), ..frame.clone() };
    serde_json::to_string(&DraftChunk { number, event }).unwrap_or_default()
}

/// Assembles the chunks into the event of the interrupted answer. Unreadable chunks are skipped.
pub fn restore(stored: &session::Draft) -> Option<Event> {
    let mut chunks: Vec<DraftChunk> = Vec::with_capacity(stored.chunks.len());
    for chunk in stored.chunks.iter().filter_map(|chunk| serde_json::from_str::<DraftChunk>(chunk).ok()) {
        chunks.pop_if(|last| last.number == chunk.number);
        chunks.push(chunk);
    }
    let (mut draft, mut frame) = (adk::draft::AnswerDraft::default(), None);
    for DraftChunk { mut event, .. } in chunks {
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

    fn restored(chunks: &[(u64, &str)]) -> Option<String> {
        let frame = Event::new("i", "root");
        let chunks = chunks.iter().map(|(number, text)| encode_chunk(*number, &frame, Content::model(*text)));
        let draft = session::Draft { run: "r".to_owned(), chunks: chunks.collect() };
        restore(&draft).map(|event| event.content.unwrap_or_default().text())
    }

    #[test]
    fn repeated_chunk_replaces_its_first_attempt() {
        assert_eq!(restored(&[(0, "Alpha "), (1, "beta ")]).as_deref(), Some("Alpha beta "));
        assert_eq!(
            restored(&[(0, "Alpha "), (1, "beta "), (1, "beta gamma "), (2, "delta")]).as_deref(),
            Some("Alpha beta gamma delta")
        );
        assert_eq!(restored(&[]), None);
    }

    #[test]
    fn unreadable_chunk_is_skipped() {
        let frame = Event::new("i", "root");
        let chunks = vec![encode_chunk(0, &frame, Content::model("Alpha ")), "{".to_owned()];
        let event = restore(&session::Draft { run: "r".to_owned(), chunks }).unwrap();
        assert_eq!((event.interrupted, event.content), (Some(true), Some(Content::model("Alpha "))));
    }
}
