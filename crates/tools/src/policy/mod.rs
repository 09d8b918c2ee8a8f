//! The approval policy: functions from a call to "allow", "ask" or "deny", each with a reason for people.
//!
//! | module | contents |
//! |---|---|
//! | [`Policy`] | the rules of one agent, and the decision on one call |
//! | [`rule`] | rules as they are stored and listed |
//! | [`rule_book`] | rules that people stored by answering "always" |
//! | [`shell`] | a parser that finds the simple commands of a script without running it |
//! | `script` | the decision on a script: rules, wrappers, read-only commands |
//! | `wrappers` | commands that start other commands, such as `sudo` and `xargs` |
//! | `read_only` | the list of commands and options that are known to be read-only |
//! | [`path_scope`] | which paths are inside the roots |
//!
//! **Invariant.** The decision on a script is the strictest over all its simple commands, and a script that cannot be parsed
//! asks. Rules match words of a command, never a prefix of its text.

pub mod path_scope;
mod read_only;
pub mod rule;
pub mod rule_book;
mod script;
pub mod shell;
mod wrappers;

pub use path_scope::PathScope;
pub use rule::{Decision, PolicyRule, Subject};
pub use rule_book::{RuleBook, StoredRule};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{Safety, Spec};

/// The rules of one agent. If none applies, read-only tools are allowed and all others ask.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Policy {
    pub rules: Vec<PolicyRule>,
}

/// A call to be decided on.
#[derive(Debug, Clone, Copy)]
pub struct PolicyRequest<'a> {
    pub spec: &'a Spec,
    pub args: &'a Map<String, Value>,
    /// The file that the call would change: see [`Tool::target`](crate::Tool::target).
    pub target: Option<&'a str>,
    /// The source of untrusted text in the conversation, if any ("a page from example.com").
    pub tainted_by: Option<&'a str>,
}

impl PolicyRequest<'_> {
    /// The script that the call would run.
    fn script(&self) -> Option<&str> {
        let runs_script = ["exec", "exec_start"].contains(&self.spec.name.as_str());
        self.args.get("command").and_then(Value::as_str).filter(|_| runs_script)
    }

    /// Why the file that the call would change is sensitive: by the requested path, or by the one that it resolves to.
    fn sensitive(&self) -> Option<String> {
        let target = self.target?;
        let requested = self.args.get("path").and_then(Value::as_str);
        [target].into_iter().chain(requested).find_map(path_scope::sensitive)
    }
}

/// A decision with its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    pub decision: Decision,
    pub reason: String,
    /// Whether the call is allowed because it only reads, and not by a rule.
    pub is_read_only: bool,
    /// The rules that "always" stores. Empty if no rule would be safe.
    pub always: Vec<PolicyRule>,
}

impl Verdict {
    pub fn new(decision: Decision, reason: impl Into<String>) -> Self {
        Self { decision, reason: reason.into(), is_read_only: false, always: Vec::new() }
    }
}

impl Policy {
    /// Decides on a call.
    pub fn decide(&self, request: &PolicyRequest<'_>, scope: &PathScope) -> Verdict {
        let base = self.decide_tool(request.spec);
        let verdict = match (base.decision, request.script()) {
            (Decision::Deny, _) => base,
            (_, Some(script)) => script::decide(self, script, &base, scope),
            (Decision::Allow, None) => match request.sensitive() {
                Some(why) => Verdict::new(Decision::Ask, why),
                None => base,
            },
            (Decision::Ask, None) => {
                let always = PolicyRule::new(Subject::Tool(request.spec.name.clone()), Decision::Allow);
                Verdict { always: vec![always], ..base }
            }
        };
        ask_if_tainted(verdict, request)
    }

    /// The verdict on a tool and its class, regardless of arguments.
    fn decide_tool(&self, spec: &Spec) -> Verdict {
        let tool = Subject::Tool(spec.name.clone());
        let class = Subject::Class(spec.safety);
        // A denial comes first. A rule for the tool takes precedence over one for its class, and a later rule over an earlier.
        let found = [&tool, &class].into_iter().find_map(|subject| self.find_rule(subject));
        let denial = [&tool, &class].into_iter().filter_map(|subject| self.find_rule(subject));
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

    fn find_rule(&self, subject: &Subject) -> Option<&PolicyRule> {
        let matching = || self.rules.iter().filter(|rule| rule.subject == *subject);
        matching().find(|rule| rule.decision == Decision::Deny).or_else(|| matching().next_back())
    }

    /// Whether files may be written without approval.
    fn may_write(&self) -> bool {
        self.find_rule(&Subject::Class(Safety::Write)).is_some_and(|rule| rule.decision == Decision::Allow)
    }
}

/// Turns "allow" into "ask" while untrusted text is in the conversation, because the text may have caused the call (prompt
/// injection). Read-only tools and commands stay allowed.
fn ask_if_tainted(verdict: Verdict, request: &PolicyRequest<'_>) -> Verdict {
    let Some(source) = request.tainted_by else { return verdict };
    let only_reads = request.spec.safety == Safety::Read || verdict.is_read_only;
    if verdict.decision != Decision::Allow || only_reads {
        return verdict;
    }
    Verdict::new(
        Decision::Ask,
        format!(
            "untrusted text is in the conversation ({source}), so {} needs approval again",
            request.spec.name
        ),
    )
}

#[cfg(test)]
mod tests;
