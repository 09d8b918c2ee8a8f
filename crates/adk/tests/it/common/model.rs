//! A fake model with scripted replies that records its requests.

use adk::{
    agent::LlmAgent,
    content::{Content, FunctionCall, Part},
    error::LlmError,
    model::{Llm, LlmRequest, LlmResponse, LlmStream},
};
use futures::{StreamExt, stream};
use serde_json::Value;
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};

/// The reply of one model call.
pub(crate) enum Reply {
    Items(Vec<Result<LlmResponse, LlmError>>),
    /// Each item after a pause; then the stream hangs unless an item ends it.
    Slow(Duration, Vec<Result<LlmResponse, LlmError>>),
    /// Never yields an item.
    Hangs,
}

type Rule = Box<dyn Fn(&LlmRequest) -> Reply + Send + Sync>;

#[derive(Clone)]
pub(crate) struct Fake {
    rule: Arc<Rule>,
    asked: Arc<Mutex<Vec<LlmRequest>>>,
}

impl Fake {
    /// Replies in this order, then with "out of replies".
    pub(crate) fn says(replies: impl IntoIterator<Item = Reply>) -> Self {
        let replies: Mutex<VecDeque<Reply>> = Mutex::new(replies.into_iter().collect());
        Self::by_rule(move |_| replies.lock().unwrap().pop_front().unwrap_or_else(|| text("out of replies")))
    }

    pub(crate) fn by_rule(rule: impl Fn(&LlmRequest) -> Reply + Send + Sync + 'static) -> Self {
        Self { rule: Arc::new(Box::new(rule)), asked: Arc::default() }
    }

    pub(crate) fn agent(&self, name: &str) -> LlmAgent {
        LlmAgent::new(name, Arc::new(self.clone()))
    }

    pub(crate) fn asked(&self) -> Vec<LlmRequest> {
        self.asked.lock().unwrap().clone()
    }

    pub(crate) fn last_asked(&self) -> LlmRequest {
        self.asked().pop().unwrap()
    }
}

impl Llm for Fake {
    fn name(&self) -> &'static str {
        "fake"
    }

    fn generate(&self, request: LlmRequest, _: bool) -> LlmStream {
        let reply = (self.rule)(&request);
        self.asked.lock().unwrap().push(request);
        match reply {
            Reply::Items(items) => {
                let items = stream::iter(items).then(|item| async {
                    tokio::task::yield_now().await;
                    item
                });
                items.boxed()
            }
            Reply::Slow(pause, items) => {
                let items = stream::iter(items).then(move |item| async move {
                    tokio::time::sleep(pause).await;
                    item
                });
                items.chain(stream::pending()).boxed()
            }
            Reply::Hangs => stream::pending().boxed(),
        }
    }
}

pub(crate) fn parts(parts: Vec<Part>) -> Reply {
    let content = Some(Content::new("model", parts));
    Reply::Items(vec![Ok(LlmResponse { content, turn_complete: true, ..LlmResponse::default() })])
}

pub(crate) fn text(text: &str) -> Reply {
    parts(vec![Part::text(text)])
}

pub(crate) fn chunk(part: Part) -> LlmResponse {
    let content = Some(Content::new("model", vec![part]));
    LlmResponse { content, partial: true, ..LlmResponse::default() }
}

/// The chunks of a text, then the complete answer.
pub(crate) fn chunks(chunks: &[&str]) -> Reply {
    Reply::Items(streamed(chunks))
}

pub(crate) fn streamed(chunks: &[&str]) -> Vec<Result<LlmResponse, LlmError>> {
    let whole = LlmResponse { content: Some(Content::model(chunks.concat())), ..LlmResponse::default() };
    chunks.iter().map(|text| chunk(Part::text(*text))).chain([whole]).map(Ok).collect()
}

#[expect(clippy::needless_pass_by_value, reason = "callers write json! in place")]
pub(crate) fn call(name: &str, args: Value) -> Part {
    FunctionCall { name: name.to_owned(), args: args.as_object().cloned(), ..FunctionCall::default() }.into()
}

#[expect(clippy::needless_pass_by_value, reason = "callers write json! in place")]
pub(crate) fn call_as(id: &str, name: &str, args: Value) -> Part {
    let args = args.as_object().cloned();
    FunctionCall { id: Some(id.to_owned()), name: name.to_owned(), args, ..FunctionCall::default() }.into()
}
