//! The port to a language model, in ADK's terms.

use crate::{
    content::Content,
    error::LlmError,
    event::{Event, UsageMetadata},
    notes::Note,
    prefix::ContentsPrefix,
    recipe::SentRequest,
    session::SessionKey,
    window::WindowShare,
};
use futures::stream::BoxStream;
use lock::LockExt;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use shared_text::SharedText;
use std::{
    ops::Deref,
    sync::{Arc, Mutex},
};

/// With streaming, partial responses and then the complete one; without, the complete one. An error ends the stream.
pub type LlmStream = BoxStream<'static, Result<LlmResponse, LlmError>>;

pub trait Llm: Send + Sync {
    fn name(&self) -> &str;
    fn generate(&self, request: LlmRequest, stream: bool) -> LlmStream;

    /// Whether the contents of a request fit a share of the model's token budget.
    fn fits(&self, _request: &LlmRequest, _share: WindowShare) -> bool {
        true
    }

    /// Whether the model reads [`LlmRequest::prefix`]. For any other model, the contents are all in [`LlmRequest::contents`].
    fn reads_prefix(&self) -> bool {
        false
    }

    /// How large a request to this model would be; `None` if that is unknown.
    fn size(&self, _request: &LlmRequest) -> Option<RequestSize> {
        None
    }

    /// Encodes a request with the parameters in `sent`; `None` if it cannot be encoded again.
    fn encode(&self, _request: &LlmRequest, _sent: &SentRequest) -> Option<EncodedRequest> {
        None
    }
}

/// A request in the model's wire format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedRequest {
    /// The body, without secrets.
    pub body: Vec<u8>,
    /// The hash of the body as it is sent, in hexadecimal digits.
    pub sha256: String,
}

/// The estimated tokens of a request by its parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestSize {
    /// The context size of the model, if it is known.
    pub context: Option<u32>,
    /// The budget of the conversation.
    pub budget: u32,
    pub system: u32,
    pub tools: u32,
    /// The conversation without notes.
    pub history: u32,
    /// Texts that the program wrote into the conversation.
    pub notes: u32,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct LlmRequest {
    /// The contents before `contents`.
    pub prefix: Option<Arc<ContentsPrefix>>,
    pub contents: Vec<ContentRef>,
    /// The user's last request before the contents, if they do not begin with the log.
    pub user_request: Option<SharedText>,
    pub config: GenerateContentConfig,
    /// In the agent's order, so that equal requests are equal bytes and hit the provider's cache.
    pub tools: Vec<FunctionDeclaration>,
    pub scope: PromptScope,
    /// Where the model adapter reports what it sent. A call that is cancelled has no response that could.
    pub sent: SentSlot,
}

impl LlmRequest {
    /// All contents, in order.
    pub fn all_contents(&self) -> impl Iterator<Item = &ContentRef> {
        let prefix = self.prefix.as_deref().map(ContentsPrefix::contents).unwrap_or_default();
        prefix.iter().chain(&self.contents)
    }
}

/// The session and the agent of a request: the requests of one scope begin alike, so that they share a provider's prompt cache. All
/// scopes are equal: a scope is not part of the request.
#[derive(Clone, Debug, Default)]
pub struct PromptScope(Option<(SessionKey, String)>);

impl PromptScope {
    pub fn new(session: SessionKey, agent: impl Into<String>) -> Self {
        Self(Some((session, agent.into())))
    }

    /// `None` for a request of no session.
    pub fn get(&self) -> Option<(&SessionKey, &str)> {
        self.0.as_ref().map(|(session, agent)| (session, agent.as_str()))
    }
}

impl PartialEq for PromptScope {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// The newest request that a model adapter sent for a call, shared by the adapter and the runner. All slots are equal: it is not part
/// of the request.
#[derive(Clone, Debug, Default)]
pub struct SentSlot(Arc<Mutex<SentReport>>);

#[derive(Debug, Default)]
struct SentReport {
    sent: Option<SentRequest>,
    /// The usage of failed attempts.
    spent: Vec<SpentTokens>,
    /// The usage of the attempt in progress.
    open: Option<SpentTokens>,
}

/// The usage of an attempt of a model call that brought no answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SpentTokens {
    /// `provider/model`.
    pub model: String,
    pub usage: UsageMetadata,
}

