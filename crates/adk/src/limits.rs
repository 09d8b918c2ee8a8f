//! What a run may use, and whether it gets anywhere. What is used up ends the run, with a reason that has a name.

use crate::{
    content::{FunctionCall, FunctionResponse},
    error::RunError,
    event::Event,
    flow::settle::UNCONFIRMED,
    pending::{REQUEST_CONFIRMATION, is_question},
    tool::EventPrice,
};
use serde_json::{Map, Value};
use std::{
    collections::{HashMap, HashSet},
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
    time::Duration,
};
use tokio::time::Instant;

/// What differs from call to call whatever a tool has found.
const VOLATILE: [&str; 2] = ["duration_ms", "handle"];

/// RunLimits of one run, beside that of model calls. What is `None` has none.
#[derive(Clone, Default)]
pub struct RunLimits {
    pub tool_calls: Option<u32>,
    pub time: Option<Duration>,
    /// Of all model calls, what goes in and what comes out.
    pub tokens: Option<u64>,
    /// How much may be spent, and what an event cost.
    pub cost: Option<(f64, EventPrice)>,
    /// How often a call may be made again with the same arguments and the same outcome while nothing else is new.
    pub repeats: Option<u32>,
}

impl fmt::Debug for RunLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunLimits")
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
pub(crate) struct UsageMeter {
    limits: RunLimits,
    began: Instant,
    /// What it had used before it was cut off, or before a person was asked.
    time_before: Duration,
    model_calls: u32,
    tool_calls: u32,
    tokens: u64,
    cost: f64,
    /// Calls with their outcomes, and how often each has come since anything was new.
    known: HashMap<u64, u32>,
    /// The tool whose last call brought the same as so often before.
    stuck: Option<String>,
}

impl UsageMeter {
    pub(crate) fn new(limits: RunLimits) -> Self {
        Self {
            limits,
            began: Instant::now(),
            time_before: Duration::ZERO,
            model_calls: 0,
            tool_calls: 0,
            tokens: 0,
            cost: 0.0,
            known: HashMap::new(),
            stuck: None,
        }
    }

    /// Counts what the run has done so far, by its events. Its time is that between them; what goes by while a person is
    /// waited for, or after the last event before a crash, is nobody's.
    pub(crate) fn resume(&mut self, events: &[Arc<Event>]) {
        let mut calls: HashMap<String, &FunctionCall> = HashMap::new();
        for event in events {
            calls.extend(event.calls().map(|call| (call.id_or_name(), call)));
            if event.is_from_user() {
                continue;
            }
            if event.responses().next().is_some() {
                let answers = event.responses().filter(|answer| is_outcome(answer));
                let made: Vec<(&FunctionCall, &FunctionResponse)> =
                    answers.filter_map(|answer| Some((*calls.get(&answer.id_or_name())?, answer))).collect();
                self.count_calls(made.len());
                self.take_outcomes(made.into_iter());
            } else if is_counted_answer(event) {
                self.model_calls += 1;
                self.take_answer(event);
            }
        }
        self.time_before = worked(events);
    }

    /// Whether a model may be asked once more; 0 for as often as the agents want.
    pub(crate) fn may_ask(&mut self, most: u32) -> Result<(), RunError> {
        if let (Some(tool), Some(times)) = (self.stuck.take(), self.limits.repeats) {
            return Err(RunError::NothingNew { tool, times });
        }
        // It may have been cut off between the answers to calls that were too many and its end.
        self.has_calls()?;
        self.model_calls += 1;
        if most > 0 && self.model_calls > most {
            return Err(RunError::TooManyModelCalls { limit: most });
        }
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
        self.count_calls(calls);
        self.has_calls()
    }

    fn has_calls(&self) -> Result<(), RunError> {
        match self.limits.tool_calls.filter(|limit| self.tool_calls > *limit) {
            Some(limit) => Err(RunError::TooManyToolCalls { limit }),
            None => Ok(()),
        }
    }

