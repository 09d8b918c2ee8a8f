//! Decides whether a call may run, from the policy, the stored rules of the user, and whether the conversation
//! contains untrusted text.

use adk::{
    event::ToolConfirmation,
    runner::{Input, RunRequest},
    tool::ToolContext,
};
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use tools::{
    AppUser, Mask, RuleBook, SandboxAccess, SandboxProfile, Tool,
    policy::{Decision, PathScope, Policy, PolicyRequest, PolicyRule, Verdict},
};

/// State key that names the source of untrusted text. It is committed with the tool result that contains the text,
/// and remains set after the result has left the window.
pub const UNTRUSTED: &str = "lango:untrusted";

/// State key that marks the author of the last message as a user of a server who is not an administrator. It is
/// committed with the message.
pub const GUEST: &str = "lango:guest";

/// Maximum length of a preview in an approval question, in characters.
const MAX_PREVIEW: usize = 8_000;

/// Decides on the calls of an app's tools.
#[derive(Debug)]
pub struct Guard {
    policy: Policy,
    book: RuleBook,
    /// The directories that commands may access, with links resolved; the first is the working directory.
    roots: Vec<PathBuf>,
    mask: Mask,
    /// No person can approve calls.
    unattended: bool,
    /// Whether users of a server may approve calls; otherwise only administrators may.
    users_decide: bool,
}

/// The decision on a call.
pub(crate) enum GuardDecision {
    /// The processes of the call get this access.
    Run(SandboxAccess),
    Ask(ToolConfirmation),
    /// The error for the model.
    Refuse(String),
}

impl Guard {
    pub fn new(policy: Policy, book: RuleBook, roots: Vec<PathBuf>, mask: Mask) -> Self {
        Self { policy, book, roots, mask, unattended: false, users_decide: false }
    }

    /// Allows users of a server to approve calls on the server's machine.
    pub fn users_decide(self, decide: bool) -> Self {
        Self { users_decide: decide, ..self }
    }

    /// Refuses calls that require approval, because no person can approve them.
    pub fn unattended(self) -> Self {
        Self { unattended: true, ..self }
    }

    pub(crate) fn mask(&self) -> &Mask {
        &self.mask
    }

    /// Whether the question would go to a user who may not approve.
    fn is_for_guest(&self, context: &ToolContext) -> bool {
        !self.users_decide && context.state(GUEST) == Some(Value::Bool(true))
    }

    /// Decides on a call. A person's confirmation counts unless the policy denies the call or the person may not
    /// approve it.
    pub(crate) fn admit(
        &self,
        tool: &dyn Tool,
        args: &Map<String, Value>,
        context: &ToolContext,
    ) -> GuardDecision {
        let verdict = with_review(tool, self.verdict(tool, args, context));
        if verdict.decision == Decision::Ask && self.is_for_guest(context) {
            return GuardDecision::Refuse(administrator_required(&verdict));
        }
        let asks = verdict.decision == Decision::Ask || tool.spec().confirm;
        if asks && verdict.decision != Decision::Deny && context.confirmation.is_none() && self.unattended {
            return GuardDecision::Refuse(approval_unavailable(tool, &verdict));
        }
        match (verdict.decision, &context.confirmation) {
            (Decision::Deny, _) => {
                GuardDecision::Refuse(format!("this call is not allowed: {}", verdict.reason))
            }
            (Decision::Allow | Decision::Ask, None) if tool.spec().confirm => {
                GuardDecision::Ask(plain_question(&tool.spec().name))
            }
            (Decision::Allow, answer) => GuardDecision::Run(access(&verdict, answer.is_some())),
            (Decision::Ask, None) => GuardDecision::Ask(self.question(tool, args, &verdict)),
            (Decision::Ask, Some(answer)) => {
                if approves_always(answer) {
                    // If the rule cannot be stored, the next such call asks again.
                    let _ = self.book.add(&owner(context), &verdict.always);
                }
                GuardDecision::Run(access(&verdict, true))
            }
        }
    }

    /// Stored rules only allow, so that they are consulted only if the policy would ask.
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
            hint += truncated(&preview).trim_end();
        }
        let can_be_stored = !verdict.always.is_empty();
        if can_be_stored {
            let rules: Vec<String> = verdict.always.iter().map(PolicyRule::to_string).collect();
            hint = format!("{hint}\n\nTo allow this permanently, the rule would be: {}.", rules.join("; "));
        }
        let payload = can_be_stored.then(|| json!({"always": false}));
        ToolConfirmation { hint: self.mask.apply(hint), confirmed: false, payload }
    }
}

/// The access of a call that runs. Protected paths are granted by a person only.
fn access(verdict: &Verdict, approved: bool) -> SandboxAccess {
    let profile = if verdict.is_read_only { SandboxProfile::ReadOnly } else { SandboxProfile::Workspace };
    SandboxAccess { profile, protected: approved }
}

/// A tool definition that no person has reviewed requires approval, whatever the rules allow.
fn with_review(tool: &dyn Tool, verdict: Verdict) -> Verdict {
    match tool.review_reason().filter(|_| verdict.decision != Decision::Deny) {
        Some(reason) => Verdict::new(Decision::Ask, reason),
        None => verdict,
    }
}

fn administrator_required(verdict: &Verdict) -> String {
    format!(
        "this call was not run: {}, and on this server only an administrator may approve that. An administrator can allow it by \
         a rule in [approval] of lango.toml, or let users decide with `users = \"ask\"` there",
        verdict.reason
    )
}

fn approval_unavailable(tool: &dyn Tool, verdict: &Verdict) -> String {
    let why = match verdict.decision {
        Decision::Ask => verdict.reason.clone(),
        Decision::Allow | Decision::Deny => format!("`{}` is confirmed each time", tool.spec().name),
    };
    format!("this call was not run: {why}, and no one is available to approve it")
}

/// Marks the message as not a guest's, unless the server has marked it already. A resumed run keeps the mark of its
/// first message.
pub(crate) fn with_guest_mark(mut request: RunRequest) -> RunRequest {
    if request.input != Input::Resume {
        request.state_delta.entry(GUEST).or_insert(Value::Bool(false));
    }
    request
}

/// Whether a person approved this and all further calls.
fn approves_always(answer: &ToolConfirmation) -> bool {
    answer.payload.as_ref().and_then(|payload| payload.get("always")) == Some(&Value::Bool(true))
}

pub(crate) fn owner(context: &ToolContext) -> AppUser {
    AppUser { app: context.session.app_name.clone(), user: context.session.user_id.clone() }
}

fn truncated(text: &str) -> String {
    match text.char_indices().nth(MAX_PREVIEW) {
        Some((end, _)) => format!("{}\n… and {} bytes more", &text[..end], text.len() - end),
        None => text.to_owned(),
    }
}

/// The source of an untrusted result.
pub(crate) fn source(tool: &dyn Tool, answer: &Value) -> String {
    let name = &tool.spec().name;
    match answer.get("url").and_then(Value::as_str) {
        Some(url) => format!("{name} of {url}"),
        None => format!("from {name}"),
    }
}

/// ADK's clients show this text and answer the call that it names.
pub(crate) fn plain_question(name: &str) -> ToolConfirmation {
    let hint = format!(
        "Please approve or reject the tool call {name}() by responding with a FunctionResponse with an expected ToolConfirmation payload."
    );
    ToolConfirmation { hint, confirmed: false, payload: None }
}
