//! The report of a replay, as text or as JSON. The last line has the counts.

use super::{
    compare::Difference,
    replay::{Outcome, Verdict},
};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// The number of differences of one exchange, and of characters of each, without `--verbose`.
const MAX_DIFFERENCES: usize = 3;
const MAX_CHARS: usize = 200;

pub(super) struct Report(Vec<Outcome>);

impl Report {
    pub(super) fn new(outcomes: Vec<Outcome>) -> Self {
        Self(outcomes)
    }

    pub(super) fn is_good(&self) -> bool {
        self.same() == self.compared()
    }

    fn same(&self) -> usize {
        self.0.iter().filter(|outcome| matches!(outcome.verdict, Verdict::Same { .. })).count()
    }

    fn compared(&self) -> usize {
        self.0.iter().filter(|outcome| !matches!(outcome.verdict, Verdict::NotCompared { .. })).count()
    }

    /// The differences; with `verbose` also intended differences and exchanges that are not compared.
    pub(super) fn render(&self, verbose: bool) -> String {
        let mut text = String::new();
        for Outcome { name, verdict } in &self.0 {
            let _ = match verdict {
                Verdict::Differs(differences) => {
                    writeln!(text, "{name} differs\n{}", listed(differences, verbose))
                }
                Verdict::Same { on_purpose: Some(why) } if verbose => {
                    writeln!(text, "{name} differs by design: {why}")
                }
                Verdict::NotCompared { why, answered } if verbose => {
                    writeln!(text, "{name} was sent ({answered}) and not compared: {why}")
                }
                Verdict::Same { .. } | Verdict::NotCompared { .. } => Ok(()),
            };
        }
        let sent = self.0.len() - self.compared();
        let _ = writeln!(text, "{sent} more were sent and not compared");
        let _ = write!(text, "conformance: {} of {}", self.same(), self.compared());
        text
    }

    pub(super) fn json(&self) -> Value {
        let exchanges: Vec<Value> = self.0.iter().map(exchange).collect();
        json!({"same": self.same(), "compared": self.compared(), "exchanges": exchanges})
    }
}

fn listed(differences: &[Difference], verbose: bool) -> String {
    if verbose {
        return differences
            .iter()
            .fold(String::new(), |text, difference| format!("{text}    {difference}\n"));
    }
    let mut text = String::new();
    for difference in differences.iter().take(MAX_DIFFERENCES) {
        let line = difference.to_string();
        let short: String = line.chars().take(MAX_CHARS).collect();
        let _ = writeln!(text, "    {short}{}", if short.len() < line.len() { "…" } else { "" });
    }
    if let Some(more) = differences.len().checked_sub(MAX_DIFFERENCES).filter(|more| *more > 0) {
        let _ = writeln!(text, "    and {more} more; --verbose shows all");
    }
    text
}

fn exchange(Outcome { name, verdict }: &Outcome) -> Value {
    match verdict {
        Verdict::Same { on_purpose } => json!({"name": name, "verdict": "same", "onPurpose": on_purpose}),
        Verdict::Differs(differences) => {
            let differences: Vec<Value> = differences.iter().map(difference).collect();
            json!({"name": name, "verdict": "differs", "differences": differences})
        }
        Verdict::NotCompared { why, answered } => {
            json!({"name": name, "verdict": "not compared", "why": why, "answered": answered})
        }
    }
}

fn difference(Difference { at, recorded, live }: &Difference) -> Value {
    json!({"at": at, "recorded": recorded, "came": live})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let difference =
            |at: &str| Difference { at: at.to_owned(), recorded: Some(json!("a")), live: Some(json!("b")) };
        let differs = Verdict::Differs(["/1", "/2", "/3", "/4"].map(difference).into());
        let not_compared = Verdict::NotCompared { why: "it is withheld", answered: "200".to_owned() };
        let verdicts = [
            Verdict::Same { on_purpose: None },
            differs,
            not_compared,
            Verdict::Same { on_purpose: Some("order") },
        ];
        let outcome = |(at, verdict)| Outcome { name: format!("00{at}-x"), verdict };
        Report::new(verdicts.into_iter().enumerate().map(outcome).collect())
    }

    #[test]
    fn report_has_the_differences_and_ends_with_the_counts() {
        let text = report().render(false);
        let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
        assert_eq!(lines[0], "001-x differs");
        assert_eq!(lines[1], r#"    /1: recorded "a", received "b""#);
        assert_eq!(lines[4], "    and 1 more; --verbose shows all");
        assert_eq!(lines[5..], ["1 more were sent and not compared", "conformance: 2 of 3"]);
        assert!(!report().is_good());
    }

    #[test]
    fn verbose_report_and_json_are_complete() {
        let text = report().render(true);
        assert!(text.contains("    /4: recorded"), "{text}");
        assert!(text.contains("002-x was sent (200) and not compared: it is withheld"), "{text}");
        assert!(text.contains("003-x differs by design: order"), "{text}");
        let json = report().json();
        assert_eq!((&json["same"], &json["compared"]), (&json!(2), &json!(3)));
        assert_eq!(json["exchanges"][1]["differences"][0], json!({"at": "/1", "recorded": "a", "came": "b"}));
    }
}
