//! What a replay showed: for a person, or as JSON; the last line counts.

use super::{
    compare::Difference,
    replay::{Outcome, Verdict},
};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// As many differences of one exchange, and as much of each, as a person reads at a glance.
const GLANCE: usize = 3;
const GLANCE_CHARS: usize = 200;

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

    /// What differs; with `verbose` everything else, too.
    pub(super) fn told(&self, verbose: bool) -> String {
        let mut told = String::new();
        for Outcome { name, verdict } in &self.0 {
            let _ = match verdict {
                Verdict::Differs(differences) => {
                    writeln!(told, "{name} differs\n{}", listed(differences, verbose))
                }
                Verdict::Same { on_purpose: Some(why) } if verbose => {
                    writeln!(told, "{name} is ours on purpose: {why}")
                }
                Verdict::NotCompared { why, answered } if verbose => {
                    writeln!(told, "{name} was sent ({answered}) and not compared: {why}")
                }
                Verdict::Same { .. } | Verdict::NotCompared { .. } => Ok(()),
            };
        }
        let sent = self.0.len() - self.compared();
        let _ = writeln!(told, "{sent} more were sent and not compared");
        let _ = write!(told, "conformance: {} of {}", self.same(), self.compared());
        told
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
            .fold(String::new(), |told, difference| format!("{told}    {difference}\n"));
    }
    let mut told = String::new();
    for difference in differences.iter().take(GLANCE) {
        let line = difference.to_string();
        let short: String = line.chars().take(GLANCE_CHARS).collect();
        let _ = writeln!(told, "    {short}{}", if short.len() < line.len() { "…" } else { "" });
    }
    if let Some(more) = differences.len().checked_sub(GLANCE).filter(|more| *more > 0) {
        let _ = writeln!(told, "    and {more} more; --verbose shows all");
    }
    told
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

fn difference(Difference { at, recorded, came }: &Difference) -> Value {
    json!({"at": at, "recorded": recorded, "came": came})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let difference =
            |at: &str| Difference { at: at.to_owned(), recorded: Some(json!("a")), came: Some(json!("b")) };
        let differs = Verdict::Differs(["/1", "/2", "/3", "/4"].map(difference).into());
        let waits = Verdict::NotCompared { why: "it is withheld", answered: "200".to_owned() };
        let verdicts =
            [Verdict::Same { on_purpose: None }, differs, waits, Verdict::Same { on_purpose: Some("order") }];
        let outcome = |(at, verdict)| Outcome { name: format!("00{at}-x"), verdict };
        Report::new(verdicts.into_iter().enumerate().map(outcome).collect())
    }

    #[test]
    fn what_differs_is_told_and_the_last_line_counts() {
        let told = report().told(false);
        let lines: Vec<&str> = told.lines().filter(|line| !line.is_empty()).collect();
        assert_eq!(lines[0], "001-x differs");
        assert_eq!(lines[1], r#"    /1: recorded "a", came "b""#);
        assert_eq!(lines[4], "    and 1 more; --verbose shows all");
        assert_eq!(lines[5..], ["1 more were sent and not compared", "conformance: 2 of 3"]);
        assert!(!report().is_good());
    }

    #[test]
    fn everything_is_told_on_request_and_as_json() {
        let told = report().told(true);
        assert!(told.contains("    /4: recorded"), "{told}");
        assert!(told.contains("002-x was sent (200) and not compared: it is withheld"), "{told}");
        assert!(told.contains("003-x is ours on purpose: order"), "{told}");
        let json = report().json();
        assert_eq!((&json["same"], &json["compared"]), (&json!(2), &json!(3)));
        assert_eq!(json["exchanges"][1]["differences"][0], json!({"at": "/1", "recorded": "a", "came": "b"}));
    }
}
