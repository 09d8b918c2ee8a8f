//! A provider that plays its answers in order and records its requests. Without further answers it echoes the last
//! message.

use bytes::Bytes;
use futures::{FutureExt, StreamExt, stream};
use provider::{
    Done, EncodedBody, Error, MessagePart, ModelMessage, ModelRequest, ModelStream, Provider, Role,
    StreamEvent, ToolCall, WireApi,
};
use serde_json::Value;
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};
use tokio::sync::Semaphore;

pub(crate) struct Fake {
    name: &'static str,
    answers: Mutex<VecDeque<Vec<StreamEvent>>>,
    requests: Mutex<Vec<ModelRequest>>,
    /// Each permit starts one answer.
    gate: Option<Arc<Semaphore>>,
}

impl Fake {
    pub(crate) fn new(answers: Vec<Vec<StreamEvent>>) -> Arc<Self> {
        Self::called("fake", answers)
    }

    pub(crate) fn called(name: &'static str, answers: Vec<Vec<StreamEvent>>) -> Arc<Self> {
        Arc::new(Self { name, answers: Mutex::new(answers.into()), requests: Mutex::default(), gate: None })
    }

    /// A model that echoes the last message.
    pub(crate) fn echo() -> Arc<Self> {
        Self::new(Vec::new())
    }

    /// A model whose answers start only with a permit.
    pub(crate) fn gated(answers: Vec<Vec<StreamEvent>>) -> (Arc<Self>, Arc<Semaphore>) {
        let gate = Arc::new(Semaphore::new(0));
        let gated = Some(gate.clone());
        let (answers, requests) = (Mutex::new(answers.into()), Mutex::default());
        let fake = Self { name: "fake", answers, requests, gate: gated };
        (Arc::new(fake), gate)
    }

    /// Appends answers.
    pub(crate) fn then(&self, answers: impl IntoIterator<Item = Vec<StreamEvent>>) {
        self.answers.lock().unwrap().extend(answers);
    }

    pub(crate) fn requests(&self) -> Vec<ModelRequest> {
        self.requests.lock().unwrap().clone()
    }

    pub(crate) fn last_request(&self) -> ModelRequest {
        self.requests.lock().unwrap().last().cloned().expect("the model was asked")
    }
}

impl Provider for Fake {
    fn name(&self) -> &'static str {
        self.name
    }

    fn stream(&self, request: ModelRequest) -> ModelStream {
        let scripted = self.answers.lock().unwrap().pop_front();
        let answer = scripted.unwrap_or_else(|| vec![text(&format!("re: {}", last_words(&request))), done()]);
        let sent = StreamEvent::Sent(body(&request));
        self.requests.lock().unwrap().push(request.with_all_messages().into_owned());
        let gate = self.gate.clone();
        let opened = async move {
            if let Some(gate) = gate {
                gate.acquire_owned().await.unwrap().forget();
            }
            stream::iter([sent].into_iter().chain(answer).collect::<Vec<_>>())
        };
        opened.into_stream().flatten().boxed()
    }

    fn reads_prefix(&self) -> bool {
        true
    }

    fn encode(&self, request: &ModelRequest) -> Option<EncodedBody> {
        Some(body(request).into())
    }
}

fn body(request: &ModelRequest) -> Bytes {
    WireApi::Chat.encode_to_bytes("", request).into()
}

fn last_words(request: &ModelRequest) -> String {
    let request = request.with_all_messages();
    let mut users = request.messages.iter().rev().filter(|message| message.role == Role::User);
    users.find_map(words).unwrap_or_default()
}

fn words(message: &ModelMessage) -> Option<String> {
    message.parts.iter().rev().find_map(|part| match part {
        MessagePart::Text { text, .. } => Some(text.to_string()),
        MessagePart::Thought { .. }
        | MessagePart::Call(_)
        | MessagePart::Result(_)
        | MessagePart::Media(_) => None,
    })
}

pub(crate) fn text(text: &str) -> StreamEvent {
    StreamEvent::text(text)
}

pub(crate) fn call(id: &str, name: &str, args: Value) -> StreamEvent {
    let Value::Object(args) = args else { panic!("arguments are an object: {args}") };
    StreamEvent::ToolCall(ToolCall { id: id.to_owned(), name: name.to_owned(), args, ..ToolCall::default() })
}

/// An answer that consists of one call.
pub(crate) fn calls(id: &str, name: &str, args: Value) -> Vec<StreamEvent> {
    vec![call(id, name, args), done()]
}

pub(crate) fn done() -> StreamEvent {
    StreamEvent::Done(Done::default())
}

pub(crate) fn failure(message: &str) -> StreamEvent {
    StreamEvent::Error(Error::Failed { code: "BROKEN".to_owned(), message: message.to_owned() })
}
