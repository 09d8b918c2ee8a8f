//! The prefix of a conversation: the messages with which its next request begins like the last one, and their encoding.

use crate::{
    MessagePart, ModelMessage,
    message_list::{ListEncoder, ListFormat, ListSection, ListState},
};
use lock::LockExt;
use std::sync::Mutex;

/// The first messages of a conversation, shared by its requests. Their encoding is kept, so that a request encodes only what is
/// new.
#[derive(Debug, Default)]
pub struct MessagePrefix {
    messages: Vec<ModelMessage>,
    tokens: u32,
    encoded: Mutex<Option<EncodedPrefix>>,
}

/// The encoding of the first messages in one wire format.
#[derive(Clone, Debug)]
struct EncodedPrefix {
    format: ListFormat,
    /// How many messages are encoded.
    count: usize,
    /// The elements of the list, with a comma between them.
    json: Vec<u8>,
    state: ListState,
}

impl MessagePrefix {
    /// `tokens` is the cost of the messages.
    pub fn new(messages: Vec<ModelMessage>, tokens: u32) -> Self {
        Self { messages, tokens, encoded: Mutex::default() }
    }

    pub fn messages(&self) -> &[ModelMessage] {
        &self.messages
    }

    /// The cost of the messages.
    pub fn tokens(&self) -> u32 {
        self.tokens
    }

    /// Appends messages. What is encoded remains valid.
    pub fn extend(&mut self, messages: Vec<ModelMessage>, tokens: u32) {
        self.messages.extend(messages);
        self.tokens = self.tokens.saturating_add(tokens);
    }

    /// Approximate size in memory. Texts are not counted: they are shared with the log.
    pub fn bytes(&self) -> usize {
        let messages = self
            .messages
            .iter()
            .map(|message| size_of::<ModelMessage>() + message.parts.capacity() * size_of::<MessagePart>());
        let encoded = self.encoded.locked();
        let encoded =
            encoded.as_ref().map_or(0, |encoded| encoded.json.capacity() + encoded.state.ids.bytes());
        messages.sum::<usize>() + encoded
    }

    pub(crate) fn is_encoded(&self) -> bool {
        self.encoded.locked().is_some()
    }

    /// Appends the elements of the messages to the list in `json`, and returns the state in which the list continues. Messages that were
    /// encoded before, in the same format, are copied. `None` if a message changes the encoding of the ones before it.
    pub(crate) fn encode(&self, encoder: &ListEncoder<'_>, json: &mut Vec<u8>) -> Option<ListState> {
        let mut kept = self.encoded.locked();
        let mut encoded = kept
            .take()
            .filter(|encoded| encoded.format == encoder.format && encoded.count <= self.messages.len())
            .unwrap_or_else(|| EncodedPrefix::empty(encoder.format.clone()));
        encoded.extend(encoder, &self.messages)?;
        if !json.is_empty() && !encoded.json.is_empty() {
            json.push(b',');
        }
        json.extend_from_slice(&encoded.json);
        Some(kept.insert(encoded).state.clone())
    }
}

impl EncodedPrefix {
    fn empty(format: ListFormat) -> Self {
        let state = format.initial_state();
        Self { format, count: 0, json: Vec::new(), state }
    }

    /// Encodes the messages that are not encoded yet.
    fn extend(&mut self, encoder: &ListEncoder<'_>, messages: &[ModelMessage]) -> Option<()> {
        let new = &messages[self.count..];
        if !new.is_empty() {
            let section = ListSection { messages: new, is_last: false };
            push_elements(&mut self.json, encoder.encode(&mut self.state, section)?);
            self.count = messages.len();
        }
        Some(())
    }
}

/// Appends elements to the inside of a JSON array.
pub(crate) fn push_elements(json: &mut Vec<u8>, elements: Vec<serde_json::Value>) {
    for element in elements {
        if !json.is_empty() {
            json.push(b',');
        }
        write_json(json, &element);
    }
}

/// Appends a value.
pub(crate) fn write_json(json: &mut Vec<u8>, value: &serde_json::Value) {
    // Neither writing to memory nor serializing a `Value` fails.
    let _ = serde_json::to_writer(json, value);
}

impl Clone for MessagePrefix {
    fn clone(&self) -> Self {
        let encoded = Mutex::new(self.encoded.locked().clone());
        Self { messages: self.messages.clone(), tokens: self.tokens, encoded }
    }
}

/// The encoding follows from the messages.
impl PartialEq for MessagePrefix {
    fn eq(&self, other: &Self) -> bool {
        self.messages == other.messages
    }
}
