//! Whether a call may run: the policy, the rules that a person has stored, and whether untrusted text is in the
//! conversation.

use adk::{
    event::ToolConfirmation,
    runner::{Input, RunRequest},
    tool::ToolContext,
};
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use tools::{
    AppUser, Mask, RuleBook, Tool,
    policy::{Decision, PathScope, Policy, PolicyRequest, PolicyRule, Verdict},
};

/// The state key that says which untrusted text has come in. It is stored with the answer that brought it, and outlives
/// the window.
pub const UNTRUSTED: &str = "lango:untrusted";

/// The state key that says that whoever spoke last is a user of a server and none of its administrators. It is stored with
/// the message.
pub const GUEST: &str = "lango:guest";

/// How much of a diff or a command a person is shown before deciding.
const MOST_SHOWN: usize = 8_000;

/// What stands between a model's calls and the tools of an app.
#[derive(Debug)]
pub struct Guard {
    policy: Policy,
    book: RuleBook,
    /// The directories that commands may look at, free of links; the first is the working directory.
    roots: Vec<PathBuf>,
    mask: Mask,
    /// Nobody is there to be asked.
    unattended: bool,
    /// Whether users of a server decide on what they are asked; else its administrators do.
    users_decide: bool,
}

/// What becomes of a call.
pub(crate) enum GuardDecision {
    Run,
    Ask(ToolConfirmation),
    /// With what the model is told.
    Refuse(String),
}

impl Guard {
    pub fn new(policy: Policy, book: RuleBook, roots: Vec<PathBuf>, mask: Mask) -> Self {
        Self { policy, book, roots, mask, unattended: false, users_decide: false }
    }

    /// Users of a server may say yes to what its machine does.
    pub fn users_decide(self, decide: bool) -> Self {
        Self { users_decide: decide, ..self }
    }

    /// Without anyone to ask, the answer is no.
    pub fn unattended(self) -> Self {
        Self { unattended: true, ..self }
    }

    pub(crate) fn mask(&self) -> &Mask {
        &self.mask
    }

    /// Whether whoever is asked may not decide.
    fn is_for_guest(&self, context: &ToolContext) -> bool {
        !self.users_decide && context.state(GUEST) == Some(Value::Bool(true))
    }

    /// Decides on a call. What a person has said counts, but for what is denied, and if it is theirs to say.
    pub(crate) fn admit(
        &self,
        tool: &dyn Tool,
        args: &Map<String, Value>,
        context: &ToolContext,
    ) -> GuardDecision {
        let verdict = doubted(tool, self.verdict(tool, args, context));
        if verdict.decision == Decision::Ask && self.is_for_guest(context) {
            return GuardDecision::Refuse(not_theirs(&verdict));
        }
        let asks = verdict.decision == Decision::Ask || tool.spec().confirm;
        if asks && verdict.decision != Decision::Deny && context.confirmation.is_none() && self.unattended {
            return GuardDecision::Refuse(nobody(tool, &verdict));
        }
        match (verdict.decision, &context.confirmation) {
            (Decision::Deny, _) => {
                GuardDecision::Refuse(format!("this call is not allowed: {}", verdict.reason))
            }
            (Decision::Allow | Decision::Ask, None) if tool.spec().confirm => {
                GuardDecision::Ask(plain_question(&tool.spec().name))
            }
            (Decision::Allow, _) => GuardDecision::Run,
            (Decision::Ask, None) => GuardDecision::Ask(self.question(tool, args, &verdict)),
            (Decision::Ask, Some(answer)) => {
                if says_always(answer) {
                    // Whoever cannot store a rule is asked again, and has lost nothing.
                    let _ = self.book.add(&owner(context), &verdict.always);
                }
                GuardDecision::Run
            }
        }
    }

