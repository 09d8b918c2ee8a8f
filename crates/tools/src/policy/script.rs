//! The decision on a shell script: each simple command gets a verdict, and the strictest counts.

use std::path::PathBuf;

use super::{
    Decision, PathScope, Policy, PolicyRule, Subject, Verdict, read_only,
    shell::{self, Redirection, ShellWord, SimpleCommand},
    wrappers::{self, InnerCommand},
};

/// The reason for scripts that are allowed without a rule.
pub(super) const ONLY_READS: &str = "it only reads inside the working directory";
const MAX_DEPTH: usize = 8;
/// A script that may be in more directories is not tracked further.
const MAX_DIRECTORIES: usize = 32;

/// Variables that affect only the formatting of output.
const HARMLESS_VARIABLES: [&str; 8] =
    ["LANG", "LC_ALL", "LC_CTYPE", "TZ", "NO_COLOR", "CLICOLOR", "COLUMNS", "RUST_BACKTRACE"];

/// Shell builtins that change the meaning of later commands or run text that cannot be inspected. Only a rule for the whole
/// tool allows them.
const DANGEROUS_BUILTINS: [&str; 24] = [
    "eval", "source", ".", "alias", "unalias", "trap", "set", "shopt", "enable", "hash", "export", "declare",
    "typeset", "readonly", "local", "unset", "builtin", "bind", "complete", "fc", "read", "getopts",
    "mapfile", "umask",
];

/// Programs with subcommands: "always" stores a rule for the subcommand.
const HAVE_SUBCOMMANDS: [&str; 16] = [
    "cargo", "git", "go", "npm", "pnpm", "yarn", "bun", "pip", "uv", "poetry", "docker", "kubectl", "gh",
    "make", "just", "dotnet",
];

struct ScriptEvaluator<'a> {
    policy: &'a Policy,
    scope: &'a PathScope,
    /// Directories that the script may be in, because of `cd`.
    directories: Vec<PathBuf>,
    /// A rule allows all commands; only denials count.
    is_open: bool,
    depth: usize,
}

/// The verdict on one command.
struct CommandVerdict {
    decision: Decision,
    reason: String,
    /// Allowed because it only reads, and not by a rule.
    is_read_only: bool,
    /// The rule that would allow it.
    always: Option<PolicyRule>,
}

impl CommandVerdict {
    fn allow(reason: impl Into<String>) -> Self {
        Self { decision: Decision::Allow, reason: reason.into(), is_read_only: false, always: None }
    }

    fn read_only() -> Self {
        Self { is_read_only: true, ..Self::allow(ONLY_READS) }
    }

    fn ask(reason: impl Into<String>) -> Self {
        Self { decision: Decision::Ask, reason: reason.into(), is_read_only: false, always: None }
    }
}

/// Decides on a script. `base` is the verdict on the tool that runs it.
pub(super) fn decide(policy: &Policy, text: &str, base: &Verdict, scope: &PathScope) -> Verdict {
    let is_open = base.decision == Decision::Allow;
    let commands = match shell::parse(text) {
        Ok(commands) => commands,
        Err(why) => return decide_unparsed(policy, is_open, base, &why),
    };
    let evaluator = ScriptEvaluator { policy, scope, directories: vec![PathBuf::new()], is_open, depth: 0 };
    let verdicts = evaluator.evaluate_script(&commands);
    let decision = verdicts.iter().map(|(_, verdict)| verdict.decision).max().unwrap_or(Decision::Ask);
    let reasons: Vec<String> = verdicts
        .iter()
        .filter(|(_, verdict)| verdict.decision == decision)
        .map(|(at, verdict)| with_position(&verdict.reason, *at, commands.len(), decision))
        .collect();
    let not_allowed = || verdicts.iter().filter(|(_, verdict)| verdict.decision != Decision::Allow);
    let can_be_stored =
        decision == Decision::Ask && not_allowed().all(|(_, verdict)| verdict.always.is_some());
    let mut always: Vec<PolicyRule> =
        not_allowed().filter_map(|(_, verdict)| verdict.always.clone()).collect();
    always.dedup();
    // The rule is the reason, not the read-only commands of the same script.
    let by_rule = || verdicts.iter().find(|(_, verdict)| !verdict.is_read_only);
    let is_read_only = decision == Decision::Allow && by_rule().is_none();
    let reason = match decision {
        _ if reasons.is_empty() => "it contains no command".to_owned(),
        Decision::Allow => by_rule().map_or(ONLY_READS, |(_, verdict)| &verdict.reason).to_owned(),
        Decision::Ask | Decision::Deny => reasons.join("; "),
    };
    Verdict { decision, reason, is_read_only, always: if can_be_stored { always } else { Vec::new() } }
}

