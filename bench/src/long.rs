//! The input cost of a long conversation: what a provider with a prompt cache charges for its requests, with our window and with a
//! window that slides.
//!
//! A request reads from the cache what it has in common with the one before, at a tenth of the price, and writes the rest, at
//! one and a quarter. Only the history is counted: instruction and tools are the same for both windows.

use crate::{
    BenchEnv, Result,
    figure::{Figure, Target},
};
use adk::{agent::LlmAgent, content::Content, runner::RunRequest, session::SessionKey};
use bridge::{Agent, Budget, ModelAdapter, view::cost};
use futures::{StreamExt, stream};
use provider::{Done, ModelMessage, ModelRequest, ModelStream, Provider, Role, StreamEvent};
use session::memory::MemoryStore;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::runtime::Runtime;

const TURNS: usize = 500;
const TOKENS_PER_TURN: [usize; 4] = [400, 800, 2_000, 4_000];
/// The size with targets.
const TYPICAL: usize = 800;
const READ: f64 = 0.1;
const WRITE: f64 = 1.25;

pub(crate) fn run(_: &BenchEnv) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for tokens in TOKENS_PER_TURN {
        let requests = converse(tokens)?;
        let last = requests.last().ok_or("no request was sent")?;
        let ours = Bill::of(&requests);
        let sliding = Bill::of(&slide(tokens, Budget::default().tokens()));
        let named = |what: &str| format!("long/{tokens}/{what}");
        let mut cached = Figure::new(named("cached"), ours.cached_percent(), "%");
        let mut ratio = Figure::new(named("to_sliding"), ours.cost() / sliding.cost(), "ratio");
        if tokens == TYPICAL {
            cached = cached.target(Target::AtLeast(90.0));
            ratio = ratio.target(Target::AtMost(0.2));
        }
        figures.extend([
            cached,
            Figure::new(named("cost"), ours.cost() / 1e6, "M tokens"),
            Figure::new(named("sliding/cached"), sliding.cached_percent(), "%"),
            Figure::new(named("sliding/cost"), sliding.cost() / 1e6, "M tokens"),
            ratio,
            Figure::new(named("last"), last.iter().map(|message| f64::from(message.tokens)).sum(), "tokens"),
        ]);
    }
    Ok(figures)
}

/// A message as a cache sees it.
#[derive(Clone, PartialEq)]
struct PricedMessage {
    message: ModelMessage,
    tokens: u32,
}

impl PricedMessage {
    fn new(message: &ModelMessage) -> Self {
        Self { message: message.clone(), tokens: cost::of_message(message) }
    }
}

/// The tokens of all requests, at the price of the input that is not cached.
#[derive(Default)]
struct Bill {
    read: f64,
    written: f64,
}

impl Bill {
    fn of(requests: &[Vec<PricedMessage>]) -> Self {
        let mut bill = Self::default();
        let mut before: &[PricedMessage] = &[];
        for request in requests {
            let common = before.iter().zip(request).take_while(|(old, new)| old == new).count();
            let sum = |messages: &[PricedMessage]| {
                messages.iter().map(|message| f64::from(message.tokens)).sum::<f64>()
            };
            bill.read += sum(&request[..common]);
            bill.written += sum(&request[common..]);
            before = request;
        }
        bill
    }

    fn cost(&self) -> f64 {
        self.read * READ + self.written * WRITE
    }

    fn cached_percent(&self) -> f64 {
        100.0 * self.read / (self.read + self.written)
    }
}

/// A text of about `tokens` tokens that no other turn has.
fn words(turn: usize, tokens: usize) -> String {
    format!("Turn {turn}:{}", " word".repeat(tokens.saturating_sub(8)))
}

/// The requests of a conversation through the whole agent.
fn converse(tokens: usize) -> Result<Vec<Vec<PricedMessage>>> {
    let model = Arc::new(RecordingModel { tokens: tokens / 2, requests: Mutex::default() });
    let adapter = ModelAdapter::new(Arc::clone(&model) as Arc<dyn Provider>, "", Budget::default());
    let root = LlmAgent { instruction: "Be fast.".into(), ..LlmAgent::new("bench", Arc::new(adapter)) };
    let agent = Agent::new(Arc::new(MemoryStore::new()), root, Budget::default())?;
    let key = SessionKey::new("bench", "user", "long");
    Runtime::new()?.block_on(async {
        agent.sessions().get_or_create(&key).await?;
        for turn in 0..TURNS {
            let message = Content::user(words(turn, tokens / 2));
            agent.run_and_collect(RunRequest::message(key.clone(), message)).await?;
        }
        Ok::<_, Box<dyn std::error::Error>>(())
    })?;
    Ok(std::mem::take(&mut *model.requests.lock().unwrap_or_else(PoisonError::into_inner)))
}

/// The same conversation in a window that holds the newest messages, beginning with one of the user.
fn slide(tokens: usize, budget: u32) -> Vec<Vec<PricedMessage>> {
    let say = |role, turn| PricedMessage::new(&ModelMessage::text(role, words(turn, tokens / 2)));
    let (mut log, mut requests) = (Vec::new(), Vec::new());
    for turn in 0..TURNS {
        log.push(say(Role::User, turn));
        let mut left = Some(budget);
        let fitting = log.iter().rev().take_while(|message| {
            left = left.and_then(|left| left.checked_sub(message.tokens));
            left.is_some()
        });
        let start = log.len() - fitting.count();
        let start = start + usize::from(log[start].message.role == Role::Assistant);
        requests.push(log[start..].to_vec());
        log.push(say(Role::Assistant, turn));
    }
    requests
}

/// Records its requests and answers with a text of a fixed length.
struct RecordingModel {
    tokens: usize,
    requests: Mutex<Vec<Vec<PricedMessage>>>,
}

impl Provider for RecordingModel {
    fn name(&self) -> &'static str {
        "recording"
    }

    fn stream(&self, request: ModelRequest) -> ModelStream {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = words(requests.len(), self.tokens);
        requests.push(request.conversation().map(PricedMessage::new).collect());
        stream::iter([StreamEvent::text(&answer), StreamEvent::Done(Done::default())]).boxed()
    }
}