    fn count_calls(&mut self, calls: usize) {
        self.tool_calls = self.tool_calls.saturating_add(u32::try_from(calls).unwrap_or(u32::MAX));
    }

    fn has_time(&self) -> Result<(), RunError> {
        match self.limits.time.filter(|_| self.time_left() == Some(Duration::ZERO)) {
            Some(limit) => Err(RunError::OutOfTime { limit }),
            None => Ok(()),
        }
    }

    /// What is left of the time, if there is a limit.
    pub(crate) fn time_left(&self) -> Option<Duration> {
        let used = self.time_before.saturating_add(self.began.elapsed());
        self.limits.time.map(|limit| limit.saturating_sub(used))
    }

    /// Resolves when the time is up.
    pub(crate) async fn out_of_time(&self) -> RunError {
        match self.limits.time {
            Some(limit) => {
                tokio::time::sleep_until(self.began + limit.saturating_sub(self.time_before)).await;
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

    /// Looks whether the outcomes of a step bring anything new, or the same as so often before.
    pub(crate) fn take_outcomes<'a>(
        &mut self,
        outcomes: impl Iterator<Item = (&'a FunctionCall, &'a FunctionResponse)>,
    ) {
        let mut step: HashSet<u64> = HashSet::new();
        let mut repeated = None;
        for (call, answer) in outcomes.filter(|(_, answer)| is_outcome(answer)) {
            let key = key(&call.name, call.args.as_ref(), answer.response.as_ref());
            if step.insert(key) && self.is_repeated(key) {
                repeated = Some(call.name.clone());
            }
        }
        let is_new = step.iter().any(|key| self.known.get(key) == Some(&1));
        self.stuck = repeated.filter(|_| !is_new);
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

/// Whether an event stands for a model call of its own. An interrupted answer without usage does not: its error does.
fn is_counted_answer(event: &Event) -> bool {
    let is_interrupted = event.is_interrupted_answer() && event.usage_metadata.is_none();
    !is_interrupted && !event.calls().any(|call| is_question(event, call))
}

/// Whether an answer is what came of a call, and not that a person is asked about it.
fn is_outcome(answer: &FunctionResponse) -> bool {
    let error = answer.error().and_then(Value::as_str);
    answer.name != REQUEST_CONFIRMATION && error != Some(UNCONFIRMED)
}

/// The time between events, but for that before a person spoke.
fn worked(events: &[Arc<Event>]) -> Duration {
    let between = events.windows(2).filter(|pair| !pair[1].is_from_user());
    let seconds = between.map(|pair| (pair[1].timestamp - pair[0].timestamp).max(0.0)).sum();
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

/// The end of a log as far as it belongs to one invocation. Rows of old have none.
pub fn invocation_tail<'a>(events: &'a [Arc<Event>], invocation: &str) -> &'a [Arc<Event>] {
    let is_other = |event: &Arc<Event>| invocation.is_empty() || event.invocation_id != invocation;
    let others = events.iter().rposition(is_other);
    &events[others.map_or(0, |at| at + 1)..]
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
    use crate::{
        content::{Content, Part},
        event::UsageMetadata,
    };
    use serde_json::json;

    fn looked(at: &str, said: &Value) -> (FunctionCall, FunctionResponse) {
        let call = FunctionCall {
            id: Some("1".to_owned()),
            name: "look".to_owned(),
            args: json!({"at": at}).as_object().cloned(),
            extra: Map::new(),
        };
        (call, FunctionResponse::new("1", "look", said.clone()))
    }

    /// Which step ends a run whose steps are these calls with these outcomes.
    fn ended_by(steps: &[&[(&str, Value)]]) -> Option<usize> {
        let mut meter = UsageMeter::new(RunLimits { repeats: Some(5), ..RunLimits::default() });
        let is_end = |step: &&[(&str, Value)]| {
            let outcomes: Vec<_> = step.iter().map(|(args, said)| looked(args, said)).collect();
            meter.take_outcomes(outcomes.iter().map(|(call, answer)| (call, answer)));
            meter.may_ask(0).is_err()
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

    /// A log of one invocation: a message, and looks that each take a second and find the same.
    fn log(looks: u32) -> Vec<Arc<Event>> {
        let event = |author: &str, timestamp: f64, part: Part| Event {
            author: author.to_owned(),
            invocation_id: "i".to_owned(),
            timestamp,
            content: Some(Content::new("model", vec![part])),
            ..Event::default()
        };
        let mut events = vec![event("user", 0.0, Part::text("go"))];
        for at in 0..looks {
            let (call, answer) = looked("a", &json!({"found": 1}));
            let asked = Event {
                usage_metadata: Some(UsageMetadata {
                    prompt_token_count: Some(10),
                    ..UsageMetadata::default()
                }),
                ..event("root", f64::from(at) + 0.5, call.into())
            };
            events.extend([asked, event("root", f64::from(at) + 1.0, answer.into())]);
        }
        events.into_iter().map(Arc::new).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_that_goes_on_has_used_what_its_log_says() {
        let limits = |looks: u32, limits: RunLimits| {
            let mut meter = UsageMeter::new(limits);
            meter.resume(&log(looks));
            meter
        };
        let none = RunLimits::default;
        assert!(limits(2, none()).may_ask(3).is_ok());
        assert!(matches!(limits(3, none()).may_ask(3), Err(RunError::TooManyModelCalls { limit: 3 })));
        let calls = || RunLimits { tool_calls: Some(3), ..none() };
        assert!(limits(2, calls()).may_call(1).is_ok());
        assert!(matches!(limits(2, calls()).may_call(2), Err(RunError::TooManyToolCalls { limit: 3 })));
        let tokens = || RunLimits { tokens: Some(30), ..none() };
        assert!(limits(2, tokens()).may_ask(0).is_ok());
        assert!(matches!(limits(3, tokens()).may_ask(0), Err(RunError::OutOfTokens { .. })));
        let time = || RunLimits { time: Some(Duration::from_secs(3)), ..none() };
        assert_eq!(limits(2, time()).time_left(), Some(Duration::from_secs(1)));
        assert!(matches!(limits(3, time()).may_ask(0), Err(RunError::OutOfTime { .. })));
        let repeats = || RunLimits { repeats: Some(5), ..none() };
        assert!(limits(4, repeats()).may_ask(0).is_ok());
        assert!(matches!(limits(5, repeats()).may_ask(0), Err(RunError::NothingNew { times: 5, .. })));
    }

    #[test]
    fn an_interrupted_answer_counts_as_a_model_call_if_its_usage_is_known() {
        let answer = |usage_metadata| Event {
            interrupted: Some(true),
            usage_metadata,
            content: Some(Content::model("Hel")),
            ..Event::new("i", "root")
        };
        let calls = |usage_metadata| {
            let mut meter = UsageMeter::new(RunLimits::default());
            meter.resume(&[Arc::new(answer(usage_metadata))]);
            (meter.model_calls, meter.tokens)
        };
        let used = UsageMetadata { candidates_token_count: Some(7), ..UsageMetadata::default() };
        assert_eq!((calls(None), calls(Some(used))), ((0, 0), (1, 7)));
    }

    #[test]
    fn what_another_invocation_did_and_the_time_of_a_person_count_for_nothing() {
        let mut events: Vec<Event> = log(1).iter().map(|event| (**event).clone()).collect();
        for event in &mut events {
            event.invocation_id = "before".to_owned();
        }
        events.extend(log(1).iter().map(|event| (**event).clone()));
        // An hour later somebody answers, and it goes on for a second.
        let last = |timestamp| Event { author: "user".to_owned(), timestamp, ..events[5].clone() };
        let answer = last(3_600.0);
        let after = Event { author: "root".to_owned(), ..last(3_601.0) };
        let events: Vec<Arc<Event>> = events.into_iter().chain([answer, after]).map(Arc::new).collect();
        let own = invocation_tail(&events, "i");
        assert_eq!((own.len(), worked(own)), (5, Duration::from_secs(2)));
        assert_eq!(invocation_tail(&events, "another").len(), 0);
    }
}