impl SentSlot {
    pub fn set(&self, sent: SentRequest) {
        self.0.locked().sent = Some(sent);
    }

    /// Reports the usage of the attempt in progress. It counts as spent unless the attempt ends with an answer.
    pub fn set_usage(&self, open: SpentTokens) {
        self.0.locked().open = Some(open);
    }

    /// Ends the attempt in progress. The usage of an answer is part of the answer.
    pub fn end_attempt(&self, is_answered: bool) {
        let mut report = self.0.locked();
        let open = report.open.take().filter(|_| !is_answered);
        report.spent.extend(open);
    }

    /// The request, and the usage of all attempts without an answer.
    pub(crate) fn take(&self) -> (Option<SentRequest>, Vec<SpentTokens>) {
        self.end_attempt(false);
        let SentReport { sent, spent, open: _ } = std::mem::take(&mut *self.0.locked());
        (sent, spent)
    }
}

impl PartialEq for SentSlot {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// A content of a request. Most refer to the content of an event, so that a long history is not copied.
#[derive(Clone, Debug)]
pub enum ContentRef {
    /// The content of an event, shared with the log.
    Event(Arc<Event>),
    Owned(Box<Content>),
    /// A text written by the runner, in the user role.
    Note(Note, Box<Content>),
}

impl ContentRef {
    pub(crate) fn note(kind: Note, content: Content) -> Self {
        Self::Note(kind, Box::new(content))
    }

    pub(crate) fn into_content(self) -> Content {
        match self {
            Self::Event(event) => Arc::unwrap_or_clone(event).content.unwrap_or_default(),
            Self::Owned(content) | Self::Note(_, content) => *content,
        }
    }
}

impl Deref for ContentRef {
    type Target = Content;

    fn deref(&self) -> &Content {
        const EMPTY: &Content = &Content { parts: Vec::new(), role: None, origin: None };
        match self {
            Self::Event(event) => event.content.as_ref().unwrap_or(EMPTY),
            Self::Owned(content) | Self::Note(_, content) => content,
        }
    }
}

impl From<Content> for ContentRef {
    fn from(content: Content) -> Self {
        Self::Owned(Box::new(content))
    }
}

impl PartialEq for ContentRef {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

/// Settings of a model call: the fields of ADK's `generate_content_config`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GenerateContentConfig {
    #[serde(alias = "system_instruction", skip_serializing_if = "Option::is_none")]
    pub system_instruction: Option<Content>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    #[serde(alias = "top_p", skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    #[serde(alias = "max_output_tokens", skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u32>,
    #[serde(alias = "stop_sequences", skip_serializing_if = "Vec::is_empty")]
    pub stop_sequences: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<i64>,
    #[serde(alias = "response_schema", skip_serializing_if = "Option::is_none")]
    pub response_schema: Option<Value>,
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FunctionDeclaration {
    pub description: String,
    pub name: String,
    /// A JSON Schema of an object.
    pub parameters_json_schema: Value,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct LlmResponse {
    pub content: Option<Content>,
    pub partial: bool,
    pub turn_complete: bool,
    pub finish_reason: Option<String>,
    /// Set if the model refused to answer. This is a response, not a failed call.
    pub error_code: Option<String>,
    pub error_message: Option<String>,
    pub usage_metadata: Option<UsageMetadata>,
    pub model_version: Option<String>,
    /// Copied to the event. A partial response may carry nothing else, e.g. the status of a retry.
    pub custom_metadata: Option<Map<String, Value>>,
    /// ADK's other fields of a response, such as `groundingMetadata` and `citationMetadata`. Copied to the event.
    pub extra: Map<String, Value>,
}
