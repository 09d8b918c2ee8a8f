//! Decides whether a call may run, from the policy, the approval mode, the stored rules of the user and the session, and whether
//! the conversation contains untrusted text.

use super::{
    hint::{ALWAYS, ApprovalHint, SESSION},
    mode::ModeSwitch,
};
use adk::{
    event::ToolConfirmation,
    runner::{Input, RunRequest},
    tool::ToolContext,
};
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use tools::{
    AppUser, Mask, RuleBook, Safety, SandboxAccess, SandboxProfile, Tool,
    policy::{
        self, CommandSandbox, Decision, LazyCommandSandbox, PathScope, PlacedRule, Policy, PolicyRequest,
        PolicyRule, ProtectedPaths, RulePlace, SandboxCapability, SearchPath, StoredRule, Verdict,
    },
};

/// State key that names the source of untrusted text. It is committed with the tool result that contains the text,
/// and remains set after the result has left the window.
pub const UNTRUSTED: &str = "lango:untrusted";

/// State key that marks the author of the last message as a user of a server who is not an administrator. It is
/// committed with the message.
pub const GUEST: &str = "lango:guest";

/// Prefix of the state keys of the rules that apply in this session only. The rest is the id of the call that stored them, so
/// that calls of one step do not replace each other's rules.
const SESSION_RULES: &str = "lango:rules:";

/// Maximum length of a preview in an approval question, in bytes. A person sees all of what is shorter.
const MAX_PREVIEW: usize = 1_000_000;

/// Decides on the calls of an app's tools.
#[derive(Debug)]
pub struct Guard {
    policy: Policy,
    book: RuleBook,
    /// The directories that commands may access, with links resolved; the first is the working directory.
    roots: Vec<PathBuf>,
    mask: Mask,
    mode: ModeSwitch,
    sandbox: LazyCommandSandbox,
    protected: ProtectedPaths,
    search_path: SearchPath,
    /// No person can approve calls.
    unattended: bool,
    /// Whether users of a server may approve calls; otherwise only administrators may.
    users_decide: bool,
}

/// The decision on a call.
pub(crate) enum GuardDecision {
    /// The access of the call's processes, and whether its result may contain text from the network.
    Run {
        sandbox: SandboxAccess,
        is_untrusted: bool,
    },
    Ask(ToolConfirmation),
    /// The error for the model.
    Refuse(String),
}

/// What the policy says about a call, and where a rule for it would apply.
struct Evaluation {
    verdict: Verdict,
    place: RulePlace,
    /// The rule of an older version that allowed the call.
    outdated: Option<StoredRule>,
    is_untrusted: bool,
}

impl Guard {
    pub fn new(policy: Policy, book: RuleBook, roots: Vec<PathBuf>, mask: Mask) -> Self {
        let unknown = || CommandSandbox::new(SandboxCapability::none());
        Self {
            policy,
            book,
            roots,
            mask,
            mode: ModeSwitch::default(),
            sandbox: LazyCommandSandbox::new(unknown),
            protected: ProtectedPaths::default(),
            search_path: SearchPath::default(),
            unattended: false,
            users_decide: false,
        }
    }

    /// Allows users of a server to approve calls on the server's machine.
    pub fn users_decide(self, decide: bool) -> Self {
        Self { users_decide: decide, ..self }
    }

    /// Refuses calls that require approval, because no person can approve them.
    pub fn unattended(self) -> Self {
        Self { unattended: true, ..self }
    }

    pub fn with_mode(self, mode: ModeSwitch) -> Self {
        Self { mode, ..self }
    }

    /// The sandbox of commands, the paths that are protected from them, and their `PATH`.
    pub fn with_sandbox(
        self,
        sandbox: LazyCommandSandbox,
        protected: ProtectedPaths,
        search_path: SearchPath,
    ) -> Self {
        Self { sandbox, protected, search_path, ..self }
    }

    pub(crate) fn mask(&self) -> &Mask {
        &self.mask
    }

    /// The sandbox, which must be probed on a blocking thread before a call that acts is decided on.
    pub(crate) fn sandbox_to_probe(&self, tool: &dyn Tool) -> Option<LazyCommandSandbox> {
        needs_sandbox(tool).then(|| self.sandbox.clone())
    }

    /// Whether the question would go to a user who may not approve.
    fn is_for_guest(&self, context: &ToolContext) -> bool {
        !self.users_decide && is_guest(context)
    }