    /// Stored rules only allow, so that they are looked at only where somebody would be asked.
    fn verdict(&self, tool: &dyn Tool, args: &Map<String, Value>, context: &ToolContext) -> Verdict {
        let workdir = args.get("workdir").and_then(Value::as_str).unwrap_or_default();
        let scope = PathScope::on_disk(self.roots.clone(), workdir.as_ref());
        let (target, source) = (tool.target(args), context.state(UNTRUSTED));
        let tainted_by = source.as_ref().and_then(Value::as_str);
        let request = PolicyRequest { spec: tool.spec(), args, target: target.as_deref(), tainted_by };
        let verdict = self.policy.decide(&request, &scope);
        if verdict.decision != Decision::Ask || self.is_for_guest(context) {
            return verdict;
        }
        let stored = self.book.rules_of(&owner(context)).unwrap_or_default();
        if stored.is_empty() {
            return verdict;
        }
        let rules = self.policy.rules.iter().cloned().chain(stored).collect();
        Policy { rules }.decide(&request, &scope)
    }

    fn question(&self, tool: &dyn Tool, args: &Map<String, Value>, verdict: &Verdict) -> ToolConfirmation {
        let mut hint = format!("May {} run? It asks because {}.", tool.spec().name, verdict.reason);
        if let Some(preview) = tool.preview(args) {
            hint += "\n\n";
            hint += shortened(&preview).trim_end();
        }
        let can_be_stored = !verdict.always.is_empty();
        if can_be_stored {
            let rules: Vec<String> = verdict.always.iter().map(PolicyRule::to_string).collect();
            hint = format!("{hint}\n\nFor good it would be: {}.", rules.join("; "));
        }
        let payload = can_be_stored.then(|| json!({"always": false}));
        ToolConfirmation { hint: self.mask.apply(hint), confirmed: false, payload }
    }
}

/// What a person has not seen yet is asked about, whatever the rules allow.
fn doubted(tool: &dyn Tool, verdict: Verdict) -> Verdict {
    match tool.review_reason().filter(|_| verdict.decision != Decision::Deny) {
        Some(reason) => Verdict { decision: Decision::Ask, reason, always: Vec::new() },
        None => verdict,
    }
}

fn not_theirs(verdict: &Verdict) -> String {
    format!(
        "this call was not run: {}, and on this server only an administrator decides on that. An administrator can allow it by \
         a rule in [approval] of lango.toml, or let users decide with `users = \"ask\"` there",
        verdict.reason
    )
}

fn nobody(tool: &dyn Tool, verdict: &Verdict) -> String {
    let why = match verdict.decision {
        Decision::Ask => verdict.reason.clone(),
        Decision::Allow | Decision::Deny => format!("`{}` is confirmed each time", tool.spec().name),
    };
    format!("this call was not run: {why}, and nobody is there to be asked, so the answer is no")
}

/// A message says by whom it is: without a word on it by the owner of this machine or an administrator. A run that goes on
/// is still that of whoever began it.
pub(crate) fn signed(mut request: RunRequest) -> RunRequest {
    if request.input != Input::Resume {
        request.state_delta.entry(GUEST).or_insert(Value::Bool(false));
    }
    request
}

/// Whether a person wants it so from now on.
fn says_always(answer: &ToolConfirmation) -> bool {
    answer.payload.as_ref().and_then(|payload| payload.get("always")) == Some(&Value::Bool(true))
}

pub(crate) fn owner(context: &ToolContext) -> AppUser {
    AppUser { app: context.session.app_name.clone(), user: context.session.user_id.clone() }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(MOST_SHOWN) {
        Some((end, _)) => format!("{}\n… and {} bytes more", &text[..end], text.len() - end),
        None => text.to_owned(),
    }
}

/// Where an untrusted answer came from.
pub(crate) fn source(tool: &dyn Tool, answer: &Value) -> String {
    let name = &tool.spec().name;
    match answer.get("url").and_then(Value::as_str) {
        Some(url) => format!("{name} of {url}"),
        None => format!("from {name}"),
    }
}

/// ADK's clients show this text and answer with the call that it names.
pub(crate) fn plain_question(name: &str) -> ToolConfirmation {
    let hint = format!(
        "Please approve or reject the tool call {name}() by responding with a FunctionResponse with an expected ToolConfirmation payload."
    );
    ToolConfirmation { hint, confirmed: false, payload: None }
}
