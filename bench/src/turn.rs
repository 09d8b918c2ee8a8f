//! A whole turn with a model that answers at once: what the product itself costs, whatever lies before the turn.

use crate::{
    Lab, Result,
    figure::{Aim, Figure},
    measure::{Samples, cpu_of, milliseconds},
    raw,
};
use adk::{agent::LlmAgent, content::Content, event::Event, runner::RunRequest, session::SessionKey};
use bridge::{Agent, Budget, ModelAdapter, row::save};
use futures::{StreamExt, stream};
use provider::{Done, EventStream, Provider, Request, StreamEvent};
use session::{
    Message, Store,
    sqlite::{Options, SqliteStore},
};
use std::{path::Path, sync::Arc, time::Instant};
use tokio::runtime::Runtime;

const LENGTHS: [(i64, &str); 4] = [(0, "0"), (1_000, "1k"), (10_000, "10k"), (100_000, "100k")];
/// The sizes of the store's benches: 0.5 to 4 KB, evenly spread on a logarithmic scale.
const USUAL: [usize; 8] = [512, 690, 929, 1252, 1687, 2273, 3063, 4096];
/// The size that google-adk is measured with. Ten times as many of them fit into the same window.
pub(crate) const SHORT: [usize; 1] = [200];
const WARM_UP: usize = 20;
const TURNS: usize = 200;
const ANSWER: &str = "Sunny, with a light wind from the west, and no rain before the evening. ";

pub(crate) fn run(lab: &Lab) -> Result<Vec<Figure>> {
    let (mut figures, mut medians) = (Vec::new(), Vec::new());
    for (length, name) in LENGTHS {
        let (wall, cpu) = after(lab, length, &USUAL)?;
        medians.push(cpu.median());
        figures.push(Figure::median(format!("turn/{name}/cpu"), &cpu, "ms").aim(Aim::AtMost(0.5)));
        figures.push(Figure::median(format!("turn/{name}"), &wall, "ms"));
    }
    let medians = Samples::new(medians);
    let growth = medians.percentile(100) / medians.percentile(0);
    figures.push(Figure::new("turn/slowest_to_fastest", growth, "ratio").aim(Aim::AtMost(2.0)));
    let (wall, cpu) = after(lab, 10_000, &SHORT)?;
    figures.push(Figure::median("turn/short/10k/cpu", &cpu, "ms"));
    figures.push(Figure::median("turn/short/10k", &wall, "ms"));
    Ok(figures)
}

/// The CPU of turns on a session of so many short messages.
pub(crate) fn cpu_after_short(lab: &Lab, length: i64) -> Result<Samples> {
    Ok(after(lab, length, &SHORT)?.1)
}

/// Turns on a session of so many messages of these sizes.
fn after(lab: &Lab, length: i64, sizes: &[usize]) -> Result<(Samples, Samples)> {
    let directory = lab.directory()?;
    let path = directory.path().join("turn.db");
    let key = SessionKey::new("bench", "user", "long");
    drop(raw::create(&path, &[session::SessionKey::new("bench", "user", "long")])?);
    raw::grow(&path, &mut history(sizes)?, length)?;
    turns(&path, &key)
}

/// Messages from both sides in turn, as the runner stores them.
pub(crate) fn history(sizes: &[usize]) -> Result<impl FnMut() -> Message> {
    let mut rows = Vec::new();
    for &size in sizes {
        let text: String =
            "The quick brown fox jumps over the lazy dog. ".chars().cycle().take(size).collect();
        let mut user = Event::new("e-bench", "user");
        user.content = Some(Content::user(text.clone()));
        let mut model = Event::new("e-bench", "bench");
        model.content = Some(Content::model(text));
        rows.extend([save(&user)?, save(&model)?]);
    }
    let mut number = 0;
    Ok(move || {
        let row = rows[number % rows.len()].clone();
        number += 1;
        Message { id: format!("message-{number}"), ..row }
    })
}

fn turns(path: &Path, key: &SessionKey) -> Result<(Samples, Samples)> {
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(path, Options::default())?);
    let budget = Budget::default();
    let model = Arc::new(ModelAdapter::new(Arc::new(Instantly), "", budget));
    let agent = Agent::new(
        store,
        LlmAgent { instruction: "Be fast.".into(), ..LlmAgent::new("bench", model) },
        budget,
    )?;
    let runtime = Runtime::new()?;
    let (mut wall, mut cpu) = (Vec::new(), Vec::new());
    for turn in 0..WARM_UP + TURNS {
        let request = RunRequest::message(key.clone(), Content::user("What is the weather like in Paris?"));
        let start = Instant::now();
        let (answer, spent) = cpu_of(|| runtime.block_on(agent.run_and_collect(request)));
        if answer? != ANSWER {
            return Err("the answer is not the model's".into());
        }
        if turn >= WARM_UP {
            wall.push(milliseconds(start.elapsed()));
            cpu.push(milliseconds(spent));
        }
    }
    Ok((Samples::new(wall), Samples::new(cpu)))
}

/// A model that has always just finished.
struct Instantly;

impl Provider for Instantly {
    fn name(&self) -> &'static str {
        "instantly"
    }

    fn stream(&self, _request: Request) -> EventStream {
        stream::iter([StreamEvent::text(ANSWER), StreamEvent::Done(Done::default())]).boxed()
    }
}
