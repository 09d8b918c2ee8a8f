//! What a run may use, and whether it gets anywhere. What is used up ends the run, with a reason that has a name.

use crate::{error::RunError, event::Event, facts::Call, tool::Price};
use serde_json::{Map, Value};
use std::{
    collections::{HashMap, HashSet},
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};
use tokio::time::Instant;

/// What differs from call to call whatever a tool has found.
const VOLATILE: [&str; 2] = ["duration_ms", "handle"];

/// Limits of one run, beside that of model calls. What is `None` has none.
#[derive(Clone, Default)]
pub struct Limits {
    pub tool_calls: Option<u32>,
    pub time: Option<Duration>,
    /// Of all model calls, what goes in and what comes out.
    pub tokens: Option<u64>,
    /// How much may be spent, and what an event cost.
    pub cost: Option<(f64, Price)>,
    /// How often a call may be made again with the same arguments and the same outcome while nothing else is new.
    pub repeats: Option<u32>,
}

impl fmt::Debug for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limits")
            .field("tool_calls", &self.tool_calls)
            .field("time", &self.time)
            .field("tokens", &self.tokens)
            .field("cost", &self.cost.as_ref().map(|(most, _)| most))
            .field("repeats", &self.repeats)
            .finish()
    }
}

/// What a run has used.
#[derive(Debug)]
pub(crate) struct Meter {
    limits: Limits,
    began: Instant,
    tool_calls: u32,
    tokens: u64,
    cost: f64,
    /// Calls with their outcomes, and how often each has come since anything was new.
    known: HashMap<u64, u32>,
}

impl Meter {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, began: Instant::now(), tool_calls: 0, tokens: 0, cost: 0.0, known: HashMap::new() }
    }

    /// Whether a model may be asked once more.
    pub(crate) fn may_ask(&self) -> Result<(), RunError> {
        self.has_time()?;
        if let Some(limit) = self.limits.tokens.filter(|limit| self.tokens >= *limit) {
            return Err(RunError::OutOfTokens { limit });
        }
        match &self.limits.cost {
            Some((limit, _)) if self.cost >= *limit => Err(RunError::OutOfMoney { limit: *limit }),
            Some(_) | None => Ok(()),
        }
    }

    /// Whether these calls may be made, all of them.
    pub(crate) fn may_call(&mut self, calls: usize) -> Result<(), RunError> {
        self.has_time()?;
        self.tool_calls = self.tool_calls.saturating_add(u32::try_from(calls).unwrap_or(u32::MAX));
        match self.limits.tool_calls.filter(|limit| self.tool_calls > *limit) {
            Some(limit) => Err(RunError::TooManyToolCalls { limit }),
            None => Ok(()),
        }
    }

    fn has_time(&self) -> Result<(), RunError> {
        match self.limits.time.filter(|limit| self.began.elapsed() >= *limit) {
            Some(limit) => Err(RunError::OutOfTime { limit }),
            None => Ok(()),
        }
    }

    /// What is left of the time, if there is a limit.
    pub(crate) fn time_left(&self) -> Option<Duration> {
        self.limits.time.map(|limit| limit.saturating_sub(self.began.elapsed()))
    }

    /// Resolves when the time is up.
    pub(crate) async fn out_of_time(&self) -> RunError {
        match self.limits.time {
            Some(limit) => {
                tokio::time::sleep_until(self.began + limit).await;
                RunError::OutOfTime { limit }
            }
            None => std::future::pending().await,
        }
    }

    /// Counts what a model call took.
    pub(crate) fn take_answer(&mut self, event: &Event) {
        let Some(usage) = &event.usage_metadata else { return };
        let parts = [usage.prompt_token_count, usage.candidates_token_count, usage.thoughts_token_count];
        self.tokens += parts.into_iter().flatten().sum::<u64>();
        if let Some((_, price)) = &self.limits.cost {
            self.cost += price(event).unwrap_or_default();
        }
    }

    /// Whether the outcomes of a step bring anything new, or the same as so often before.
    pub(crate) fn take_outcomes(&mut self, calls: &[Call], outcomes: &Event) -> Result<(), RunError> {
        let mut step: HashSet<u64> = HashSet::new();
        let mut repeated = None;
        for (call, response) in calls.iter().zip(outcomes.responses()) {
            let Some(made) = call.part.call() else { continue };
            let key = key(&made.name, made.args.as_ref(), response.response.as_ref());
            if !step.insert(key) {
                continue;
            }
            if self.is_repeated(key) {
                repeated = Some(made.name.clone());
            }
        }
        let is_new = step.iter().any(|key| self.known.get(key) == Some(&1));
        match (repeated.filter(|_| !is_new), self.limits.repeats) {
            (Some(tool), Some(times)) => Err(RunError::NothingNew { tool, times }),
            (_, _) => Ok(()),
        }
    }

    /// Counts an outcome; what was never there before makes all others young again.
    fn is_repeated(&mut self, key: u64) -> bool {
        if let Some(times) = self.known.get_mut(&key) {
            *times += 1;
            return self.limits.repeats.is_some_and(|most| *times >= most);
        }
        self.known.values_mut().for_each(|times| *times = 1);
        self.known.insert(key, 1);
        false
    }
}

