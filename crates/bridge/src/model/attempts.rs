//! One model call of an agent, with its attempts: retry, retry with a shorter conversation, or fall back to another
//! model.

mod learning;

use super::{
    answer::{MAX_TOKENS, Progress, ResponseBuilder},
    memory::{ContextEstimate, KnownLimits},
    notice::{Notice, NoticeKind},
    retries::{RetryDecision, RetryPolicy},
    target::{ModelTarget, RequestLimits},
};
use crate::{digest::sha256_hex, view::options};
use adk::{
    error::LlmError,
    model::{LlmRequest, LlmResponse, LlmStream, SpentTokens},
};
use futures::{StreamExt, stream};
use lock::LockExt;
use provider::{Error, ModelStream, RetryAdvice, StreamEvent};
use std::{
    collections::{HashSet, VecDeque},
    sync::{Arc, Mutex},
    time::Duration,
};

/// Warnings that were sent, so that each is sent once.
pub(super) type GivenWarnings = Mutex<HashSet<String>>;
/// Limit, for a server that varies its warnings.
const MOST_WARNINGS: usize = 100;

pub(super) struct Attempts {
    targets: Arc<[ModelTarget]>,
    request: LlmRequest,
    stream: bool,
    retries: RetryPolicy,
    given_warnings: Arc<GivenWarnings>,
    /// Index of the current target.
    at: usize,
    /// Number of retries with the current target.
    tried: u32,
    /// The limits of the last request.
    limits: RequestLimits,
    /// The context size that the server stated in this call.
    stated: Option<u32>,
    /// The estimate of the context size before this call.
    estimate: Option<ContextEstimate>,
    /// What this call learned about the current target.
    learned: KnownLimits,
    /// Whether text of the answer was streamed. Reasoning does not count: another attempt replaces it.
    shown: bool,
    /// The failures of earlier targets.
    failures: Vec<String>,
    notices: VecDeque<Notice>,
    stage: Stage,
}

enum Stage {
    Ask,
    Listen(ModelStream, Box<ResponseBuilder>),
    Wait {
        left: Duration,
        because: String,
    },
    /// The final response, after the notices about it.
    Last(Box<LlmResponse>),
    Over,
}

impl Attempts {
    pub(super) fn new(
        targets: Arc<[ModelTarget]>,
        request: LlmRequest,
        stream: bool,
        retries: RetryPolicy,
        given_warnings: Arc<GivenWarnings>,
    ) -> Self {
        Self {
            targets,
            request,
            stream,
            retries,
            given_warnings,
            at: 0,
            tried: 0,
            limits: RequestLimits::default(),
            stated: None,
            estimate: None,
            learned: KnownLimits::default(),
            shown: false,
            failures: Vec::new(),
            notices: VecDeque::new(),
            stage: Stage::Ask,
        }
    }

    /// Partial responses and notices as they arrive, if streaming is on; then exactly one final response or error,
    /// which is the last item.
    pub(super) fn responses(self) -> LlmStream {
        stream::unfold(Box::new(self), |mut attempts| async {
            let response = attempts.next().await?;
            Some((response, attempts))
        })
        .boxed()
    }

    async fn next(&mut self) -> Option<Result<LlmResponse, LlmError>> {
        loop {
            if let Some(notice) = self.notices.pop_front() {
                return Some(Ok(notice.response()));
            }
            match &mut self.stage {
                Stage::Ask => self.ask(),
                Stage::Wait { left, .. } => {
                    let second = until_next_second(*left);
                    tokio::time::sleep(second).await;
                    *left = left.saturating_sub(second);
                    if left.is_zero() {
                        self.stage = Stage::Ask;
                    } else {
                        self.notify_wait();
                    }
                }
                Stage::Listen(events, answer) => {
                    let event = events.next().await.unwrap_or_else(|| truncated(&self.targets[self.at]));
                    let progress = answer.push(event);
                    if let Some(usage) = answer.take_new_usage() {
                        let model = self.targets[self.at].name().to_owned();
                        self.request.sent.set_usage(SpentTokens { model, usage });
                    }
                    if let Some(response) = self.apply(progress) {
                        return Some(response);
                    }
                }
                Stage::Last(response) => {
                    let response = std::mem::take(&mut **response);
                    self.stage = Stage::Over;
                    return Some(Ok(response));
                }
                Stage::Over => return None,
            }
        }
    }

