//! Histograms of runs. Labels have a bounded number of values: names that the operator has configured, and outcomes.

use crate::histogram::{BucketBounds, Histogram, HistogramSeries};
use adk::trace::{MeasuredOperation, Span};
use lock::RwLockExt;
use serde_json::Value;
use std::{
    collections::BTreeMap,
    sync::{Arc, RwLock},
    time::Duration,
};

const COMMIT_BOUNDS: BucketBounds =
    &[0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0];
const CALL_BOUNDS: BucketBounds =
    &[0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0];
const WAIT_BOUNDS: BucketBounds =
    &[0.001, 0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 600.0, 1800.0];
/// The maximum number of names of one label. Further ones share [`OTHER`].
const MAX_NAMES: usize = 64;
const OTHER: &str = "other";

/// All series of one metric.
#[derive(Clone, Debug, PartialEq)]
pub struct HistogramFamily {
    pub name: &'static str,
    pub help: &'static str,
    pub series: Vec<HistogramSeries>,
}

#[derive(Debug)]
pub(crate) struct Measurements {
    queue_wait: Histogram,
    append: Histogram,
    first_token: LabelledHistograms,
    model_call: LabelledHistograms,
    tool_call: LabelledHistograms,
}

impl Default for Measurements {
    fn default() -> Self {
        Self {
            queue_wait: Histogram::new(WAIT_BOUNDS),
            append: Histogram::new(COMMIT_BOUNDS),
            first_token: LabelledHistograms::new("provider"),
            model_call: LabelledHistograms::new("provider"),
            tool_call: LabelledHistograms::new("tool"),
        }
    }
}

impl Measurements {
    pub(crate) fn measure(&self, operation: MeasuredOperation, time: Duration) {
        match operation {
            MeasuredOperation::QueueWait => self.queue_wait.record(time),
            MeasuredOperation::Append => self.append.record(time),
        }
    }

    /// Records the duration of a model or tool call.
    pub(crate) fn record(&self, span: &Span) {
        let attribute = |name: &str| span.attributes.get(name).and_then(Value::as_str);
        let time = Duration::from_nanos(span.end.saturating_sub(span.start));
        match attribute("gen_ai.operation.name") {
            Some("chat") => {
                let key = (attribute("gen_ai.provider.name").unwrap_or(OTHER), outcome(span));
                self.model_call.record(key, time);
                if let Some(first) = span.first_token {
                    self.first_token.record(key, first);
                }
            }
            // A span has no name that a model has invented.
            Some("execute_tool") => {
                let key = (attribute("gen_ai.tool.name").unwrap_or(OTHER), tool_outcome(span));
                self.tool_call.record(key, time);
            }
            Some(_) | None => {}
        }
    }

    pub(crate) fn families(&self) -> Vec<HistogramFamily> {
        let family = |name, help, series| HistogramFamily { name, help, series };
        vec![
            family(
                "lango_queue_wait_seconds",
                "Time from the arrival of a message until its run starts.",
                vec![self.queue_wait.series(Vec::new())],
            ),
            family(
                "lango_model_first_token_seconds",
                "Time until the first chunk of an answer, retries included.",
                self.first_token.series(),
            ),
            family("lango_model_call_seconds", "Model calls, retries included.", self.model_call.series()),
            family(
                "lango_tool_call_seconds",
                "Tool calls. Tools of MCP servers and invented names are `other`.",
                self.tool_call.series(),
            ),
            family(
                "lango_append_seconds",
                "Commits of runs to the session store, retries included.",
                vec![self.append.series(Vec::new())],
            ),
        ]
    }
}

fn outcome(span: &Span) -> &'static str {
    match span.error.as_deref() {
        None => "ok",
        Some("cancelled") => "cancelled",
        Some(_) => "error",
    }
}

fn tool_outcome(span: &Span) -> &'static str {
    if span.attributes.contains_key("lango.tool.outcome") { "asks" } else { outcome(span) }
}

/// Histograms by a name and an outcome.
#[derive(Debug)]
struct LabelledHistograms {
    label: &'static str,
    /// Locked for writing only when a new pair of labels appears.
    by_labels: RwLock<BTreeMap<&'static str, BTreeMap<String, Arc<Histogram>>>>,
}