/// The verdict on a script that cannot be parsed. If any command is denied, the script may contain it, so it asks even if a
/// rule allows all commands.
fn decide_unparsed(policy: &Policy, is_open: bool, base: &Verdict, why: &shell::ShellParseError) -> Verdict {
    let denies = policy.rules.iter().any(|rule| {
        rule.decision == Decision::Deny && matches!(rule.subject, Subject::Command(_) | Subject::Exactly(_))
    });
    if is_open && !denies {
        return base.clone();
    }
    Verdict::new(Decision::Ask, format!("the command cannot be analysed: it {why}"))
}

/// Adds the position of the command to a reason, unless the script has only one.
fn with_position(reason: &str, at: usize, count: usize, decision: Decision) -> String {
    if count == 1 || decision == Decision::Allow {
        return reason.to_owned();
    }
    format!("{reason} (command {} of {count})", at + 1)
}

/// The directories that a script may be in if it starts in one of `from`; `None` if its uses of `cd` cannot be tracked.
fn track_directories(from: &[PathBuf], commands: &[SimpleCommand]) -> Option<Vec<PathBuf>> {
    let mut all = from.to_vec();
    for simple in commands {
        let [name, target] = simple.words.as_slice() else { continue };
        if let (Some("cd"), Some(target)) = (name.known(), target.known()) {
            if simple.in_loop || all.len() > MAX_DIRECTORIES {
                return None;
            }
            let next: Vec<PathBuf> = all.iter().map(|dir| dir.join(target)).collect();
            all.extend(next);
        }
    }
    Some(all)
}