    fn ask(&mut self) {
        self.warn_of_ineffective_settings();
        let request = self.next_request();
        if self.has_fallback()
            && let Some(what) = self.missing_capability(&request)
        {
            let target = &self.targets[self.at];
            let source = if target.is_missing(&what) { "it is not configured for it" } else { "remembered" };
            let (provider, message) = (target.provider().to_owned(), source.to_owned());
            return self.fall_back(&Error::Unsupported { provider, message, what });
        }
        self.warn_of_missing_parts(&request);
        let target = &self.targets[self.at];
        let events = target.ask(request);
        self.report_sent(None);
        let answer = ResponseBuilder::new(target.provider(), target.origin(), self.stream);
        self.stage = Stage::Listen(events, Box::new(answer));
    }

    /// Reports how the request was built. Its hash is known when it has been encoded.
    fn report_sent(&self, sha256: Option<String>) {
        self.request.sent.set(self.targets[self.at].sent(&self.limits, sha256));
    }

    fn apply(&mut self, progress: Progress) -> Option<Result<LlmResponse, LlmError>> {
        match progress {
            Progress::Nothing => None,
            Progress::Warning(text) => {
                self.warn(text);
                None
            }
            Progress::Partial(chunk) => {
                self.shown |= chunk.content.as_ref().is_some_and(|content| !content.text().trim().is_empty());
                Some(Ok(*chunk))
            }
            Progress::Whole(response) => {
                self.request.sent.end_attempt(true);
                self.remember();
                let response = self.with_unsupported_notice(self.with_fallback_notice(*response));
                let response = self.with_cut_notice(response);
                if response.finish_reason.as_deref() == Some(MAX_TOKENS) {
                    self.notify(self.cut_notice());
                }
                self.stage = Stage::Last(Box::new(response));
                None
            }
            Progress::Sent(body) => {
                self.report_sent(Some(sha256_hex(&body)));
                None
            }
            Progress::Failed(error) => {
                self.request.sent.end_attempt(false);
                self.recover(error).map(Err)
            }
        }
    }

    /// Prepares the next attempt, or returns the error if there is none.
    fn recover(&mut self, error: Error) -> Option<LlmError> {
        if !self.shown && self.recover_unsupported(&error) {
            return None;
        }
        let decision = if self.shown { RetryDecision::Fail } else { self.retries.decide(&error, self.tried) };
        match decision {
            RetryDecision::Wait(left) => {
                self.tried += 1;
                self.stage = Stage::Wait { left, because: head(&error) };
                self.notify_wait();
                None
            }
            RetryDecision::Shorten if self.shorten(&error) => None,
            RetryDecision::Shorten | RetryDecision::Fallback if self.has_fallback() => {
                self.fall_back(&error);
                None
            }
            RetryDecision::Shorten | RetryDecision::Fallback | RetryDecision::Fail => {
                self.stage = Stage::Over;
                Some(self.give_up(error))
            }
        }
    }

    /// Sends a notice with the remaining wait.
    fn notify_wait(&mut self) {
        let Stage::Wait { left, because } = &self.stage else { return };
        let model = self.targets[self.at].name();
        let seconds = Some(left.as_secs() + u64::from(left.subsec_nanos() > 0));
        let notice = Notice::new(NoticeKind::Retry, because, model);
        self.notify(Notice { seconds, attempt: Some(self.tried), ..notice });
    }

    fn has_fallback(&self) -> bool {
        self.at + 1 < self.targets.len()
    }

    /// Calls another model if this one does not have a capability, and leaves out anything else that it does not support.
    fn recover_unsupported(&mut self, error: &Error) -> bool {
        match error.omission() {
            Some(what) if what.is_capability() && self.has_fallback() => {
                self.remember_missing(what);
                self.fall_back(error);
                true
            }
            Some(_) => self.leave_out(error),
            None => false,
        }
    }

