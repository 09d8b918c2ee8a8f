//! What a server must be shown again as it came, kept as the signature of the part that it belongs to.
//!
//! A signature is base64, as ADK's clients demand; within it is JSON. Whatever else stands in a signature is not ours.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

/// A reasoning item. Nothing is kept on the server, so that an item without its encrypted content cannot be shown again.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct SealedReasoning {
    pub(super) id: String,
    pub(super) summary: Vec<Value>,
    pub(super) encrypted_content: String,
}

impl SealedReasoning {
    pub(super) fn seal(&self) -> Option<String> {
        let is_whole = !self.id.is_empty() && !self.encrypted_content.is_empty();
        seal(self).filter(|_| is_whole)
    }

    pub(super) fn open(signature: &str) -> Option<Self> {
        open(signature)
    }

    pub(super) fn item(&self) -> Value {
        json!({
            "type": "reasoning",
            "id": self.id,
            "summary": self.summary,
            "encrypted_content": self.encrypted_content,
        })
    }
}

/// Whether a message is a comment on the way or the answer; some models lose the thread if it is not sent back.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct SealedPhase {
    pub(super) phase: String,
}

impl SealedPhase {
    pub(super) fn seal(&self) -> Option<String> {
        seal(self)
    }

    pub(super) fn open(signature: &str) -> Option<Self> {
        open(signature)
    }
}

fn seal(opaque: &impl Serialize) -> Option<String> {
    serde_json::to_vec(opaque).ok().map(|json| STANDARD.encode(json))
}

fn open<T: DeserializeOwned>(signature: &str) -> Option<T> {
    serde_json::from_slice(&STANDARD.decode(signature).ok()?).ok()
}
