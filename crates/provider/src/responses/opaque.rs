//! Opaque data that the API requires back unchanged, stored in the signature of the part it belongs to.
//!
//! A signature is JSON in base64, because ADK's clients decode the field. Signatures with other content are ignored.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

/// A reasoning item. Without server-side state, an item can be sent back only with its encrypted content.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct OpaqueReasoning {
    pub(super) id: String,
    pub(super) summary: Vec<Value>,
    pub(super) encrypted_content: String,
}

impl OpaqueReasoning {
    pub(super) fn to_signature(&self) -> Option<String> {
        let is_complete = !self.id.is_empty() && !self.encrypted_content.is_empty();
        encode(self).filter(|_| is_complete)
    }

    pub(super) fn from_signature(signature: &str) -> Option<Self> {
        decode(signature)
    }

    pub(super) fn to_item(&self) -> Value {
        json!({
            "type": "reasoning",
            "id": self.id,
            "summary": self.summary,
            "encrypted_content": self.encrypted_content,
        })
    }
}

/// The phase of a message: commentary or final answer. Some models lose track if it is not sent back.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct OpaquePhase {
    pub(super) phase: String,
}

impl OpaquePhase {
    pub(super) fn to_signature(&self) -> Option<String> {
        encode(self)
    }

    pub(super) fn from_signature(signature: &str) -> Option<Self> {
        decode(signature)
    }
}

fn encode(opaque: &impl Serialize) -> Option<String> {
    serde_json::to_vec(opaque).ok().map(|json| STANDARD.encode(json))
}

fn decode<T: DeserializeOwned>(signature: &str) -> Option<T> {
    serde_json::from_slice(&STANDARD.decode(signature).ok()?).ok()
}
