//! Who may do what: pure functions from a call to "allow", "ask" or "deny", each with a reason that a person reads.
//!
//! | read | for |
//! |---|---|
//! | [`Policy`] | the rules of one agent, and the decision on one call |
//! | [`rule`] | rules as they are stored and listed |
//! | [`shell`] | what a script would run, without running it |
//! | `judge` | one command: rules, wrappers, harmless commands |
//! | `harmless` | commands that only look, with the options that are known to only look |
//! | [`ground`] | which paths are inside |
//!
//! **Invariant.** The decision on a script is the strictest over all its simple commands, and what cannot be understood
//! asks. No rule is a prefix of a text: rules are words of a command.

pub mod ground;
mod harmless;
mod judge;
pub mod rule;
pub mod shell;
mod wrappers;

pub use ground::Ground;
pub use rule::{Decision, Rule, Subject};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{Safety, Spec};

/// The rules of one agent. Where none applies, reading is allowed and all else asks.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Policy {
    pub rules: Vec<Rule>,
}

/// One call that wants to run.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    pub spec: &'a Spec,
    pub args: &'a Map<String, Value>,
    /// The file that it would change, as [`Tool::target`](crate::Tool::target) says.
    pub target: Option<&'a str>,
    /// Which untrusted text has entered the conversation, if any ("a page from example.com").
    pub tainted_by: Option<&'a str>,
}

impl Request<'_> {
    /// The script that the call would run.
    fn script(&self) -> Option<&str> {
        let runs_script = ["exec", "exec_start"].contains(&self.spec.name.as_str());
        self.args.get("command").and_then(Value::as_str).filter(|_| runs_script)
    }

    /// Why the file that it would change is more than a file: by its name, or by the one that a link leads to.
    fn sensitive(&self) -> Option<String> {
        let target = self.target?;
        let written = self.args.get("path").and_then(Value::as_str);
        [target].into_iter().chain(written).find_map(ground::sensitive)
    }
}

/// A decision, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    pub decision: Decision,
    pub reason: String,
    /// Rules that would have allowed it: what "always" stores. Empty where there is nothing safe to store.
    pub always: Vec<Rule>,
}

impl Verdict {
    fn new(decision: Decision, reason: impl Into<String>) -> Self {
        Self { decision, reason: reason.into(), always: Vec::new() }
    }
}

impl Policy {
    /// Decides on a call.
    pub fn decide(&self, request: &Request<'_>, ground: &Ground) -> Verdict {
        let base = self.base(request.spec);
        let verdict = match (base.decision, request.script()) {
            (Decision::Deny, _) => base,
            (_, Some(script)) => judge::script(self, script, &base, ground),
            (Decision::Allow, None) => match request.sensitive() {
                Some(why) => Verdict::new(Decision::Ask, why),
                None => base,
            },
            (Decision::Ask, None) => {
                let always = Rule::new(Subject::Tool(request.spec.name.clone()), Decision::Allow);
                Verdict { always: vec![always], ..base }
            }
        };
        cautious(verdict, request)
    }

    /// What the rules say of the tool and of its class, whatever its arguments are.
    fn base(&self, spec: &Spec) -> Verdict {
        let tool = Subject::Tool(spec.name.clone());
        let class = Subject::Class(spec.safety);
        // The tool's own rule is nearer than its class's; of two alike the later one counts, but a denial always does.
        let found = [&tool, &class].into_iter().find_map(|subject| self.about(subject));
        let denial = [&tool, &class].into_iter().filter_map(|subject| self.about(subject));
        let denial = denial.into_iter().find(|rule| rule.decision == Decision::Deny);
        if let Some(rule) = denial.or(found) {
            return Verdict::new(rule.decision, format!("a rule says: {rule}"));
        }
        match spec.safety {
            Safety::Read => Verdict::new(Decision::Allow, "it only reads"),
            Safety::Write => Verdict::new(Decision::Ask, format!("`{}` writes files", spec.name)),
            Safety::Execute => Verdict::new(Decision::Ask, format!("`{}` runs a program", spec.name)),
            Safety::Network => Verdict::new(Decision::Ask, format!("`{}` uses the network", spec.name)),
        }
    }

    fn about(&self, subject: &Subject) -> Option<&Rule> {
        let about = || self.rules.iter().filter(|rule| rule.subject == *subject);
        about().find(|rule| rule.decision == Decision::Deny).or_else(|| about().next_back())
    }

    /// Whether files may be written without a question.
    fn may_write(&self) -> bool {
        self.about(&Subject::Class(Safety::Write)).is_some_and(|rule| rule.decision == Decision::Allow)
    }
}

/// After untrusted text has come in, what a rule allows is asked again: the text may be what wants it. Commands that only
/// look inside the working directory stay allowed.
fn cautious(verdict: Verdict, request: &Request<'_>) -> Verdict {
    let Some(source) = request.tainted_by else { return verdict };
    let only_looks = request.spec.safety == Safety::Read || verdict.reason == judge::ONLY_LOOKS;
    if verdict.decision != Decision::Allow || only_looks {
        return verdict;
    }
    Verdict::new(
        Decision::Ask,
        format!("untrusted text is in the conversation ({source}), so {} asks again", request.spec.name),
    )
}

#[cfg(test)]
mod tests;
