//! The approval policy: functions from a call to "allow", "ask" or "deny", each with a reason for people.
//!
//! | module | contents |
//! |---|---|
//! | [`Policy`] | the rules of one agent, and the decision on one call |
//! | [`mode`] | the approval mode: how much runs without a question |
//! | [`sandbox_capability`] | what the sandbox guarantees for commands |
//! | [`rule`] | rules as they are stored and listed |
//! | [`rule_book`] | rules that people stored by answering "always" |
//! | [`shell`] | a parser that finds the simple commands of a script without running it |
//! | `script`, `command_verdict` | the decision on a script: rules, wrappers, read-only commands |
//! | `command_rules` | which rule matches a command, and which one is offered |
//! | `wrappers` | commands that start other commands, such as `sudo` and `xargs` |
//! | `read_only` | the list of commands and options that are known to be read-only |
//! | `network`, `write_targets` | what commands are known to need from the sandbox |
//! | [`path_scope`], [`protected`], [`search_path`] | paths inside the roots, protected paths, programs of the project |
//!
//! **Invariant.** The decision on a script is the strictest over all its simple commands, and a script that cannot be parsed
//! asks. Rules match words of a command, never a prefix of its text. The policy decides whether to ask; what a command can
//! do is limited by the sandbox.

mod command_rules;
mod command_verdict;
pub mod mode;
mod network;
pub mod path_scope;
pub mod protected;
mod read_only;
pub mod rule;
pub mod rule_book;
pub mod sandbox_capability;
mod script;
pub mod search_path;
pub mod shell;
mod wrappers;
mod write_targets;

use std::path::{Path, PathBuf};

pub use mode::ApprovalMode;
pub use path_scope::PathScope;
pub use protected::ProtectedPaths;
pub use rule::{Decision, PathPattern, PolicyRule, Subject};
pub use rule_book::{PlacedRule, RuleBook, RulePlace, StoredRule};
pub use sandbox_capability::{CommandSandbox, LazyCommandSandbox, ProfileSupport, SandboxCapability};
pub use search_path::SearchPath;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{Safety, Spec};

/// The tools that run a script in the sandbox.
const SCRIPT_TOOLS: [&str; 2] = ["exec", "exec_start"];
/// The tools that return the output of an earlier script, possibly of another session.
const OUTPUT_TOOLS: [&str; 2] = ["exec_status", "exec_stop"];
/// The tools that change one file inside a writable root, and nothing else.
const FILE_TOOLS: [&str; 3] = ["write_file", "edit_file", "undo_edit"];

/// The longest list of protected paths that a call may name: a person sees all of it in the question.
const MAX_NAMED_PATHS: usize = 240;

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
    pub mode: ApprovalMode,
    pub sandbox: &'a CommandSandbox,
    /// The rules that people stored for this folder and working directory, or for this session.
    pub stored: &'a [PolicyRule],
}

impl<'a> PolicyRequest<'a> {
    /// A call in the mode `ask` without stored rules.
    pub fn new(spec: &'a Spec, args: &'a Map<String, Value>, sandbox: &'a CommandSandbox) -> Self {
        Self { spec, args, target: None, tainted_by: None, mode: ApprovalMode::Ask, sandbox, stored: &[] }
    }

    /// Whether the call runs a script in the sandbox.
    pub fn runs_script(&self) -> bool {
        self.script().is_some()
    }

    /// Whether the result may be the output of a script: of this call, or of an earlier one.
    pub fn returns_script_output(&self) -> bool {
        self.runs_script() || returns_earlier_output(self.spec)
    }

    /// The script that the call would run.
    fn script(&self) -> Option<&'a str> {
        let runs_script = SCRIPT_TOOLS.contains(&self.spec.name.as_str());
        self.args.get("command").and_then(Value::as_str).filter(|_| runs_script)
    }

    /// The protected paths that the call names because its script must write them.
    fn named_paths(&self) -> Vec<&'a str> {
        let named = self.args.get("protected").and_then(Value::as_array).filter(|_| self.runs_script());
        named.into_iter().flatten().filter_map(Value::as_str).collect()
    }

    /// Why the file that the call would change is protected: by the requested path, or by the one that it resolves to.
    fn protected(&self, scope: &PathScope) -> Option<(String, Vec<PathBuf>)> {
        let target = self.target?;
        let requested = self.args.get("path").and_then(Value::as_str);
        let directories = [PathBuf::new()];
        let check = |path: &str| scope.protected_path(Path::new(path), &directories);
        [target].into_iter().chain(requested).find_map(check)
    }

    /// The mode that applies. Untrusted text and an incomplete sandbox end the permissive modes, and stored rules.
    fn restricted(&self) -> Self {
        let is_complete = self.sandbox.capability.workspace == ProfileSupport::Complete;
        let mode = match self.mode {
            ApprovalMode::Edits | ApprovalMode::Auto if self.tainted_by.is_some() || !is_complete => {
                ApprovalMode::Ask
            }
            mode => mode,
        };
        let stored = if is_complete || self.script().is_none() { self.stored } else { &[] };
        Self { mode, stored, ..*self }
    }
}

