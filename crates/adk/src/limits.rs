//! Limits of a run (calls, time, tokens, cost) and detection of repeated calls. An exceeded limit ends the run with its own
//! error code.

use crate::{
    content::{FunctionCall, FunctionResponse},
    error::RunError,
    event::Event,
    notes::{AWAITING_INPUT, UNCONFIRMED_CALL},
    pending::{is_question, is_question_name},
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

/// Response fields that differ between calls with the same result.
const VOLATILE: [&str; 2] = ["duration_ms", "handle"];

/// Limits of one run, besides `max_llm_calls`. `None` means unlimited.
#[derive(Clone, Default)]
pub struct RunLimits {
    pub tool_calls: Option<u32>,
    pub time: Option<Duration>,
    /// Input and output tokens of all model calls.
    pub tokens: Option<u64>,
    /// The maximum cost, and the price function of events.
    pub cost: Option<(f64, EventPrice)>,
    /// How often a call may return the same response to the same arguments, counted since the last new response.
    pub repeats: Option<u32>,
}

impl fmt::Debug for RunLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunLimits")
            .field("tool_calls", &self.tool_calls)
            .field("time", &self.time)
            .field("tokens", &self.tokens)
            .field("cost", &self.cost.as_ref().map(|(limit, _)| limit))
            .field("repeats", &self.repeats)
            .finish()
    }
}

/// Counts the usage of a run and checks it against the limits.
#[derive(Debug)]
pub(crate) struct UsageMeter {
    limits: RunLimits,
    started: Instant,
    /// Time used before this process or turn took over the run.
    time_before: Duration,
    model_calls: u32,
    tool_calls: u32,
    tokens: u64,
    cost: f64,
    /// Hashes of calls with their responses, and how often each occurred since the last new one.
    counts: HashMap<u64, u32>,
    /// The tool whose last call exceeded the limit of repeats.
    stuck: Option<String>,
}

impl UsageMeter {
    pub(crate) fn new(limits: RunLimits) -> Self {
        Self {
            limits,
            started: Instant::now(),
            time_before: Duration::ZERO,
            model_calls: 0,
            tool_calls: 0,
            tokens: 0,
            cost: 0.0,
            counts: HashMap::new(),
            stuck: None,
        }
    }

    /// Counts the usage of a resumed run from its events. Its time is the time between them, without waiting for the user and
    /// without the time after the last event before a crash.
    pub(crate) fn resume(&mut self, events: &[Arc<Event>]) {
        let mut calls: HashMap<String, &FunctionCall> = HashMap::new();
        for event in events {
            calls.extend(event.calls().map(|call| (call.id_or_name(), call)));
            if event.is_from_user() {
                continue;
            }
            if event.responses().next().is_some() {
                let answers = event.responses().filter(|answer| is_result(answer));
                let made: Vec<(&FunctionCall, &FunctionResponse)> =
                    answers.filter_map(|answer| Some((*calls.get(&answer.id_or_name())?, answer))).collect();
                self.count_calls(made.len());
                self.add_responses(made.into_iter());
            } else if is_counted_answer(event) {
                self.model_calls += 1;
                self.add_usage(event);
            }
        }
        self.time_before = active_time(events);
    }

    /// Counts a model call and checks all limits before it. A `limit` of 0 means unlimited.
    pub(crate) fn check_model_call(&mut self, limit: u32) -> Result<(), RunError> {
        if let (Some(tool), Some(times)) = (self.stuck.take(), self.limits.repeats) {
            return Err(RunError::NothingNew { tool, times });
        }
        // The process may have died after it refused the calls and before it ended the run.
        self.check_call_limit()?;
        self.model_calls += 1;
        if limit > 0 && self.model_calls > limit {
            return Err(RunError::TooManyModelCalls { limit });
        }
        self.check_time()?;
        if let Some(limit) = self.limits.tokens.filter(|limit| self.tokens >= *limit) {
            return Err(RunError::OutOfTokens { limit });
        }
        match &self.limits.cost {
            Some((limit, _)) if self.cost >= *limit => Err(RunError::OutOfMoney { limit: *limit }),
            Some(_) | None => Ok(()),
        }
    }

    /// Counts tool calls and checks the limits before them.
    pub(crate) fn check_tool_calls(&mut self, calls: usize) -> Result<(), RunError> {
        self.check_time()?;
        self.count_calls(calls);
        self.check_call_limit()
    }