    fn fall_back(&mut self, error: &Error) {
        let failed = format!("{}: {}", self.targets[self.at].name(), self.describe(error));
        self.failures.push(failed);
        self.at += 1;
        self.tried = 0;
        self.forget_attempt();
        self.stage = Stage::Ask;
        let next = self.targets[self.at].name();
        let message = format!("{}; asking {next} instead", head(error));
        self.notify(Notice::new(NoticeKind::Fallback, message, next));
    }

    fn give_up(&self, error: Error) -> LlmError {
        let last = self.describe(&error);
        let message = if self.failures.is_empty() {
            last
        } else {
            format!("{}; {}: {last}", self.failures.join("; "), self.targets[self.at].name())
        };
        LlmError { code: error.code().to_owned(), message, source: Some(Box::new(error)) }
    }

    /// The error message with the measures that were taken.
    fn describe(&self, error: &Error) -> String {
        let cap = self.retries.cap;
        if let Some(wait) = self.retries.too_long(error) {
            return format!("{error}; the requested wait of {wait:?} exceeds the limit of {cap:?}");
        }
        match self.tried {
            _ if error.retry_advice() == RetryAdvice::Shorter && self.limits.room.is_some() => {
                format!("{error}; a shortened conversation does not fit either")
            }
            0 => error.to_string(),
            tried => format!("{error}; gave up after {} attempts", tried + 1),
        }
    }

    /// Marks the response of a fallback model with a notice.
    fn with_fallback_notice(&self, response: LlmResponse) -> LlmResponse {
        let target = &self.targets[self.at];
        if self.at == 0 {
            return response;
        }
        let message = format!("{} answered; {}", target.name(), self.failures.join("; "));
        let notice = Notice::new(NoticeKind::Fallback, message, target.name());
        let model_version = response.model_version.or_else(|| Some(target.model().to_owned()));
        notice.mark(LlmResponse { model_version, ..response })
    }

    fn cut_notice(&self) -> Notice {
        let model = self.targets[self.at].name();
        Notice::new(NoticeKind::Cut, format!("the output limit of {model} cut the answer off"), model)
    }

    /// Marks an answer that the output limit cut off, unless it has another notice.
    fn with_cut_notice(&self, response: LlmResponse) -> LlmResponse {
        if response.finish_reason.as_deref() != Some(MAX_TOKENS) || Notice::is_on(&response) {
            return response;
        }
        self.cut_notice().mark(response)
    }

    /// Warns of settings that have no effect.
    fn warn_of_ineffective_settings(&mut self) {
        let unknown = options::without_effect(&self.request.config);
        if !unknown.is_empty() {
            self.warn(format!("these settings have no effect: {}", unknown.join(", ")));
        }
    }

    fn warn(&mut self, text: String) {
        let model = self.targets[self.at].name();
        let mut given_warnings = self.given_warnings.locked();
        let is_new = self.stream
            && given_warnings.len() < MOST_WARNINGS
            && given_warnings.insert(format!("{model}: {text}"));
        drop(given_warnings);
        if is_new {
            self.notify(Notice::new(NoticeKind::Warning, text, model));
        }
    }

    /// Queues a notice, if streaming is on.
    fn notify(&mut self, notice: Notice) {
        if self.stream {
            self.notices.push_back(notice);
        }
    }
}

/// Waits the fraction of a second first, so that notices count whole seconds.
fn until_next_second(left: Duration) -> Duration {
    match left.subsec_nanos() {
        0 => left.min(Duration::from_secs(1)),
        part => Duration::from_nanos(part.into()),
    }
}

fn truncated(target: &ModelTarget) -> StreamEvent {
    StreamEvent::Error(Error::Truncated { provider: target.provider().to_owned() })
}

/// The message of an error without the provider's own text.
fn head(error: &Error) -> String {
    let message = error.to_string();
    message.split_once(": ").map_or(message.clone(), |(head, _)| head.to_owned())
}
