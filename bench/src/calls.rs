//! The overhead of a tool call: turns with an instant model and a no-op tool, each in a new session.

use crate::{
    BenchEnv, Result,
    figure::{Figure, Target},
    measure::{Samples, cpu_of, milliseconds},
};
use adk::{
    agent::LlmAgent, content::Content, runner::RunRequest, session::SessionKey, tool::Tool as AdkTool,
};
use bridge::{Agent, Budget, Guard, ModelAdapter, ToolAdapter};
use futures::{StreamExt, future::BoxFuture, stream};
use provider::{Done, MessagePart, ModelRequest, ModelStream, Provider, StreamEvent, ToolCall};
use serde_json::{Map, json};
use session::{
    Store,
    sqlite::{Options, SqliteStore},
};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::runtime::Runtime;
use tools::{
    Effect, Mask, RuleBook, Safety, Spec, Tool, ToolReply, ToolRequest, ToolsError,
    policy::{Decision, Policy, PolicyRule, Subject},
};

const WARM_UP: usize = 20;
const TURNS: usize = 200;
const MANY: usize = 32;
/// How long a call of the slow tool takes.
const WAIT: Duration = Duration::from_millis(20);

pub(crate) fn run(env: &BenchEnv) -> Result<Vec<Figure>> {
    let no_calls = turns(env, 0, ToolKind::ReadOnly)?;
    let one = turns(env, 1, ToolKind::ReadOnly)?;
    let many = turns(env, MANY, ToolKind::ReadOnly)?;
    let once = turns(env, 1, ToolKind::Once)?;
    let slow = turns(env, MANY, ToolKind::Slow)?;
    let more = u32::try_from(MANY - 1)?;
    let per_call = (many.cpu.median() - one.cpu.median()) / f64::from(more);
    let figures = vec![
        Figure::new("call/cpu", per_call, "ms").target(Target::AtMost(0.2)),
        Figure::new("call/step/cpu", one.cpu.median() - no_calls.cpu.median(), "ms"),
        Figure::new("call/ledger/cpu", once.cpu.median() - one.cpu.median(), "ms"),
        Figure::median("call/32/cpu", &many.cpu, "ms"),
        Figure::median("call/32", &many.wall, "ms"),
        Figure::median("call/32_waiting_20_ms", &slow.wall, "ms"),
    ];
    Ok(figures)
}

#[derive(Clone, Copy)]
enum ToolKind {
    ReadOnly,
    /// Must not be executed twice, so its start is recorded in the ledger first.
    Once,
    Slow,
}

struct TurnTimes {
    cpu: Samples,
    wall: Samples,
}

/// Runs turns in which the model makes `calls` parallel calls and then answers.
fn turns(env: &BenchEnv, calls: usize, kind: ToolKind) -> Result<TurnTimes> {
    let directory = env.directory()?;
    let options = Options { inline_commits: true, ..Options::default() };
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(directory.path().join("calls.db"), options)?);
    let rule = PolicyRule::new(Subject::Tool("nothing".to_owned()), Decision::Allow);
    let book = RuleBook::new(&directory.path().join("rules.jsonl"));
    let roots = vec![directory.path().to_path_buf()];
    let guard = Arc::new(Guard::new(Policy { rules: vec![rule] }, book, roots, Mask::default()));
    let tool: Arc<dyn AdkTool> = Arc::new(ToolAdapter::new(Arc::new(NoopTool::new(kind))).guarded(guard));
    let model = Arc::new(ModelAdapter::new(Arc::new(Calls(calls)), "", Budget::default()));
    let root = LlmAgent { tools: vec![tool], ..LlmAgent::new("bench", model) };
    let agent = Agent::new(store, root, Budget::default())?;
    let runtime = Runtime::new()?;
    let (mut wall, mut cpu) = (Vec::new(), Vec::new());
    for turn in 0..WARM_UP + TURNS {
        let key = SessionKey::new("bench", "user", format!("s{turn}"));
        runtime.block_on(agent.sessions().get_or_create(&key))?;
        let request = RunRequest::message(key, Content::user("Do nothing, please."));
        let start = Instant::now();
        let (answer, spent) = cpu_of(|| runtime.block_on(agent.run_and_collect(request)));
        if answer? != "Done." {
            return Err("the answer differs from the text of the model".into());
        }
        if turn >= WARM_UP {
            wall.push(milliseconds(start.elapsed()));
            cpu.push(milliseconds(spent));
        }
    }
    Ok(TurnTimes { cpu: Samples::new(cpu), wall: Samples::new(wall) })
}

/// A model that makes this many parallel calls and answers once it has their results.
struct Calls(usize);

impl Provider for Calls {
    fn name(&self) -> &'static str {
        "calls"
    }

    fn stream(&self, request: ModelRequest) -> ModelStream {
        let mut parts = request.messages.iter().flat_map(|message| &message.parts);
        if self.0 == 0 || parts.any(|part| matches!(part, MessagePart::Result(_))) {
            return stream::iter([StreamEvent::text("Done."), StreamEvent::Done(Done::default())]).boxed();
        }
        let call = |number: usize| {
            StreamEvent::ToolCall(ToolCall {
                id: format!("call-{number}"),
                name: "nothing".to_owned(),
                args: Map::from_iter([("number".to_owned(), number.into())]),
                signature: None,
                malformed: None,
            })
        };
        let calls: Vec<StreamEvent> = (0..self.0).map(call).collect();
        stream::iter(calls.into_iter().chain([StreamEvent::Done(Done::default())])).boxed()
    }
}

struct NoopTool {
    spec: Spec,
    wait: Option<Duration>,
}

impl NoopTool {
    fn new(kind: ToolKind) -> Self {
        let parameters = json!({"type": "object", "properties": {"number": {"type": "integer"}}});
        let reading = Spec::read_only("nothing", "Does nothing.", parameters);
        match kind {
            ToolKind::ReadOnly => Self { spec: reading, wait: None },
            ToolKind::Once => {
                let spec = Spec { safety: Safety::Write, effect: Effect::Once, ..reading };
                Self { spec, wait: None }
            }
            ToolKind::Slow => Self { spec: reading, wait: Some(WAIT) },
        }
    }
}

impl Tool for NoopTool {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn call(&self, _call: ToolRequest) -> BoxFuture<'_, std::result::Result<ToolReply, ToolsError>> {
        Box::pin(async {
            if let Some(wait) = self.wait {
                tokio::time::sleep(wait).await;
            }
            Ok(ToolReply::Done(json!({"done": true})))
        })
    }
}