    fn check_call_limit(&self) -> Result<(), RunError> {
        match self.limits.tool_calls.filter(|limit| self.tool_calls > *limit) {
            Some(limit) => Err(RunError::TooManyToolCalls { limit }),
            None => Ok(()),
        }
    }

    fn count_calls(&mut self, calls: usize) {
        self.tool_calls = self.tool_calls.saturating_add(u32::try_from(calls).unwrap_or(u32::MAX));
    }

    fn check_time(&self) -> Result<(), RunError> {
        match self.limits.time.filter(|_| self.time_left() == Some(Duration::ZERO)) {
            Some(limit) => Err(RunError::OutOfTime { limit }),
            None => Ok(()),
        }
    }

    /// The remaining time; `None` if unlimited.
    pub(crate) fn time_left(&self) -> Option<Duration> {
        let used = self.time_before.saturating_add(self.started.elapsed());
        self.limits.time.map(|limit| limit.saturating_sub(used))
    }

    /// Resolves with the error when the time limit is reached.
    pub(crate) async fn out_of_time(&self) -> RunError {
        match self.limits.time {
            Some(limit) => {
                tokio::time::sleep_until(self.started + limit.saturating_sub(self.time_before)).await;
                RunError::OutOfTime { limit }
            }
            None => std::future::pending().await,
        }
    }

    /// Adds the tokens and the cost of a model call.
    pub(crate) fn add_usage(&mut self, event: &Event) {
        let Some(usage) = &event.usage_metadata else { return };
        let parts = [usage.prompt_token_count, usage.candidates_token_count, usage.thoughts_token_count];
        self.tokens += parts.into_iter().flatten().sum::<u64>();
        if let Some((_, price)) = &self.limits.cost {
            self.cost += price(event).unwrap_or_default();
        }
    }

    /// Records the responses of a step and detects repetition.
    pub(crate) fn add_responses<'a>(
        &mut self,
        outcomes: impl Iterator<Item = (&'a FunctionCall, &'a FunctionResponse)>,
    ) {
        let mut step: HashSet<u64> = HashSet::new();
        let mut repeated = None;
        for (call, answer) in outcomes.filter(|(_, answer)| is_result(answer)) {
            let key = key(&call.name, call.args.as_ref(), answer.response.as_ref());
            if step.insert(key) && self.count_response(key) {
                repeated = Some(call.name.clone());
            }
        }
        let is_new = step.iter().any(|key| self.counts.get(key) == Some(&1));
        self.stuck = repeated.filter(|_| !is_new);
    }

    /// Counts a response; `true` if it reached the limit of repeats. A new response resets all other counts.
    fn count_response(&mut self, key: u64) -> bool {
        if let Some(times) = self.counts.get_mut(&key) {
            *times += 1;
            return self.limits.repeats.is_some_and(|limit| *times >= limit);
        }
        self.counts.values_mut().for_each(|times| *times = 1);
        self.counts.insert(key, 1);
        false
    }
}

/// Whether an event counts as a model call. An interrupted answer without usage does not: its error event does.
fn is_counted_answer(event: &Event) -> bool {
    let is_interrupted = event.is_interrupted_answer() && event.usage_metadata.is_none();
    !is_interrupted && !event.calls().any(|call| is_question(event, call))
}

/// Whether a response is the result of a call, and not part of a question to the user.
fn is_result(answer: &FunctionResponse) -> bool {
    let error = answer.error().and_then(Value::as_str);
    !is_question_name(&answer.name) && ![Some(UNCONFIRMED_CALL), Some(AWAITING_INPUT)].contains(&error)
}

