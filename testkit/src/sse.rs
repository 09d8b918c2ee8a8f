//! Reads the server-sent events of Lango's server: blocks of lines, each ended by a blank line.

use serde_json::Value;

/// One event of a stream.
#[derive(Clone, Debug, PartialEq)]
pub struct SseEvent {
    pub id: Option<String>,
    pub data: Value,
}

impl SseEvent {
    /// `None` for a comment.
    ///
    /// # Errors
    ///
    /// If the data is not JSON.
    pub fn parse(block: &str) -> serde_json::Result<Option<Self>> {
        let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)).map(str::trim_start);
        let Some(data) = field("data:") else { return Ok(None) };
        Ok(Some(Self { id: field("id:").map(str::to_owned), data: serde_json::from_str(data)? }))
    }
}

/// The text that was received and not read yet.
#[derive(Debug, Default)]
pub struct SseBuffer(String);

impl SseBuffer {
    pub fn push(&mut self, received: &str) {
        self.0.push_str(received);
    }

    /// The next complete block, which may be a comment.
    pub fn next_block(&mut self) -> Option<String> {
        let end = self.0.find("\n\n")?;
        let block = self.0[..end].to_owned();
        self.0.drain(..end + 2);
        Some(block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn blocks_are_complete_and_comments_have_no_event() {
        let mut buffer = SseBuffer::default();
        buffer.push("id: 7\ndata: {\"a\":1}\n\n: keep-alive\n\ndata: ");
        let event = SseEvent::parse(&buffer.next_block().unwrap()).unwrap();
        assert_eq!(event, Some(SseEvent { id: Some("7".to_owned()), data: json!({"a": 1}) }));
        assert_eq!(SseEvent::parse(&buffer.next_block().unwrap()).unwrap(), None);
        assert_eq!(buffer.next_block(), None);
        buffer.push("[]\n\n");
        let event = SseEvent::parse(&buffer.next_block().unwrap()).unwrap();
        assert_eq!(event, Some(SseEvent { id: None, data: json!([]) }));
        assert!(SseEvent::parse("data: {").is_err());
    }
}