    /// Decides on a call. A person's confirmation counts unless the policy denies the call or the person may not
    /// approve it.
    pub(crate) fn admit(
        &self,
        tool: &dyn Tool,
        args: &Map<String, Value>,
        context: &ToolContext,
    ) -> GuardDecision {
        let evaluation = self.evaluate(tool, args, context);
        let verdict = &evaluation.verdict;
        if verdict.decision == Decision::Ask && self.is_for_guest(context) {
            return GuardDecision::Refuse(administrator_required(verdict));
        }
        let asks = verdict.decision == Decision::Ask || tool.spec().confirm;
        if asks && verdict.decision != Decision::Deny && context.confirmation.is_none() && self.unattended {
            return GuardDecision::Refuse(approval_unavailable(tool, verdict));
        }
        match (verdict.decision, &context.confirmation) {
            (Decision::Deny, _) => GuardDecision::Refuse(denial(verdict)),
            (Decision::Allow | Decision::Ask, None) if tool.spec().confirm => {
                GuardDecision::Ask(plain_question(&tool.spec().name))
            }
            (Decision::Allow, _) => evaluation.run(),
            (Decision::Ask, None) => GuardDecision::Ask(self.question(tool, args, &evaluation, context)),
            (Decision::Ask, Some(answer)) => {
                self.store_rules(answer, &evaluation, context);
                evaluation.run()
            }
        }
    }

    /// Stored rules only allow, so that they are consulted only if the policy would ask.
    fn evaluate(&self, tool: &dyn Tool, args: &Map<String, Value>, context: &ToolContext) -> Evaluation {
        let workdir = args.get("workdir").and_then(Value::as_str).unwrap_or_default();
        let scope = PathScope::on_disk(self.roots.clone(), workdir.as_ref())
            .with_protected(self.protected.clone())
            .with_search_path(self.search_path.clone());
        let (target, source) = (tool.target(args), context.state(UNTRUSTED));
        let unprobed = CommandSandbox::new(SandboxCapability::none());
        let sandbox = if needs_sandbox(tool) { self.sandbox.get() } else { &unprobed };
        let request = PolicyRequest {
            target: target.as_deref(),
            tainted_by: source.as_ref().and_then(Value::as_str),
            mode: self.mode.of_session(context),
            ..PolicyRequest::new(tool.spec(), args, sandbox)
        };
        let folder = self.roots.first().cloned().unwrap_or_default();
        let workdir = if request.runs_script() { scope.resolved_workdir() } else { folder.clone() };
        let place = RulePlace { folder, workdir };
        let (verdict, outdated) = self.with_stored_rules((&request, &scope), &place, context);
        let verdict = with_review(tool, verdict);
        // An earlier script had the widest profile, for all that is known here.
        let ran_in = if request.runs_script() { profile(&verdict) } else { SandboxProfile::Workspace };
        let reaches_network = !sandbox.blocks_network(ran_in);
        let handle = args.get("handle").and_then(Value::as_str);
        let is_untrusted = request.returns_script_output() && reaches_network
            || handle.is_some_and(tools::is_untrusted_handle);
        Evaluation { verdict, place, outdated, is_untrusted }
    }

