//! One model call of an agent: its model is asked, and if that fails, again, with less, or another is.

use super::{
    answer::{Progress, ResponseBuilder},
    notice::{Notice, NoticeKind},
    retries::{Remedy, Retries},
    target::ModelTarget,
};
use crate::view::options;
use adk::{
    error::LlmError,
    model::{LlmRequest, LlmResponse, LlmStream},
};
use futures::{StreamExt, stream};
use provider::{Error, ModelStream, RetryAdvice, StreamEvent};
use std::{
    collections::{HashSet, VecDeque},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// Warnings that were given, so that each is given once.
pub(super) type GivenWarnings = Mutex<HashSet<String>>;
/// Enough; a server that always finds new words is not listened to for ever.
const MOST_WARNINGS: usize = 100;

pub(super) struct Attempts {
    targets: Arc<[ModelTarget]>,
    request: LlmRequest,
    stream: bool,
    retries: Retries,
    told: Arc<GivenWarnings>,
    /// Which of the targets is asked.
    at: usize,
    /// How often it has been asked again.
    tried: u32,
    /// How long the conversation may be, once it was too long.
    room: Option<u32>,
    /// Whether anything of an answer has been shown.
    shown: bool,
    /// What became of the targets before.
    failures: Vec<String>,
    notices: VecDeque<Notice>,
    stage: Stage,
}

enum Stage {
    Ask,
    Listen(ModelStream, ResponseBuilder),
    Wait { left: Duration, because: String },
    Over,
}

impl Attempts {
    pub(super) fn new(
        targets: Arc<[ModelTarget]>,
        request: LlmRequest,
        stream: bool,
        retries: Retries,
        told: Arc<GivenWarnings>,
    ) -> Self {
        Self {
            targets,
            request,
            stream,
            retries,
            told,
            at: 0,
            tried: 0,
            room: None,
            shown: false,
            failures: Vec::new(),
            notices: VecDeque::new(),
            stage: Stage::Ask,
        }
    }

    /// Partial responses and notices as they come, if asked for; then exactly one that is whole, or the error, and nothing
    /// after it.
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
                        self.tell_wait();
                    }
                }
                Stage::Listen(events, answer) => {
                    let event = events.next().await.unwrap_or_else(|| cut_off(&self.targets[self.at]));
                    let taken = answer.take(event);
                    if let Some(response) = self.take(taken) {
                        return Some(response);
                    }
                }
                Stage::Over => return None,
            }
        }
    }

    fn ask(&mut self) {
        self.warn_of_settings();
        let target = &self.targets[self.at];
        let events = target.ask(target.request(&self.request, self.room));
        self.stage = Stage::Listen(events, ResponseBuilder::new(target.origin(), self.stream));
    }

    fn take(&mut self, taken: Progress) -> Option<Result<LlmResponse, LlmError>> {
        match taken {
            Progress::Nothing => None,
            Progress::Warning(text) => {
                self.warn(text);
                None
            }
            Progress::Partial(piece) => {
                self.shown = true;
                Some(Ok(*piece))
            }
            Progress::Whole(response) => {
                self.stage = Stage::Over;
                Some(Ok(self.credited(*response)))
            }
            Progress::Failed(error) => self.recover(error).map(Err),
        }
    }

    /// Prepares the next attempt, or answers with the error if there is none.
    fn recover(&mut self, error: Error) -> Option<LlmError> {
        let remedy = if self.shown { Remedy::Nothing } else { self.retries.remedy(&error, self.tried) };
        match remedy {
            Remedy::Wait(left) => {
                self.tried += 1;
                self.stage = Stage::Wait { left, because: head(&error) };
                self.tell_wait();
                None
            }
            Remedy::Shorten if self.shorten(&error) => None,
            Remedy::Shorten | Remedy::Another if self.at + 1 < self.targets.len() => {
                self.fall_back(&error);
                None
            }
            Remedy::Shorten | Remedy::Another | Remedy::Nothing => {
                self.stage = Stage::Over;
                Some(self.give_up(error))
            }
        }
    }

    /// Tells how long it still is.
    fn tell_wait(&mut self) {
        let Stage::Wait { left, because } = &self.stage else { return };
        let model = self.targets[self.at].name();
        let seconds = Some(left.as_secs() + u64::from(left.subsec_nanos() > 0));
        let notice = Notice::new(NoticeKind::Retry, because, model);
        self.notify(Notice { seconds, attempt: Some(self.tried), ..notice });
    }

    /// A conversation that is too long is shortened once; whether that helps, the model says.
    fn shorten(&mut self, error: &Error) -> bool {
        if self.room.is_some() {
            return false;
        }
        let target = &self.targets[self.at];
        self.room = target.shorter(&target.request(&self.request, None), &error.to_string());
        if self.room.is_some() {
            let told = format!("{}; trying again with less of it", head(error));
            self.notify(Notice::new(NoticeKind::Shorter, told, self.targets[self.at].name()));
            self.stage = Stage::Ask;
        }
        self.room.is_some()
    }

    fn fall_back(&mut self, error: &Error) {
        let failed = format!("{}: {}", self.targets[self.at].name(), self.told_of(error));
        self.failures.push(failed);
        self.at += 1;
        self.tried = 0;
        self.room = None;
        self.stage = Stage::Ask;
        let next = self.targets[self.at].name();
        let told = format!("{}; asking {next} instead", head(error));
        self.notify(Notice::new(NoticeKind::Fallback, told, next));
    }

    fn give_up(&self, error: Error) -> LlmError {
        let last = self.told_of(&error);
        let message = if self.failures.is_empty() {
            last
        } else {
            format!("{}; {}: {last}", self.failures.join("; "), self.targets[self.at].name())
        };
        LlmError { code: error.code().to_owned(), message, source: Some(Box::new(error)) }
    }

    /// The error, and what was done about it.
    fn told_of(&self, error: &Error) -> String {
        let cap = self.retries.cap;
        if let Some(wait) = self.retries.too_long(error) {
            return format!("{error}; it asks to wait {wait:?}, and {cap:?} is the longest wait");
        }
        match self.tried {
            _ if error.retry_advice() == RetryAdvice::Shorter && self.room.is_some() => {
                format!("{error}; nor does less of it fit")
            }
            0 => error.to_string(),
            tried => format!("{error}; it was asked {} times", tried + 1),
        }
    }

    /// An answer of another model than the one that was wanted says so.
    fn credited(&self, response: LlmResponse) -> LlmResponse {
        let target = &self.targets[self.at];
        if self.at == 0 {
            return response;
        }
        let told = format!("{} answered; {}", target.name(), self.failures.join("; "));
        let notice = Notice::new(NoticeKind::Fallback, told, target.name());
        let model_version = response.model_version.or_else(|| Some(target.model().to_owned()));
        LlmResponse { model_version, custom_metadata: notice.metadata(), ..response }
    }

    /// Settings that no provider is told of are named.
    fn warn_of_settings(&mut self) {
        let unknown = options::unknown(&self.request.config);
        if !unknown.is_empty() {
            self.warn(format!("these settings have no effect here: {}", unknown.join(", ")));
        }
    }

    fn warn(&mut self, text: String) {
        let model = self.targets[self.at].name();
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let new = self.stream && told.len() < MOST_WARNINGS && told.insert(format!("{model}: {text}"));
        drop(told);
        if new {
            self.notify(Notice::new(NoticeKind::Warning, text, model));
        }
    }

    /// Only those who want pieces want to know what goes on.
    fn notify(&mut self, notice: Notice) {
        if self.stream {
            self.notices.push_back(notice);
        }
    }
}

/// The part of a second first, so that what is left is told in whole ones.
fn until_next_second(left: Duration) -> Duration {
    match left.subsec_nanos() {
        0 => left.min(Duration::from_secs(1)),
        part => Duration::from_nanos(part.into()),
    }
}

fn cut_off(target: &ModelTarget) -> StreamEvent {
    StreamEvent::Error(Error::Truncated { provider: target.provider().to_owned() })
}

/// What has happened, without the provider's own words for it.
fn head(error: &Error) -> String {
    let told = error.to_string();
    told.split_once(": ").map_or(told.clone(), |(head, _)| head.to_owned())
}
