//! The decision on a shell script: each simple command gets a verdict, and the strictest counts.

use std::path::PathBuf;

use super::{
    ApprovalMode, Decision, PathScope, Policy, PolicyRequest, PolicyRule, Subject, Verdict, command_rules,
    command_verdict::{CommandVerdict, git_settings},
    network, read_only,
    shell::{self, Redirection, ShellWord, SimpleCommand},
    wrappers::{self, InnerCommand},
    write_targets,
};
use crate::SandboxProfile;

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

struct ScriptEvaluator<'a> {
    policy: &'a Policy,
    request: &'a PolicyRequest<'a>,
    scope: &'a PathScope,
    /// Directories that the script may be in, because of `cd`.
    directories: Vec<PathBuf>,
    /// The stored rules that apply to single commands; none if the script changes its directory.
    stored: &'a [PolicyRule],
    /// A rule allows all commands; only denials and protected paths count.
    is_open: bool,
    depth: usize,
}

/// Decides on a script. `base` is the verdict on the tool that runs it.
pub(super) fn decide(
    policy: &Policy,
    (text, request): (&str, &PolicyRequest<'_>),
    base: &Verdict,
    scope: &PathScope,
) -> Verdict {
    let is_open = base.decision == Decision::Allow;
    let commands = match shell::parse(text) {
        Ok(commands) => commands,
        Err(why) => return decide_unparsed(policy, is_open, base, &why),
    };
    let changes_directory = command_rules::changes_directory(&commands);
    let stored = if changes_directory { &[] } else { request.stored };
    let directories = vec![PathBuf::new()];
    let evaluator = ScriptEvaluator { policy, request, scope, directories, stored, is_open, depth: 0 };
    let mut verdicts = evaluator.evaluate_script(&commands);
    let is_firm = verdicts.iter().any(|(_, verdict)| verdict.is_firm);
    let by_script = command_rules::for_script(request.stored, text).filter(|_| !is_firm);
    for (_, verdict) in &mut verdicts {
        verdict.settle(request.mode == ApprovalMode::Auto, by_script);
    }
    combine(text, &verdicts, commands.len(), changes_directory)
}

/// The strictest verdict.
fn combine(
    text: &str,
    verdicts: &[(usize, CommandVerdict)],
    count: usize,
    changes_directory: bool,
) -> Verdict {
    let decision = verdicts.iter().map(|(_, verdict)| verdict.decision).max().unwrap_or(Decision::Ask);
    let deciding = || verdicts.iter().filter(|(_, verdict)| verdict.decision == decision);
    let reasons: Vec<String> =
        deciding().map(|(at, verdict)| with_position(&verdict.reason, *at, count, decision)).collect();
    // The rule is the reason, not the read-only commands of the same script.
    let by_rule = || verdicts.iter().find(|(_, verdict)| !verdict.is_read_only);
    let reason = match decision {
        _ if reasons.is_empty() => "it contains no command".to_owned(),
        Decision::Allow => by_rule().map_or(ONLY_READS, |(_, verdict)| &verdict.reason).to_owned(),
        Decision::Ask | Decision::Deny => reasons.join("; "),
    };
    Verdict {
        is_read_only: decision == Decision::Allow && by_rule().is_none(),
        offered: if decision == Decision::Ask {
            offered(text, verdicts, changes_directory)
        } else {
            Vec::new()
        },
        protected: verdicts.iter().flat_map(|(_, verdict)| verdict.protected.clone()).collect(),
        remedy: deciding().find_map(|(_, verdict)| verdict.remedy.clone()),
        ..Verdict::new(decision, reason)
    }
}

/// The rules that would allow the script: one for each command, or one for the whole script.
fn offered(text: &str, verdicts: &[(usize, CommandVerdict)], changes_directory: bool) -> Vec<PolicyRule> {
    let asking: Vec<&CommandVerdict> = verdicts
        .iter()
        .map(|(_, verdict)| verdict)
        .filter(|verdict| verdict.decision == Decision::Ask)
        .collect();
    if asking.is_empty() || asking.iter().any(|verdict| verdict.is_firm) {
        return Vec::new();
    }
    let single: Option<Vec<PolicyRule>> = asking.iter().map(|verdict| verdict.offered.clone()).collect();
    match single.filter(|_| !changes_directory) {
        Some(mut rules) => {
            rules.dedup();
            rules
        }
        None => command_rules::offered_script(text).into_iter().collect(),
    }
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
        let (sandbox, place) = (self.request.sandbox, (self.scope, self.directories.as_slice()));
        if redirect.writes {
            if let Some((why, paths)) = self.scope.protected_word(target, &self.directories) {
                return Some(CommandVerdict::protected(why, paths));
            }
            let path = write_targets::path_of(target, sandbox).filter(|_| sandbox.confines_writes());
            let unwritable = path.filter(|path| !write_targets::is_writable(path, sandbox, place));
            if let (Some(path), false) = (unwritable, self.is_open) {
                return Some(CommandVerdict::unwritable(&path.display().to_string()));
            }
        }
        if self.is_open {
            return redirect.writes.then(|| CommandVerdict::allow("a rule allows all commands"));
        }
        if let Some(why) = self.scope.outside(target, &self.directories) {
            let verb = if redirect.writes { "writes to" } else { "reads" };
            let ask = CommandVerdict::ask(format!("a redirection {verb} a file, and {why}"));
            // Such as a private temporary directory.
            let is_inside = write_targets::path_of(target, sandbox)
                .is_some_and(|path| write_targets::is_known_writable(&path, sandbox, place));
            return Some(CommandVerdict {
                is_firm: redirect.writes && target.known().is_some() && !is_inside,
                ..ask
            });
        }
        if !redirect.writes {
            return None;
        }
        // The shell decides what a glob pattern expands to.
        if target.known().is_some() {
            if self.policy.may_write() {
                return Some(CommandVerdict::allow("a rule allows writing"));
            }
            if self.request.mode.is_permissive() {
                return Some(CommandVerdict::allow(format!(
                    "the mode {} allows file edits inside the roots",
                    self.request.mode
                )));
            }
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
            InnerCommand::Stdin(why) => {
                vec![CommandVerdict { is_firm: !self.is_open, ..self.unless_open(why) }]
            }
            InnerCommand::Commands(commands) => {
                self.nested(|inner| commands.iter().flat_map(|words| inner.evaluate_words(words)).collect())
            }
            InnerCommand::Script(script) => self.nested(|inner| inner.evaluate_inner_script(name, &script)),
        };
        // A rule for the exact command line covers the inner command, too.
        let is_exact = |rule: &PolicyRule| matches!(rule.subject, Subject::Exactly(_));
        if own.decision == Decision::Deny
            || (own.decision == Decision::Allow && self.find_stored(words).is_some_and(is_exact))
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
        evaluate(&ScriptEvaluator { directories: self.directories.clone(), depth: self.depth + 1, ..*self })
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
        let rule = command_rules::configured(&self.policy.rules, words);
        if let Some(rule) = rule.filter(|rule| rule.decision == Decision::Deny) {
            return CommandVerdict::deny(format!("a rule says: {rule}"), None);
        }
        let read_only = read_only::check(words, self.scope, &self.directories);
        let is_online = || network::is_needed(words, self.scope, &self.directories);
        let blocks_network =
            self.request.sandbox.blocks_network(SandboxProfile::Workspace) && !self.is_open && rule.is_none();
        if read_only.is_err() {
            if blocks_network && is_online() {
                return CommandVerdict::without_network(name);
            }
            if let Some(verdict) = self.needs_protected(words) {
                return verdict;
            }
        }
        if self.is_open {
            let by_rule = |_| CommandVerdict::allow("a rule allows all commands");
            return read_only.map_or_else(by_rule, |()| CommandVerdict::read_only());
        }
        if DANGEROUS_BUILTINS.contains(&name) {
            return CommandVerdict::ask(format!(
                "`{name}` can change the meaning of other commands or run text that cannot be inspected"
            ));
        }
        if !name.is_ascii() {
            let why = format!("`{name}` has non-ASCII letters, which may imitate others");
            return CommandVerdict { is_firm: true, ..CommandVerdict::ask(why) };
        }
        let applies =
            |rule: &&PolicyRule| !wrappers::is_wrapper(name) || matches!(rule.subject, Subject::Exactly(_));
        match rule.filter(applies) {
            Some(rule) if rule.decision == Decision::Allow => {
                return CommandVerdict::allow(format!("a rule says: {rule}"));
            }
            Some(rule) => {
                let ask = CommandVerdict::ask(format!("a rule says: {rule}"));
                return CommandVerdict { is_firm: true, ..ask };
            }
            None => {}
        }
        match read_only {
            Ok(()) => CommandVerdict::read_only(),
            Err(why) => self.evaluate_acting(name, words, why),
        }
    }

    /// The verdict on a command that no rule of the configuration covers and that may do more than read.
    fn evaluate_acting(&self, name: &str, words: &[ShellWord], why: String) -> CommandVerdict {
        let (sandbox, place) = (self.request.sandbox, (self.scope, self.directories.as_slice()));
        if sandbox.confines_writes() {
            if wrappers::is_privileged(name) {
                return CommandVerdict::unprivileged(name);
            }
            if let Some(path) = write_targets::unwritable(words, sandbox, place) {
                return CommandVerdict::unwritable(&path);
            }
        }
        if write_targets::deletes_root(words, self.scope, &self.directories) {
            let why = format!("`{name}` may delete the whole working directory");
            return CommandVerdict { is_firm: true, ..CommandVerdict::ask(why) };
        }
        if let Some(rule) = self.find_stored(words) {
            return CommandVerdict::allow(format!("a rule says: {rule}"));
        }
        let offered = command_rules::offered(words, self.scope, &self.directories);
        let why = if network::is_needed(words, self.scope, &self.directories) {
            format!("`{name}` uses the network")
        } else {
            why
        };
        CommandVerdict { offered, ..CommandVerdict::ask(why) }
    }

    /// Asks for a protected path that a command names, or that it is known to change.
    fn needs_protected(&self, words: &[ShellWord]) -> Option<CommandVerdict> {
        let (name, args) = words.split_first()?;
        // Where a rule allows all commands, naming a file is no reason to ask, only writing to it is.
        let named: Vec<&ShellWord> = if self.is_open {
            write_targets::written(name.known().unwrap_or_default(), args)
        } else {
            args.iter().collect()
        };
        let named = named.into_iter().find_map(|word| self.scope.protected_word(word, &self.directories));
        let settings = || {
            let changed = git_settings(words)?;
            let why = format!("it changes `{}`, which is protected", changed.shown().display());
            Some((why, changed.files(self.scope, &self.directories)))
        };
        let (why, paths) = named.or_else(settings)?;
        Some(CommandVerdict::protected(why, paths))
    }

    fn find_stored(&self, words: &[ShellWord]) -> Option<&PolicyRule> {
        command_rules::stored(self.stored, words, (self.scope, &self.directories))
    }
}
