//! A client: sends messages to random servers, repeats a request with its idempotency key until it is acknowledged, and records
//! the answers.

use super::{
    journal::{Message, Moment, Reading},
    plan::{Action, Actions, Delivery, SHARED_SESSIONS, SessionChoice},
    stage::{Stage, Target, count},
};
use crate::harness::{
    http::{Answer, HttpRequest},
    machine::{APP, USER, run_path, session_path, sessions_path},
    random::Random,
    script::Kind,
};
use serde_json::{Value, json};
use std::{
    thread,
    time::{Duration, Instant},
};

/// The timeout of one read: a stopped server sends nothing.
pub(super) const READ: Duration = Duration::from_secs(4);
/// The timeout of a read that waits for a whole run.
const READ_ALL: Duration = Duration::from_secs(8);
/// How long a request with a key is repeated.
const ACCEPTANCE: Duration = Duration::from_mins(2);
pub(super) const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(25);

/// A message to be sent.
struct Outgoing {
    session: String,
    text: String,
    key: Option<String>,
    endpoint: Endpoint,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Endpoint {
    /// `POST /run_sse`
    Stream,
    /// `POST …/runs`
    Begin,
    /// `POST /run`
    Wait,
}

/// The outcome of one attempt to send a message.
enum Attempt {
    Accepted {
        run: String,
        answer: Answer,
        target: Target,
    },
    /// The server reported an error: the message is not stored.
    Refused {
        status: u16,
        detail: String,
    },
    /// The connection failed, or no server listens.
    Unreachable,
}

pub(super) struct LoadClient<'a> {
    pub(super) stage: &'a Stage<'a>,
    name: String,
    actions: Actions,
    /// For choices that depend on timing; the plan has its own generator.
    pub(super) random: Random,
    messages: Vec<Message>,
    /// The endpoint of each message.
    endpoints: Vec<Endpoint>,
}

impl<'a> LoadClient<'a> {
    pub(super) fn new(stage: &'a Stage<'a>, number: u64) -> Self {
        let name = stage.round.session(&format!("c{number}"));
        let actions = Actions::new(stage.round.seed, stage.round.number, number);
        let random = stage.round.random(&format!("client {number} timing"));
        Self { stage, name, actions, random, messages: Vec::new(), endpoints: Vec::new() }
    }

    pub(super) fn run(mut self) {
        let own = self.name.clone();
        self.create_session(&own);
        for number in 0..SHARED_SESSIONS {
            let shared = self.stage.round.session(&format!("shared{number}"));
            self.create_session(&shared);
        }
        while !self.stage.is_closing() {
            let Some(action) = self.actions.next() else { break };
            match action {
                Action::Send { session, kind, delivery, is_keyed } => {
                    self.send(session, kind, delivery, is_keyed);
                }
                Action::Repeat => self.repeat(),
                Action::Reuse => self.reuse(),
            }
            thread::sleep(Duration::from_millis(self.random.below(30)));
        }
        let messages = std::mem::take(&mut self.messages);
        self.stage.journal.with(|record| record.messages.extend(messages));
    }

    /// Creates a session, with as many attempts as that takes. It may exist.
    fn create_session(&mut self, id: &str) {
        let (path, body) = (sessions_path(), json!({"sessionId": id}));
        while !self.stage.is_closing() {
            let answer = self.stage.target(&mut self.random);
            let answer = answer.map(|target| HttpRequest::post(&path, &body).send(target.address, READ));
            if let Some(Ok(answer)) = answer
                && matches!(answer.status, 200 | 409)
            {
                return;
            }
            thread::sleep(BETWEEN_ATTEMPTS);
        }
    }

    fn send(&mut self, session: SessionChoice, kind: Kind, delivery: Delivery, is_keyed: bool) {
        let session = match session {
            SessionChoice::Own => self.name.clone(),
            SessionChoice::Shared(number) => self.stage.round.session(&format!("shared{number}")),
        };
        match delivery {
            Delivery::Stream => drop(self.send_and_read(session, kind, Endpoint::Stream, is_keyed)),
            Delivery::Wait => drop(self.send_and_read(session, kind, Endpoint::Wait, is_keyed)),
            Delivery::Leave => drop(self.accept(session, kind, Endpoint::Begin, true)),
            Delivery::Begin => {
                if let Some((session, run, _)) = self.accept(session, kind, Endpoint::Begin, is_keyed) {
                    self.follow(Reading::new(&session, &run));
                }
            }
            Delivery::Burst(number) => {
                for _ in 0..number {
                    let kind = Kind::random(&mut self.random);
                    self.accept(session.clone(), kind, Endpoint::Begin, true);
                }
            }
            Delivery::Cancel(after) => {
                if let Some((session, run, _)) = self.accept(session, Kind::Long, Endpoint::Begin, true) {
                    thread::sleep(Duration::from_millis(after));
                    self.cancel(&session, &run);
                }
            }
        }
    }

