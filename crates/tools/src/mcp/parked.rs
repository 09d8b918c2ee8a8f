//! Parked calls: calls in progress at a server that wait for the user's answer to a question. No turn waits for them.
//!
//! A parked call is lost when its process ends. Then the answer finds no call, and its outcome is unknown.

use lock::LockExt;
use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::{
    sync::{mpsc, oneshot},
    task::JoinHandle,
    time::sleep,
};

use super::{
    call::McpCallError,
    elicitation::{AskedQuestion, CallLink},
    received::ReceivedResult,
};
use crate::{InputQuestion, InputReply, ToolHost};

/// How many calls of a process are parked at once. Further questions are declined.
const MAX_PARKED: usize = 256;

type CallResult = Result<ReceivedResult, McpCallError>;

/// A call in progress. Dropping it abandons the call.
pub(super) struct RunningCall {
    task: JoinHandle<CallResult>,
    questions: mpsc::UnboundedReceiver<AskedQuestion>,
    link: Arc<CallLink>,
}

/// What a call in progress does next.
pub(super) enum CallStep {
    Ended(CallResult),
    Asked(AskedQuestion),
}

impl RunningCall {
    pub(super) fn new(
        call: impl Future<Output = CallResult> + Send + 'static,
        questions: mpsc::UnboundedReceiver<AskedQuestion>,
        link: Arc<CallLink>,
    ) -> Self {
        Self { task: tokio::spawn(call), questions, link }
    }

    pub(super) fn link(&self) -> &CallLink {
        &self.link
    }

    pub(super) async fn next(&mut self) -> CallStep {
        loop {
            let asked = tokio::select! {
                biased;
                ended = &mut self.task => {
                    return CallStep::Ended(ended.unwrap_or_else(|_| Err(McpCallError::Lost("the call ended unexpectedly".to_owned()))));
                }
                Some(asked) = self.questions.recv() => asked,
            };
            // The server may have withdrawn its question in the meantime.
            if !asked.reply.is_closed() {
                return CallStep::Asked(asked);
            }
        }
    }
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A session, and the id of a call in it.
type CallKey = (String, String);

/// The parked calls of a process.
#[derive(Clone, Default)]
pub struct ParkedCalls(Arc<Mutex<ParkedState>>);

#[derive(Default)]
struct ParkedState {
    calls: BTreeMap<CallKey, ParkedCall>,
    /// The number of calls that were parked so far.
    parked: u64,
}

struct ParkedCall {
    running: RunningCall,
    reply: oneshot::Sender<InputReply>,
    number: u64,
    _timer: AnswerTimer,
}

/// Abandons a parked call after some time, unless it is dropped before.
struct AnswerTimer(JoinHandle<()>);

impl Drop for AnswerTimer {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl ParkedCalls {
    /// Parks a call that has asked a question, for at most `time`. Returns the call if too many are parked.
    pub(super) fn park(
        &self,
        key: CallKey,
        running: RunningCall,
        asked: AskedQuestion,
        time: Duration,
    ) -> Result<InputQuestion, RunningCall> {
        let AskedQuestion { question, reply } = asked;
        let mut state = self.0.locked();
        if state.calls.len() >= MAX_PARKED {
            let _ = reply.send(InputReply::Decline);
            return Err(running);
        }
        state.parked += 1;
        let number = state.parked;
        let timer = AnswerTimer(tokio::spawn(self.clone().expire(key.clone(), number, time)));
        state.calls.insert(key, ParkedCall { running, reply, number, _timer: timer });
        Ok(question)
    }

    async fn expire(self, key: CallKey, number: u64, time: Duration) {
        sleep(time).await;
        let mut state = self.0.locked();
        if state.calls.get(&key).is_some_and(|call| call.number == number) {
            state.calls.remove(&key);
        }
    }

    /// Sends the answer to the server, and returns the call. `None` if it is not parked.
    pub(super) fn resume(
        &self,
        key: &CallKey,
        reply: InputReply,
        host: Arc<dyn ToolHost>,
    ) -> Option<RunningCall> {
        let ParkedCall { running, reply: sender, .. } = self.0.locked().calls.remove(key)?;
        running.link.set_host(host);
        // The server may have withdrawn its question.
        let _ = sender.send(reply);
        Some(running)
    }

    /// Whether the call waits for an answer.
    pub fn contains(&self, session: &str, call: &str) -> bool {
        self.0.locked().calls.contains_key(&(session.to_owned(), call.to_owned()))
    }

    pub fn is_empty(&self) -> bool {
        self.0.locked().calls.is_empty()
    }

    /// Abandons the calls of a session whose questions are no longer open.
    pub fn retain(&self, session: &str, is_open: impl Fn(&str) -> bool) {
        self.0.locked().calls.retain(|(of, call), _| of != session || is_open(call));
    }
}

impl fmt::Debug for ParkedCalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ParkedCalls").field("calls", &self.0.locked().calls.len()).finish_non_exhaustive()
    }
}