    fn with_stored_rules(
        &self,
        (request, scope): (&PolicyRequest<'_>, &PathScope),
        place: &RulePlace,
        context: &ToolContext,
    ) -> (Verdict, Option<StoredRule>) {
        let verdict = self.policy.decide(request, scope);
        if verdict.decision != Decision::Ask || self.is_for_guest(context) {
            return (verdict, None);
        }
        let (bound, outdated): (Vec<StoredRule>, Vec<StoredRule>) = self
            .book
            .rules_of(&owner(context))
            .unwrap_or_default()
            .into_iter()
            .partition(|rule| rule.place.is_some());
        let bound =
            bound.into_iter().filter(|stored| stored.place.as_ref() == Some(place)).map(|stored| stored.rule);
        let of_session =
            session_rules(context).into_iter().filter(|rule| rule.place == *place).map(|rule| rule.rule);
        let stored: Vec<PolicyRule> = bound.chain(of_session).collect();
        let request = PolicyRequest { stored: &stored, ..*request };
        let verdict = self.policy.decide(&request, scope);
        if verdict.decision != Decision::Ask {
            return (verdict, None);
        }
        let allowed = |old: &StoredRule| {
            let rules = self.policy.rules.iter().cloned().chain([old.rule.clone()]).collect();
            Policy { rules }.decide(&request, scope).decision == Decision::Allow
        };
        let outdated = outdated.into_iter().find(allowed);
        (verdict, outdated)
    }

    /// Stores the rules that the person's answer selects. If they cannot be stored, the next such call asks again.
    fn store_rules(&self, answer: &ToolConfirmation, evaluation: &Evaluation, context: &ToolContext) {
        let selects = |key: &str| {
            answer.payload.as_ref().and_then(|payload| payload.get(key)) == Some(&Value::Bool(true))
        };
        let Evaluation { verdict, place, outdated, .. } = evaluation;
        if selects(ALWAYS) && may_store_for_folder(context) {
            let replaced: Vec<String> = outdated.iter().map(|rule| rule.id.clone()).collect();
            let _ = self.book.add(&owner(context), place, (&verdict.offered, &replaced));
        } else if selects(SESSION) {
            let known = session_rules(context);
            let new =
                verdict.offered.iter().map(|rule| PlacedRule { rule: rule.clone(), place: place.clone() });
            let new: Vec<PlacedRule> = new.filter(|rule| !known.contains(rule)).collect();
            context.set_state(format!("{SESSION_RULES}{}", context.call_id), json!(new));
        }
    }

    fn question(
        &self,
        tool: &dyn Tool,
        args: &Map<String, Value>,
        evaluation: &Evaluation,
        context: &ToolContext,
    ) -> ToolConfirmation {
        let Evaluation { verdict, outdated, .. } = evaluation;
        let confirm = |StoredRule { id, rule, .. }: &StoredRule| {
            format!(
                " The rule {id} of an older version ({rule}) allowed it everywhere; answer \"always\" to allow it in this folder."
            )
        };
        let outdated = outdated.as_ref().map(confirm).unwrap_or_default();
        let question = format!("May {} run? It asks because {}.{outdated}", tool.spec().name, verdict.reason);
        let preview = tool.preview(args).map(|preview| truncated(&preview).trim_end().to_owned());
        let rules: Vec<String> = verdict.offered.iter().map(PolicyRule::to_string).collect();
        let can_be_stored = !rules.is_empty();
        let text = format!("For this session or folder, the rule would be: {}.", rules.join("; "));
        let hint = ApprovalHint {
            question: self.mask.apply(question),
            preview: preview.map(|preview| self.mask.apply(preview)),
            rules: can_be_stored.then(|| self.mask.apply(text)),
            session: can_be_stored,
            always: can_be_stored && may_store_for_folder(context),
        };
        hint.into_confirmation()
    }
}

impl Evaluation {
    /// The call runs. Only a person's approval grants protected paths, and the policy asks for each.
    fn run(self) -> GuardDecision {
        let sandbox = SandboxAccess { profile: profile(&self.verdict), protected: self.verdict.protected };
        GuardDecision::Run { sandbox, is_untrusted: self.is_untrusted }
    }
}

/// Whether the decision on a call depends on the sandbox.
fn needs_sandbox(tool: &dyn Tool) -> bool {
    tool.spec().safety != Safety::Read || policy::returns_earlier_output(tool.spec())
}

fn profile(verdict: &Verdict) -> SandboxProfile {
    if verdict.is_read_only { SandboxProfile::ReadOnly } else { SandboxProfile::Workspace }
}

fn is_guest(context: &ToolContext) -> bool {
    context.state(GUEST) == Some(Value::Bool(true))
}

/// On a server, only administrators store rules for a folder.
fn may_store_for_folder(context: &ToolContext) -> bool {
    !is_guest(context)
}

fn session_rules(context: &ToolContext) -> Vec<PlacedRule> {
    let stored = context.state_with_prefix(SESSION_RULES).into_iter();
    stored.flat_map(|rules| serde_json::from_value::<Vec<PlacedRule>>(rules).unwrap_or_default()).collect()
}

/// A tool definition that no person has reviewed requires approval, whatever the rules allow.
fn with_review(tool: &dyn Tool, verdict: Verdict) -> Verdict {
    match tool.review_reason().filter(|_| verdict.decision != Decision::Deny) {
        Some(reason) => Verdict::new(Decision::Ask, reason),
        None => verdict,
    }
}

fn denial(verdict: &Verdict) -> String {
    match &verdict.remedy {
        Some(remedy) => format!("this call was not run: {}; {remedy}", verdict.reason),
        None => format!("this call is not allowed: {}", verdict.reason),
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

pub(crate) fn owner(context: &ToolContext) -> AppUser {
    AppUser { app: context.session.app_name.clone(), user: context.session.user_id.clone() }
}

fn truncated(text: &str) -> String {
    if text.len() <= MAX_PREVIEW {
        return text.to_owned();
    }
    let (shown, rest) = text.split_at(text.floor_char_boundary(MAX_PREVIEW));
    format!("{shown}\n[… {} lines are not shown, {} bytes …]", rest.lines().count(), rest.len())
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