/// The time between events, without the time before events of the user.
fn active_time(events: &[Arc<Event>]) -> Duration {
    let between = events.windows(2).filter(|pair| !pair[1].is_from_user());
    let seconds = between.map(|pair| (pair[1].timestamp - pair[0].timestamp).max(0.0)).sum();
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

/// The events at the end of a log that belong to one invocation. Legacy rows have no invocation.
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

    fn look(at: &str, response: &Value) -> (FunctionCall, FunctionResponse) {
        let call = FunctionCall {
            id: Some("1".to_owned()),
            name: "look".to_owned(),
            args: json!({"at": at}).as_object().cloned(),
            extra: Map::new(),
        };
        (call, FunctionResponse::new("1", "look", response.clone()))
    }

    /// The index of the step that ends a run with these calls and responses.
    fn ended_by(steps: &[&[(&str, Value)]]) -> Option<usize> {
        let mut meter = UsageMeter::new(RunLimits { repeats: Some(5), ..RunLimits::default() });
        let is_end = |step: &&[(&str, Value)]| {
            let outcomes: Vec<_> = step.iter().map(|(args, response)| look(args, response)).collect();
            meter.add_responses(outcomes.iter().map(|(call, answer)| (call, answer)));
            meter.check_model_call(0).is_err()
        };
        let mut steps = steps.iter();
        steps.position(is_end)
    }

    #[test]
    fn the_fifth_equal_response_to_equal_arguments_ends_the_run() {
        let same = [("a", json!({"found": 1}))];
        assert_eq!(ended_by(&[same.as_slice(); 8]), Some(4));
        let timed = |time: u32| [("a", json!({"found": 1, "duration_ms": time}))];
        assert_eq!(ended_by(&[&timed(1), &timed(2), &timed(3), &timed(4), &timed(5)]), Some(4));
        let (a, b) = ([("a", json!({"found": 1}))], [("b", json!({"found": 1}))]);
        assert_eq!(ended_by(&[&a, &b, &a, &b, &a, &b, &a, &b, &a, &b]), Some(8));
    }

    #[test]
    fn changing_responses_and_other_work_do_not_count_as_repeats() {
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
        // Equal calls of one step count once.
        let at_once = vec![("a", json!({"found": 1})); 9];
        assert_eq!(ended_by(&[&at_once]), None);
    }

    /// A log of one invocation: a message, then `looks` calls that each take a second and return the same response.
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
            let (call, answer) = look("a", &json!({"found": 1}));
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
    async fn a_resumed_run_counts_the_usage_in_its_log() {
        let limits = |looks: u32, limits: RunLimits| {
            let mut meter = UsageMeter::new(limits);
            meter.resume(&log(looks));
            meter
        };
        let none = RunLimits::default;
        assert!(limits(2, none()).check_model_call(3).is_ok());
        assert!(matches!(
            limits(3, none()).check_model_call(3),
            Err(RunError::TooManyModelCalls { limit: 3 })
        ));
        let calls = || RunLimits { tool_calls: Some(3), ..none() };
        assert!(limits(2, calls()).check_tool_calls(1).is_ok());
        assert!(matches!(
            limits(2, calls()).check_tool_calls(2),
            Err(RunError::TooManyToolCalls { limit: 3 })
        ));
        let tokens = || RunLimits { tokens: Some(30), ..none() };
        assert!(limits(2, tokens()).check_model_call(0).is_ok());
        assert!(matches!(limits(3, tokens()).check_model_call(0), Err(RunError::OutOfTokens { .. })));
        let time = || RunLimits { time: Some(Duration::from_secs(3)), ..none() };
        assert_eq!(limits(2, time()).time_left(), Some(Duration::from_secs(1)));
        assert!(matches!(limits(3, time()).check_model_call(0), Err(RunError::OutOfTime { .. })));
        let repeats = || RunLimits { repeats: Some(5), ..none() };
        assert!(limits(4, repeats()).check_model_call(0).is_ok());
        assert!(matches!(
            limits(5, repeats()).check_model_call(0),
            Err(RunError::NothingNew { times: 5, .. })
        ));
    }

    #[test]
    fn an_interrupted_answer_counts_as_a_model_call_only_with_usage() {
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
    fn other_invocations_and_waiting_for_the_user_are_not_counted() {
        let mut events: Vec<Event> = log(1).iter().map(|event| (**event).clone()).collect();
        for event in &mut events {
            event.invocation_id = "before".to_owned();
        }
        events.extend(log(1).iter().map(|event| (**event).clone()));
        // The user replies after an hour, and the run continues for a second.
        let last = |timestamp| Event { author: "user".to_owned(), timestamp, ..events[5].clone() };
        let answer = last(3_600.0);
        let after = Event { author: "root".to_owned(), ..last(3_601.0) };
        let events: Vec<Arc<Event>> = events.into_iter().chain([answer, after]).map(Arc::new).collect();
        let own = invocation_tail(&events, "i");
        assert_eq!((own.len(), active_time(own)), (5, Duration::from_secs(2)));
        assert_eq!(invocation_tail(&events, "another").len(), 0);
    }
}