/// Whether a tool returns the output of earlier scripts.
pub fn returns_earlier_output(spec: &Spec) -> bool {
    OUTPUT_TOOLS.contains(&spec.name.as_str())
}

/// A decision with its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    pub decision: Decision,
    pub reason: String,
    /// Whether the call only reads, so that it belongs into the `read-only` profile, and is not allowed by a rule.
    pub is_read_only: bool,
    /// The rules that "session" and "always" store. Empty if no rule would be safe.
    pub offered: Vec<PolicyRule>,
    /// The protected paths that the call asks for. If a person approves, it gets them for this call.
    pub protected: Vec<PathBuf>,
    /// The setting that would allow a denied call.
    pub remedy: Option<String>,
}

impl Verdict {
    pub fn new(decision: Decision, reason: impl Into<String>) -> Self {
        Self {
            decision,
            reason: reason.into(),
            is_read_only: false,
            offered: Vec::new(),
            protected: Vec::new(),
            remedy: None,
        }
    }
}

impl Policy {
    /// Decides on a call.
    pub fn decide(&self, request: &PolicyRequest<'_>, scope: &PathScope) -> Verdict {
        let restricted = request.restricted();
        let base = self.decide_tool(request.spec);
        let verdict = match (base.decision, restricted.script()) {
            (Decision::Deny, _) => base,
            (_, Some(script)) => {
                let verdict = script::decide(self, (script, &restricted), &base, scope);
                require_profile(ask_for_paths(verdict, request, scope), request.sandbox)
            }
            (Decision::Allow | Decision::Ask, None) => decide_call(base, &restricted, scope),
        };
        deny_in_plan(ask_if_tainted(verdict, request), request)
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

/// The verdict on a call that runs no script.
fn decide_call(base: Verdict, request: &PolicyRequest<'_>, scope: &PathScope) -> Verdict {
    if let Some((why, protected)) = request.protected(scope) {
        return Verdict { protected, ..Verdict::new(Decision::Ask, why) };
    }
    let name = request.spec.name.as_str();
    let file = request.target.filter(|_| FILE_TOOLS.contains(&name));
    // Where a rule allows the call, the error of the tool says more.
    if base.decision == Decision::Allow {
        return base;
    }
    if let Some(path) = file.filter(|path| is_unwritable(path, request.sandbox, scope)) {
        let remedy = "name its directory in `roots` of [tools] in lango.toml to allow that".to_owned();
        let denial = Verdict::new(
            Decision::Deny,
            format!("files outside the writable roots cannot be changed (`{path}`)"),
        );
        return Verdict { remedy: Some(remedy), ..denial };
    }
    let is_stored = |rule: &&PolicyRule| {
        let fits = match &rule.subject {
            Subject::Tool(tool) => tool == name && file.is_none(),
            Subject::Path(pattern) => file.is_some_and(|path| pattern.matches(name, path)),
            Subject::Class(_) | Subject::Command(_) | Subject::Exactly(_) | Subject::Script(_) => false,
        };
        fits && rule.decision == Decision::Allow
    };
    if let Some(rule) = request.stored.iter().find(is_stored) {
        return Verdict::new(Decision::Allow, format!("a rule says: {rule}"));
    }
    let Some(path) = file else {
        // A file tool without a known file has nothing that a rule could name.
        let is_file_tool = FILE_TOOLS.contains(&name);
        let rule = PolicyRule::new(Subject::Tool(name.to_owned()), Decision::Allow);
        return Verdict { offered: if is_file_tool { Vec::new() } else { vec![rule] }, ..base };
    };
    if request.mode.is_permissive() {
        let reason = format!("the mode {} allows file edits inside the roots", request.mode);
        return Verdict::new(Decision::Allow, reason);
    }
    let pattern = Subject::Path(PathPattern::around(name, path, scope.roots()));
    Verdict { offered: vec![PolicyRule::new(pattern, Decision::Allow)], ..base }
}

/// Whether a file tool cannot change the file.
fn is_unwritable(path: &str, sandbox: &CommandSandbox, scope: &PathScope) -> bool {
    let place = (scope, [PathBuf::new()]);
    !write_targets::is_writable(Path::new(path), sandbox, (place.0, &place.1))
}

/// A script that must write protected paths asks for them by name, whatever rules allow.
fn ask_for_paths(verdict: Verdict, request: &PolicyRequest<'_>, scope: &PathScope) -> Verdict {
    let named = request.named_paths();
    if named.is_empty() || verdict.decision == Decision::Deny {
        return verdict;
    }
    let resolve = |path: &&str| scope.resolve(Path::new(path));
    if let Some(above) = named.iter().find(|path| scope.contains_root(&resolve(path))) {
        let remedy = Some("name the exact paths in the argument `protected`".to_owned());
        let denial = Verdict::new(Decision::Deny, format!("`{above}` contains a whole root"));
        return Verdict { remedy, ..denial };
    }
    let names = named.join("`, `");
    if names.len() > MAX_NAMED_PATHS {
        let remedy = Some("name fewer or shorter paths in the argument `protected`".to_owned());
        let denial = Verdict::new(Decision::Deny, "a question with so many protected paths cannot be read");
        return Verdict { remedy, ..denial };
    }
    let asks = format!("it must write the protected path `{names}`");
    let reason = match verdict.decision {
        Decision::Ask => format!("{}; {asks}", verdict.reason),
        Decision::Allow | Decision::Deny => asks,
    };
    let protected = verdict.protected.into_iter().chain(named.iter().map(resolve)).collect();
    Verdict { protected, ..Verdict::new(Decision::Ask, reason) }
}

/// A command whose profile is incomplete asks every time, whatever rules allow, and the question names the missing guarantees.
fn require_profile(verdict: Verdict, sandbox: &CommandSandbox) -> Verdict {
    let capability = &sandbox.capability;
    let support = if verdict.is_read_only { &capability.read_only } else { &capability.workspace };
    let Some(missing) = support.missing() else { return verdict };
    let missing = format!("the sandbox of this machine does not guarantee {missing}");
    let reason = match verdict.decision {
        Decision::Allow => missing,
        Decision::Ask => format!("{}, and {missing}", verdict.reason),
        Decision::Deny => return verdict,
    };
    Verdict { decision: Decision::Ask, reason, offered: Vec::new(), ..verdict }
}

/// Turns "allow" into "ask" while untrusted text is in the conversation, because the text may have caused the call (prompt
/// injection). Read-only tools and commands stay allowed.
fn ask_if_tainted(verdict: Verdict, request: &PolicyRequest<'_>) -> Verdict {
    let Some(source) = request.tainted_by else { return verdict };
    let only_reads = request.spec.safety == Safety::Read || verdict.is_read_only;
    if only_reads || verdict.decision == Decision::Deny {
        return verdict;
    }
    let untrusted = format!("untrusted text is in the conversation ({source})");
    let reason = match verdict.decision {
        Decision::Ask => format!("{}; {untrusted}", verdict.reason),
        Decision::Allow | Decision::Deny => {
            format!("{untrusted}, so {} needs approval again", request.spec.name)
        }
    };
    // A rule that is stored now would be an answer to the untrusted text.
    Verdict { decision: Decision::Ask, reason, offered: Vec::new(), ..verdict }
}

/// In the mode `plan`, nothing that acts runs, whatever rules allow.
fn deny_in_plan(verdict: Verdict, request: &PolicyRequest<'_>) -> Verdict {
    let only_reads = request.spec.safety == Safety::Read || verdict.is_read_only;
    if request.mode != ApprovalMode::Plan || verdict.decision == Decision::Deny || only_reads {
        return verdict;
    }
    let remedy =
        "read and plan only, and describe the change; the person can leave the mode with /mode".to_owned();
    let denial = Verdict::new(Decision::Deny, "the mode is plan, in which nothing is changed or started");
    Verdict { remedy: Some(remedy), ..denial }
}

#[cfg(test)]
mod tests;
