//! A whole turn with an instant model: the overhead of the product, after sessions of different lengths.
//!
//! After each turn, plain rusqlite stores the same two messages in two commits. The cost of the two commits varies with the
//! load of the machine and is part of every turn.

use crate::{
    BenchEnv, Result,
    figure::{Figure, Target},
    measure::{Samples, cpu_of, milliseconds},
    raw::{self, Raw},
};
use adk::{agent::LlmAgent, content::Content, event::Event, runner::RunRequest, session::SessionKey};
use bridge::{Agent, Budget, ModelAdapter, store::row::save};
use futures::{StreamExt, stream};
use provider::{Done, ModelRequest, ModelStream, Provider, StreamEvent};
use session::{
    SessionMessage, Store,
    sqlite::{Options, SqliteStore},
};
use std::{path::Path, slice, sync::Arc, time::Instant};
use tokio::runtime::Runtime;

const LENGTHS: [(i64, &str); 4] = [(0, "0"), (1_000, "1k"), (10_000, "10k"), (100_000, "100k")];
/// The sizes of the store's benches: 0.5 to 4 KB, evenly distributed on a logarithmic scale.
const MIXED: [usize; 8] = [512, 690, 929, 1252, 1687, 2273, 3063, 4096];
/// The size that google-adk is measured with. A window holds ten times as many of them.
pub(crate) const SHORT: [usize; 1] = [200];
/// Unmeasured turns of another session: they take SQLite's WAL past its first checkpoint, so that it no longer grows.
const WARM_UP: usize = 100;
/// Unmeasured turns of the measured session, so that it is cached.
const SESSION_WARM_UP: usize = 5;
const TURNS: usize = 200;
pub(crate) const QUESTION: &str = "What is the weather like in Paris?";
const ANSWER: &str = "Sunny, with a light wind from the west, and no rain before the evening. ";

pub(crate) fn run(env: &BenchEnv) -> Result<Vec<Figure>> {
    let (mut figures, mut medians, mut commits) = (Vec::new(), Vec::new(), Vec::new());
    for (length, name) in LENGTHS {
        let turns = measure_after(env, length, &MIXED)?;
        medians.push(turns.cpu.median());
        commits.push(turns.commits.median());
        figures
            .push(Figure::median(format!("turn/{name}/cpu"), &turns.cpu, "ms").target(Target::AtMost(0.5)));
        figures.push(Figure::median(format!("turn/{name}"), &turns.wall, "ms"));
    }
    let medians = Samples::new(medians);
    let growth = medians.percentile(100) / medians.percentile(0);
    figures.push(Figure::new("turn/slowest_to_fastest", growth, "ratio").target(Target::AtMost(2.0)));
    let short = measure_after(env, 10_000, &SHORT)?;
    commits.push(short.commits.median());
    figures.push(Figure::median("turn/short/10k/cpu", &short.cpu, "ms"));
    figures.push(Figure::median("turn/short/10k", &short.wall, "ms"));
    figures.push(Figure::median("turn/two_plain_commits/cpu", &Samples::new(commits), "ms"));
    Ok(figures)
}

/// Times of turns, in milliseconds.
struct Turns {
    wall: Samples,
    cpu: Samples,
    commits: Samples,
}

/// The CPU time of turns on a session of `length` short messages.
pub(crate) fn cpu_after_short(env: &BenchEnv, length: i64) -> Result<Samples> {
    Ok(measure_after(env, length, &SHORT)?.cpu)
}