    /// Sends a message and reads its run to the end.
    fn send_and_read(
        &mut self,
        session: String,
        kind: Kind,
        endpoint: Endpoint,
        is_keyed: bool,
    ) -> Option<()> {
        let (session, run, (answer, target)) = self.accept(session, kind, endpoint, is_keyed)?;
        let mut reading = Reading::new(&session, &run);
        if endpoint == Endpoint::Wait {
            return self.read_body(reading, answer, target);
        }
        let budget = if self.random.chance(300) { self.random.between(1, 20) } else { u64::MAX };
        let _ = self.read_events(&mut reading, answer, target, budget);
        self.follow(reading);
        Some(())
    }

    /// Sends a message until it is acknowledged, or once if it has no key. Returns its session, its run, and the rest of
    /// the response.
    fn accept(
        &mut self,
        session: String,
        kind: Kind,
        endpoint: Endpoint,
        is_keyed: bool,
    ) -> Option<(String, String, (Answer, Target))> {
        let token = format!("{}-{}", self.name, self.messages.len());
        let key = is_keyed.then(|| format!("key-{token}"));
        let outgoing = Outgoing { session, text: kind.message(&token), key, endpoint };
        let message = Message {
            session: outgoing.session.clone(),
            token,
            kind,
            key: outgoing.key.clone(),
            first_sent: self.stage.now(),
            accepted: None,
            accepted_by: None,
            runs: Vec::new(),
            is_cancelled: false,
        };
        self.messages.push(message);
        self.endpoints.push(endpoint);
        let index = self.messages.len() - 1;
        let (run, answer, target) = self.send_until_accepted(&outgoing, index)?;
        Some((outgoing.session, run, (answer, target)))
    }

    fn send_until_accepted(&mut self, outgoing: &Outgoing, index: usize) -> Option<(String, Answer, Target)> {
        let deadline = Instant::now() + ACCEPTANCE;
        loop {
            let begun = self.stage.now();
            match self.attempt(outgoing) {
                Attempt::Accepted { run, answer, target } => {
                    self.accepted(index, run.clone(), target);
                    return Some((run, answer, target));
                }
                Attempt::Refused { status, detail } => {
                    if !self.is_excused(status, begun, index) {
                        let Message { token, session, .. } = &self.messages[index];
                        let problem = format!("message {token} of {session} is answered {status} {detail}");
                        self.stage.journal.problem(problem);
                        return None;
                    }
                }
                Attempt::Unreachable => {}
            }
            outgoing.key.as_ref().filter(|_| !self.stage.is_abandoned())?;
            if Instant::now() > deadline {
                let Message { token, session, .. } = &self.messages[index];
                let problem =
                    format!("message {token} of {session} is not accepted after two minutes of repetition");
                self.stage.journal.problem(problem);
                return None;
            }
            thread::sleep(BETWEEN_ATTEMPTS);
        }
    }

    fn accepted(&mut self, index: usize, run: String, target: Target) {
        let now = self.stage.now();
        let message = &mut self.messages[index];
        if message.accepted.is_none() {
            count(&self.stage.tally.messages);
            (message.accepted, message.accepted_by) = (Some(now), Some(target.name));
        }
        message.runs.push(run);
    }

    /// Whether an error is expected: the store failed while faults were injected, or the run was cancelled.
    fn is_excused(&self, status: u16, begun: Moment, index: usize) -> bool {
        let message = &self.messages[index];
        match status {
            500 | 503 | 507 => self.stage.had_faults_since(begun),
            409 => message.is_cancelled,
            _ => false,
        }
    }