fn key(name: &str, args: Option<&Map<String, Value>>, response: Option<&Map<String, Value>>) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    for (key, value) in args.into_iter().flatten() {
        (key, value.to_string()).hash(&mut hasher);
    }
    0xff_u8.hash(&mut hasher);
    for (key, value) in response.into_iter().flatten().filter(|(key, _)| !VOLATILE.contains(&key.as_str())) {
        (key, value.to_string()).hash(&mut hasher);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::{Content, FunctionCall, FunctionResponse, Part};
    use serde_json::json;

    /// Which step ends a run whose steps are these calls with these outcomes.
    fn ended_by(steps: &[&[(&str, Value)]]) -> Option<usize> {
        let mut meter = Meter::new(Limits { repeats: Some(5), ..Limits::default() });
        let is_end = |step: &&[(&str, Value)]| {
            let call = |(args, _): &(&str, Value)| Call {
                part: Part::from(FunctionCall {
                    id: Some("1".to_owned()),
                    name: "look".to_owned(),
                    args: json!({"at": args}).as_object().cloned(),
                    extra: Map::new(),
                }),
                author: "root".to_owned(),
                invocation_id: String::new(),
                branch: None,
                long_running: false,
                confirmation: None,
                begun: false,
            };
            let calls: Vec<Call> = step.iter().map(call).collect();
            let response =
                |(_, said): &(&str, Value)| Part::from(FunctionResponse::new("1", "look", said.clone()));
            let content = Some(Content::new("user", step.iter().map(response).collect()));
            meter.take_outcomes(&calls, &Event { content, ..Event::default() }).is_err()
        };
        let mut steps = steps.iter();
        steps.position(is_end)
    }

    #[test]
    fn the_same_call_with_the_same_outcome_ends_the_run_the_fifth_time() {
        let same = [("a", json!({"found": 1}))];
        assert_eq!(ended_by(&[same.as_slice(); 8]), Some(4));
        let timed = |time: u32| [("a", json!({"found": 1, "duration_ms": time}))];
        assert_eq!(ended_by(&[&timed(1), &timed(2), &timed(3), &timed(4), &timed(5)]), Some(4));
        let (a, b) = ([("a", json!({"found": 1}))], [("b", json!({"found": 1}))]);
        assert_eq!(ended_by(&[&a, &b, &a, &b, &a, &b, &a, &b, &a, &b]), Some(8));
    }

    #[test]
    fn a_poll_that_changes_and_work_in_between_do_not() {
        let polls: Vec<[(&str, Value); 1]> = (0..20).map(|at| [("a", json!({"progress": at}))]).collect();
        let polls: Vec<&[(&str, Value)]> = polls.iter().map(<[_; 1]>::as_slice).collect();
        assert_eq!(ended_by(&polls), None);
        let failed = ("test", json!({"exit_code": 1}));
        let names: Vec<String> = (0..10).map(|at| format!("edit {at}")).collect();
        let work: Vec<[(&str, Value); 1]> = names
            .iter()
            .flat_map(|name| [[(name.as_str(), json!({"done": true}))], [failed.clone()]])
            .collect();
        let work: Vec<&[(&str, Value)]> = work.iter().map(<[_; 1]>::as_slice).collect();
        assert_eq!(ended_by(&work), None);
        // Many at once are one look at the world.
        let at_once = vec![("a", json!({"found": 1})); 9];
        assert_eq!(ended_by(&[&at_once]), None);
    }
}