/// Measures turns on a session of `length` messages with these sizes.
fn measure_after(env: &BenchEnv, length: i64, sizes: &[usize]) -> Result<Turns> {
    let directory = env.directory()?;
    let key = SessionKey::new("bench", "user", "long");
    let [path, plain] = ["turn.db", "plain.db"].map(|name| directory.path().join(name));
    let other = SessionKey::new("bench", "user", "other");
    for path in [&path, &plain] {
        drop(raw::create(path, slice::from_ref(&key))?);
        raw::grow(path, &mut history(sizes)?, length)?;
        drop(raw::create(path, slice::from_ref(&other))?);
    }
    let plain = Raw::durable(&plain)?;
    let mut rows = exchange(QUESTION, ANSWER)?;
    let commits = || {
        for row in [rows(), rows()] {
            plain.begin()?;
            plain.append(&key, &row)?;
            plain.commit()?;
        }
        Ok(())
    };
    turns(&path, ["other", "long"].map(|id| SessionKey::new("bench", "user", id)), commits)
}

/// Messages of user and model alternately, as the runner stores them.
pub(crate) fn history(sizes: &[usize]) -> Result<impl FnMut() -> SessionMessage> {
    let mut rows = Vec::new();
    for &size in sizes {
        let text: String =
            "The quick brown fox jumps over the lazy dog. ".chars().cycle().take(size).collect();
        rows.extend(pair(&text, &text)?);
    }
    Ok(numbered("message", rows))
}

/// The same exchange repeatedly, with new message ids.
fn exchange(question: &str, answer: &str) -> Result<impl FnMut() -> SessionMessage> {
    Ok(numbered("exchange", pair(question, answer)?.into()))
}

fn pair(question: &str, answer: &str) -> Result<[SessionMessage; 2]> {
    let mut user = Event::new("e-bench", "user");
    user.content = Some(Content::user(question));
    let mut model = Event::new("e-bench", "bench");
    model.content = Some(Content::model(answer));
    Ok([save(&user)?, save(&model)?])
}

fn numbered(name: &'static str, rows: Vec<SessionMessage>) -> impl FnMut() -> SessionMessage {
    let mut number = 0;
    move || {
        let row = rows[number % rows.len()].clone();
        number += 1;
        SessionMessage { id: format!("{name}-{number}"), ..row }
    }
}

fn turns(
    path: &Path,
    [other, key]: [SessionKey; 2],
    mut two_commits: impl FnMut() -> Result<()>,
) -> Result<Turns> {
    let store: Arc<dyn Store> =
        Arc::new(SqliteStore::open(path, Options { inline_commits: true, ..Options::default() })?);
    let agent = agent(store)?;
    let runtime = Runtime::new()?;
    let (mut wall, mut cpu, mut commits) = (Vec::new(), Vec::new(), Vec::new());
    for turn in 0..WARM_UP + SESSION_WARM_UP + TURNS {
        let key = if turn < WARM_UP { &other } else { &key };
        let request = RunRequest::message(key.clone(), Content::user(QUESTION));
        let start = Instant::now();
        let (answer, spent) = cpu_of(|| runtime.block_on(agent.run_and_collect(request)));
        let took = start.elapsed();
        if answer? != ANSWER {
            return Err("the answer differs from the text of the model".into());
        }
        let (stored, beside) = cpu_of(&mut two_commits);
        stored?;
        if turn >= WARM_UP + SESSION_WARM_UP {
            wall.push(milliseconds(took));
            cpu.push(milliseconds(spent));
            commits.push(milliseconds(beside));
        }
    }
    Ok(Turns { wall: Samples::new(wall), cpu: Samples::new(cpu), commits: Samples::new(commits) })
}

/// An agent with an instant model.
pub(crate) fn agent(store: Arc<dyn Store>) -> Result<Agent> {
    let budget = Budget::default();
    let model = Arc::new(ModelAdapter::new(Arc::new(InstantModel), "", budget));
    let root = LlmAgent { instruction: "Be fast.".into(), ..LlmAgent::new("bench", model) };
    Ok(Agent::new(store, root, budget)?)
}

/// A model whose answer is available at once.
struct InstantModel;

impl Provider for InstantModel {
    fn name(&self) -> &'static str {
        "instant"
    }

    fn stream(&self, _request: ModelRequest) -> ModelStream {
        stream::iter([StreamEvent::text(ANSWER), StreamEvent::Done(Done::default())]).boxed()
    }
}