    fn attempt(&mut self, outgoing: &Outgoing) -> Attempt {
        let Outgoing { session, text, key, endpoint } = outgoing;
        let Some(target) = self.stage.target(&mut self.random) else { return Attempt::Unreachable };
        let mut body = message_body(text);
        // Both streaming endpoints accept a repetition of the same request. `/run` does not stream: its request is another one.
        let endpoint = match endpoint {
            Endpoint::Begin if key.is_some() && self.random.chance(150) => Endpoint::Stream,
            Endpoint::Begin => Endpoint::Begin,
            Endpoint::Stream => Endpoint::Stream,
            Endpoint::Wait => Endpoint::Wait,
        };
        let (path, timeout, expected) = match endpoint {
            Endpoint::Begin => (format!("{}/runs", session_path(session)), READ, 202),
            Endpoint::Stream => ("/run_sse".to_owned(), READ, 200),
            Endpoint::Wait => ("/run".to_owned(), READ_ALL, 200),
        };
        if endpoint != Endpoint::Begin {
            body["appName"] = json!(APP);
            body["userId"] = json!(USER);
            body["sessionId"] = json!(session);
        }
        let headers: Vec<(&'static str, &str)> =
            key.iter().map(|key| ("idempotency-key", key.as_str())).collect();
        let Ok(answer) = HttpRequest::post(&path, &body).with(&headers).send(target.address, timeout) else {
            return Attempt::Unreachable;
        };
        if answer.status != expected {
            let status = answer.status;
            let detail = answer.json().map(|body| body["detail"].to_string()).unwrap_or_default();
            return Attempt::Refused { status, detail };
        }
        match answer.header("x-run-id").map(str::to_owned) {
            Some(run) => Attempt::Accepted { run, answer, target },
            None => Attempt::Refused { status: answer.status, detail: "without a run id".to_owned() },
        }
    }

    /// Sends an earlier request again: the answer must be the same run.
    fn repeat(&mut self) {
        let Some((index, outgoing)) = self.earlier() else { return };
        let Some((run, answer, target)) = self.send_until_accepted(&outgoing, index) else { return };
        if outgoing.endpoint == Endpoint::Wait {
            self.read_body(Reading::new(&outgoing.session, &run), answer, target);
        }
    }

    /// Sends another message with an earlier key.
    fn reuse(&mut self) {
        let Some((_, outgoing)) = self.earlier() else { return };
        let outgoing = Outgoing { text: format!("{} otherwise", outgoing.text), ..outgoing };
        let begun = self.stage.now();
        let problem = match self.attempt(&outgoing) {
            Attempt::Unreachable | Attempt::Refused { status: 422, .. } => return,
            Attempt::Refused { status: 500 | 503 | 507, .. } if self.stage.had_faults_since(begun) => return,
            Attempt::Refused { status, detail } => format!("is answered {status} {detail}"),
            Attempt::Accepted { run, .. } => format!("is accepted as run {run}"),
        };
        self.stage.journal.problem(format!("{:?} with the key of another message {problem}", outgoing.text));
    }

    /// A random message that was acknowledged, as it was sent.
    fn earlier(&mut self) -> Option<(usize, Outgoing)> {
        let known: Vec<usize> = (0..self.messages.len())
            .filter(|index| {
                let message = &self.messages[*index];
                message.key.is_some() && !message.runs.is_empty() && !message.is_cancelled
            })
            .collect();
        let index = self.random.pick(&known)?;
        let Message { session, kind, token, key, .. } = &self.messages[index];
        let (session, text, key) = (session.clone(), kind.message(token), key.clone());
        Some((index, Outgoing { session, text, key, endpoint: self.endpoints[index] }))
    }

    /// Cancels a run on a random server; the server that owns the run ends it.
    fn cancel(&mut self, session: &str, run: &str) {
        if let Some(message) = self.messages.last_mut() {
            message.is_cancelled = true;
        }
        let path = format!("{}/cancel", run_path(session, run));
        for _ in 0..8 {
            let Some(target) = self.stage.target(&mut self.random) else { break };
            let body = json!({});
            let answer = HttpRequest::post(&path, &body).send(target.address, READ);
            if answer.is_ok_and(|answer| answer.status == 200) {
                return;
            }
            thread::sleep(BETWEEN_ATTEMPTS);
        }
    }
}

/// The body of a request that starts a run.
pub(super) fn message_body(text: &str) -> Value {
    json!({"newMessage": {"role": "user", "parts": [{"text": text}]}, "streaming": true})
}
