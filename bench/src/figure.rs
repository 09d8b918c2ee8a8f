//! A measured number with its name, unit, spread and target.

use crate::measure::Samples;
use serde_json::{Map, Value, json};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Target {
    AtLeast(f64),
    AtMost(f64),
}

impl Target {
    fn is_met(self, value: f64) -> bool {
        match self {
            Self::AtLeast(target) => value >= target,
            Self::AtMost(target) => value <= target,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Figure {
    pub(crate) name: String,
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
    /// The 10th and the 90th percentile if `value` is a median.
    spread: Option<(f64, f64)>,
    target: Option<Target>,
}

impl Figure {
    pub(crate) fn new(name: impl Into<String>, value: f64, unit: &'static str) -> Self {
        Self { name: name.into(), value, unit, spread: None, target: None }
    }

    /// Creates a figure from the median of `samples`, which must be in `unit`.
    pub(crate) fn median(name: impl Into<String>, samples: &Samples, unit: &'static str) -> Self {
        let spread = Some((samples.percentile(10), samples.percentile(90)));
        Self { spread, ..Self::new(name, samples.median(), unit) }
    }

    pub(crate) fn target(self, target: Target) -> Self {
        Self { target: Some(target), ..self }
    }

    pub(crate) fn json(&self) -> Value {
        let mut object = Map::new();
        object.insert("name".into(), json!(self.name));
        object.insert("value".into(), json!(rounded(self.value)));
        object.insert("unit".into(), json!(self.unit));
        if let Some((p10, p90)) = self.spread {
            object.insert("p10".into(), json!(rounded(p10)));
            object.insert("p90".into(), json!(rounded(p90)));
        }
        if let Some(target) = self.target {
            let (Target::AtLeast(number) | Target::AtMost(number)) = target;
            object.insert("target".into(), json!(number));
            object.insert("target_met".into(), json!(target.is_met(self.value)));
        }
        Value::Object(object)
    }

    pub(crate) fn row(&self) -> String {
        let spread =
            self.spread.map(|(p10, p90)| format!("{} … {}", rounded(p10), rounded(p90))).unwrap_or_default();
        let target = self.target.map(|target| {
            let verdict = if target.is_met(self.value) { "met" } else { "MISSED" };
            match target {
                Target::AtLeast(number) => format!("target ≥ {number}: {verdict}"),
                Target::AtMost(number) => format!("target ≤ {number}: {verdict}"),
            }
        });
        let Self { name, value, unit, .. } = self;
        let row = format!(
            "{name:<28} {:>10} {unit:<9} {spread:<22} {}",
            rounded(*value),
            target.unwrap_or_default()
        );
        row.trim_end().to_owned()
    }
}

/// Rounds to four significant digits; further digits are noise.
fn rounded(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_and_row_show_whether_the_aim_is_met() {
        let figure = Figure::new("append/1/ratio", 0.812_345, "ratio").target(Target::AtLeast(0.75));
        assert_eq!(
            figure.json().to_string(),
            r#"{"name":"append/1/ratio","value":0.8123,"unit":"ratio","target":0.75,"target_met":true}"#
        );
        let missed = Figure::new("tail/100", 0.3, "ms").target(Target::AtMost(0.2));
        assert_eq!(missed.json()["target_met"], false);
        assert!(missed.row().ends_with("target ≤ 0.2: MISSED"), "{}", missed.row());
    }

    #[test]
    fn median_figure_has_its_spread() {
        let samples = Samples::new((1..=11).map(f64::from).collect());
        let figure = Figure::median("a", &samples, "ms");
        assert_eq!(figure.json().to_string(), r#"{"name":"a","value":6.0,"unit":"ms","p10":2.0,"p90":10.0}"#);
    }

    #[test]
    fn values_are_rounded_to_four_significant_digits() {
        let rounded = [25_155.4, 0.000_123_456, 0.0].map(|value| rounded(value).to_string());
        assert_eq!(rounded, ["25160", "0.0001235", "0"]);
    }
}