impl LabelledHistograms {
    fn new(label: &'static str) -> Self {
        Self { label, by_labels: RwLock::default() }
    }

    fn record(&self, (name, outcome): (&str, &'static str), time: Duration) {
        self.histogram(name, outcome).record(time);
    }

    fn histogram(&self, name: &str, outcome: &'static str) -> Arc<Histogram> {
        let known = self.by_labels.read_locked();
        if let Some(histogram) = known.get(outcome).and_then(|names| names.get(name)) {
            return Arc::clone(histogram);
        }
        drop(known);
        let mut by_labels = self.by_labels.write_locked();
        let names = by_labels.entry(outcome).or_default();
        let is_new = !names.contains_key(name);
        let name = if is_new && names.len() >= MAX_NAMES { OTHER } else { name };
        Arc::clone(names.entry(name.to_owned()).or_insert_with(|| Arc::new(Histogram::new(CALL_BOUNDS))))
    }

    fn series(&self) -> Vec<HistogramSeries> {
        let by_labels = self.by_labels.read_locked();
        let labels =
            |name: &str, outcome: &str| vec![(self.label, name.to_owned()), ("outcome", outcome.to_owned())];
        let all = by_labels
            .iter()
            .flat_map(|(outcome, names)| names.iter().map(move |(name, one)| (name, *outcome, one)));
        all.map(|(name, outcome, histogram)| histogram.series(labels(name, outcome))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn call(operation: &str, label: &str, name: &str) -> Span {
        let mut span = crate::tests::span(1);
        span.attributes =
            json!({"gen_ai.operation.name": operation, label: name}).as_object().unwrap().clone();
        span.end = span.start + 30_000_000;
        span
    }

    fn counts(family: &HistogramFamily) -> Vec<(String, u64)> {
        let text = |series: &HistogramSeries| {
            series.labels.iter().map(|(_, value)| value.as_str()).collect::<Vec<_>>().join(" ")
        };
        family.series.iter().map(|series| (text(series), series.count)).collect()
    }

    #[test]
    fn calls_are_counted_by_name_and_outcome() {
        let measurements = Measurements::default();
        let chat = Span {
            first_token: Some(Duration::from_millis(20)),
            ..call("chat", "gen_ai.provider.name", "openai")
        };
        measurements.record(&chat);
        measurements.record(&Span {
            error: Some("rate_limited".to_owned()),
            first_token: None,
            ..chat.clone()
        });
        measurements.record(&Span { error: Some("cancelled".to_owned()), first_token: None, ..chat });
        measurements.record(&call("execute_tool", "x", "invented"));
        measurements.record(&call("invoke_agent", "x", "y"));
        let [_, first, model, tool, _] = &measurements.families()[..] else { panic!("five families") };
        assert_eq!(counts(first), [("openai ok".to_owned(), 1)]);
        let expected = ["openai cancelled", "openai error", "openai ok"].map(|labels| (labels.to_owned(), 1));
        assert_eq!(counts(model), expected);
        assert_eq!(counts(tool), [("other ok".to_owned(), 1)]);
        let ok = &model.series[2];
        assert_eq!((ok.buckets[1], ok.buckets[2], ok.buckets[13]), ((0.025, 0), (0.1, 1), (600.0, 1)));
        assert!((ok.sum - 0.03).abs() < 1e-9);
    }

    #[test]
    fn the_number_of_names_is_bounded() {
        let measurements = Measurements::default();
        for number in 0..1_000 {
            measurements.record(&call("execute_tool", "gen_ai.tool.name", &format!("tool-{number}")));
        }
        let series = &measurements.families()[3].series;
        assert_eq!(series.len(), MAX_NAMES + 1);
        assert_eq!(series.iter().map(|one| one.count).sum::<u64>(), 1_000);
    }

    #[test]
    fn a_value_at_a_bound_or_above_all_is_in_its_bucket() {
        let measurements = Measurements::default();
        for time in [Duration::ZERO, Duration::from_millis(1), Duration::from_hours(1)] {
            measurements.measure(MeasuredOperation::QueueWait, time);
        }
        let wait = &measurements.families()[0].series[0];
        assert_eq!((wait.buckets[0], wait.buckets[13], wait.count), ((0.001, 2), (1800.0, 2), 3));
    }
}