impl ScriptEvaluator<'_> {
    /// Verdicts on all commands, each with its position. Paths are checked in every directory that the script may be in.
    fn evaluate_script(&self, commands: &[SimpleCommand]) -> Vec<(usize, CommandVerdict)> {
        if let Some(directories) = track_directories(&self.directories, commands) {
            return ScriptEvaluator { directories, ..*self }.evaluate_commands(commands);
        }
        let untracked = self.unless_open("it changes directories in ways that cannot be tracked".to_owned());
        self.evaluate_commands(commands).into_iter().chain([(0, untracked)]).collect()
    }

    fn evaluate_commands(&self, commands: &[SimpleCommand]) -> Vec<(usize, CommandVerdict)> {
        let all = commands.iter().enumerate();
        all.flat_map(|(at, simple)| self.evaluate(simple).into_iter().map(move |verdict| (at, verdict)))
            .collect()
    }

    fn evaluate(&self, simple: &SimpleCommand) -> Vec<CommandVerdict> {
        let mut verdicts = Vec::new();
        // A shell variable is not exported. By convention, variables that programs read are in upper case.
        let is_local =
            |name: &str| simple.words.is_empty() && !name.contains(|c: char| c.is_ascii_uppercase());
        let is_harmless = |name: &String| HARMLESS_VARIABLES.contains(&name.as_str()) || is_local(name);
        for name in simple.assigns.iter().filter(|name| !is_harmless(name)) {
            verdicts.push(self.unless_open(format!("the variable `{name}` may change what a command does")));
        }
        verdicts.extend(simple.redirects.iter().filter_map(|redirect| self.evaluate_redirection(redirect)));
        if simple.words.is_empty() {
            verdicts.push(CommandVerdict::read_only());
        } else {
            verdicts.extend(self.evaluate_words(&simple.words));
        }
        verdicts
    }

    fn unless_open(&self, reason: String) -> CommandVerdict {
        if self.is_open {
            CommandVerdict::allow("a rule allows all commands")
        } else {
            CommandVerdict::ask(reason)
        }
    }

    fn evaluate_redirection(&self, redirect: &Redirection) -> Option<CommandVerdict> {
        let target = &redirect.target;
        if target.known() == Some("/dev/null") {
            return None;
        }
        if self.is_open {
            return redirect.writes.then(|| CommandVerdict::allow("a rule allows all commands"));
        }
        if let Some(why) = self.scope.outside(target, &self.directories) {
            let verb = if redirect.writes { "writes to" } else { "reads" };
            return Some(CommandVerdict::ask(format!("a redirection {verb} a file, and {why}")));
        }
        if !redirect.writes {
            return None;
        }
        if let Some(why) = self.scope.sensitive(target, &self.directories) {
            return Some(CommandVerdict::ask(why));
        }
        // The shell decides what a glob pattern expands to.
        if self.policy.may_write() && target.known().is_some() {
            return Some(CommandVerdict::allow("a rule allows writing"));
        }
        Some(CommandVerdict::ask(format!("a redirection writes to `{}`", target.raw)))
    }

    /// Verdicts on a command and on the commands that it starts.
    fn evaluate_words(&self, words: &[ShellWord]) -> Vec<CommandVerdict> {
        let Some(name) = words.first().and_then(ShellWord::known) else {
            let raw = words.first().map_or("", |word| &word.raw);
            return vec![
                self.unless_open(format!("the name of the command is known only at run time (`{raw}`)")),
            ];
        };
        let own = self.evaluate_own(name, words);
        let inner = match wrappers::inner_command(name, words) {
            InnerCommand::Nothing => return vec![own],
            InnerCommand::Unknown(why) => vec![self.unless_open(why)],
            InnerCommand::Commands(commands) => {
                self.nested(|inner| commands.iter().flat_map(|words| inner.evaluate_words(words)).collect())
            }
            InnerCommand::Script(script) => self.nested(|inner| inner.evaluate_inner_script(name, &script)),
        };
        // A rule for the exact command line covers the inner command, too.
        if own.decision == Decision::Deny
            || self.find_rule(words).is_some_and(|rule| is_exact(rule, Decision::Allow))
        {
            return vec![own];
        }
        let needs_own = !wrappers::is_transparent(name);
        inner.into_iter().chain(needs_own.then_some(own)).collect()
    }

    fn nested(
        &self,
        evaluate: impl FnOnce(&ScriptEvaluator<'_>) -> Vec<CommandVerdict>,
    ) -> Vec<CommandVerdict> {
        if self.depth >= MAX_DEPTH {
            return vec![CommandVerdict::ask("commands are nested too deeply")];
        }
        let Self { policy, scope, is_open, depth, .. } = *self;
        evaluate(&ScriptEvaluator {
            policy,
            scope,
            directories: self.directories.clone(),
            is_open,
            depth: depth + 1,
        })
    }

    fn evaluate_inner_script(&self, name: &str, script: &str) -> Vec<CommandVerdict> {
        match shell::parse(script) {
            Ok(commands) => self.evaluate_script(&commands).into_iter().map(|(_, verdict)| verdict).collect(),
            Err(why) => {
                vec![CommandVerdict::ask(format!("the script for `{name}` cannot be analysed: it {why}"))]
            }
        }
    }

    /// The verdict on a command itself, without the commands that it starts.
    fn evaluate_own(&self, name: &str, words: &[ShellWord]) -> CommandVerdict {
        let rule = self.find_rule(words);
        if let Some(rule) = rule.filter(|rule| rule.decision == Decision::Deny) {
            return CommandVerdict {
                decision: Decision::Deny,
                is_read_only: false,
                reason: format!("a rule says: {rule}"),
                always: None,
            };
        }
        if self.is_open {
            return CommandVerdict::allow("a rule allows all commands");
        }
        if DANGEROUS_BUILTINS.contains(&name) {
            return CommandVerdict::ask(format!(
                "`{name}` can change the meaning of other commands or run text that cannot be inspected"
            ));
        }
        if !name.is_ascii() {
            return CommandVerdict::ask(format!("`{name}` has non-ASCII letters, which may imitate others"));
        }
        let applies =
            |rule: &&PolicyRule| !wrappers::is_wrapper(name) || matches!(rule.subject, Subject::Exactly(_));
        match rule.filter(applies) {
            Some(rule) if rule.decision == Decision::Allow => {
                return CommandVerdict::allow(format!("a rule says: {rule}"));
            }
            Some(rule) => {
                return CommandVerdict {
                    always: None,
                    ..CommandVerdict::ask(format!("a rule says: {rule}"))
                };
            }
            None => {}
        }
        let why = match read_only::check(words, self.scope, &self.directories) {
            Ok(()) => return CommandVerdict::read_only(),
            Err(why) => why,
        };
        CommandVerdict { always: narrowest_rule(name, words), ..CommandVerdict::ask(why) }
    }

    /// The rule that applies to a command: a denial if there is one, else the most specific rule.
    fn find_rule(&self, words: &[ShellWord]) -> Option<&PolicyRule> {
        let all = || self.policy.rules.iter();
        let denial = all().find(|rule| rule.decision == Decision::Deny && matches_command(rule, words));
        let most_specific =
            all().filter(|rule| matches_command(rule, words)).max_by_key(|rule| specificity(rule));
        denial.or(most_specific)
    }
}

fn is_exact(rule: &PolicyRule, decision: Decision) -> bool {
    rule.decision == decision && matches!(rule.subject, Subject::Exactly(_))
}

fn specificity(rule: &PolicyRule) -> usize {
    match &rule.subject {
        Subject::Command(words) => words.len(),
        Subject::Exactly(_) => usize::MAX,
        Subject::Class(_) | Subject::Tool(_) => 0,
    }
}

fn matches_command(rule: &PolicyRule, words: &[ShellWord]) -> bool {
    let (pattern, is_exact) = match &rule.subject {
        Subject::Command(pattern) => (pattern, false),
        Subject::Exactly(pattern) => (pattern, true),
        Subject::Class(_) | Subject::Tool(_) => return false,
    };
    if pattern.is_empty() || words.len() < pattern.len() || (is_exact && words.len() != pattern.len()) {
        return false;
    }
    let same = |(at, (wanted, word)): (usize, (&String, &ShellWord))| {
        let Some(text) = word.known() else { return false };
        // A denial of `rm` also denies `/bin/rm`; a permission requires the exact word.
        let file = text.rsplit('/').next().unwrap_or(text);
        text == wanted || (at == 0 && rule.decision == Decision::Deny && file == wanted)
    };
    pattern.iter().zip(words).enumerate().all(same)
}

/// The rule that "always" stores: for the subcommand if there is one, else for the exact command line.
fn narrowest_rule(name: &str, words: &[ShellWord]) -> Option<PolicyRule> {
    let known: Option<Vec<String>> = words.iter().map(|word| word.known().map(str::to_owned)).collect();
    let allow = |subject| Some(PolicyRule::new(subject, Decision::Allow));
    if HAVE_SUBCOMMANDS.contains(&name) {
        let count = if words.get(1).and_then(ShellWord::known) == Some("run") { 3 } else { 2 };
        let prefix: Vec<String> =
            words.iter().take(count).map_while(|word| word.known().map(str::to_owned)).collect();
        let is_plain = |word: &String| !word.starts_with('-') && !word.contains('=');
        if prefix.len() == count && prefix[1..].iter().all(is_plain) {
            return allow(Subject::Command(prefix));
        }
    }
    allow(Subject::Exactly(known?))
}
