//! One script, command by command. Each asks, is allowed or denied; the strictest decides.

use std::path::PathBuf;

use super::{
    Decision, Ground, Policy, Rule, Subject, Verdict, harmless,
    shell::{self, Redirect, Simple, Word},
    wrappers::{self, Inner},
};

/// The reason of scripts that need no rule.
pub(super) const ONLY_LOOKS: &str = "it only looks at what is inside the working directory";
const MAX_DEPTH: usize = 8;
/// From so many places no further step is followed.
const MAX_DIRECTORIES: usize = 32;

/// Variables that change no more than how something is printed.
const HARMLESS_NAMES: [&str; 8] =
    ["LANG", "LC_ALL", "LC_CTYPE", "TZ", "NO_COLOR", "CLICOLOR", "COLUMNS", "RUST_BACKTRACE"];

/// Commands that change what other commands mean, or run text that is not here to be read. No rule allows them.
const CHANGE_THE_SHELL: [&str; 24] = [
    "eval", "source", ".", "alias", "unalias", "trap", "set", "shopt", "enable", "hash", "export", "declare",
    "typeset", "readonly", "local", "unset", "builtin", "bind", "complete", "fc", "read", "getopts",
    "mapfile", "umask",
];

/// Programs whose first word says what they do, so that "always" can mean that.
const HAVE_SUBCOMMANDS: [&str; 16] = [
    "cargo", "git", "go", "npm", "pnpm", "yarn", "bun", "pip", "uv", "poetry", "docker", "kubectl", "gh",
    "make", "just", "dotnet",
];

struct Judge<'a> {
    policy: &'a Policy,
    ground: &'a Ground,
    /// Where `cd` may have gone.
    directories: Vec<PathBuf>,
    /// A rule lets all commands run; only denials count.
    is_open: bool,
    depth: usize,
}

/// What was found of one command.
struct Finding {
    decision: Decision,
    reason: String,
    /// The rule that would allow it.
    always: Option<Rule>,
}

impl Finding {
    fn allow(reason: impl Into<String>) -> Self {
        Self { decision: Decision::Allow, reason: reason.into(), always: None }
    }

    fn ask(reason: impl Into<String>) -> Self {
        Self { decision: Decision::Ask, reason: reason.into(), always: None }
    }
}

/// Decides on a script. `base` is what the rules say of the tool that runs it.
pub(super) fn script(policy: &Policy, text: &str, base: &Verdict, ground: &Ground) -> Verdict {
    let is_open = base.decision == Decision::Allow;
    let commands = match shell::parse(text) {
        Ok(commands) => commands,
        Err(why) => return unread(policy, is_open, base, &why),
    };
    let judge = Judge { policy, ground, directories: vec![PathBuf::new()], is_open, depth: 0 };
    let findings = judge.script(&commands);
    let decision = findings.iter().map(|(_, finding)| finding.decision).max().unwrap_or(Decision::Ask);
    let reasons: Vec<String> = findings
        .iter()
        .filter(|(_, finding)| finding.decision == decision)
        .map(|(at, finding)| placed(&finding.reason, *at, commands.len(), decision))
        .collect();
    let asked = || findings.iter().filter(|(_, finding)| finding.decision != Decision::Allow);
    let can_be_stored = decision == Decision::Ask && asked().all(|(_, finding)| finding.always.is_some());
    let mut always: Vec<Rule> = asked().filter_map(|(_, finding)| finding.always.clone()).collect();
    always.dedup();
    let reason = match decision {
        _ if reasons.is_empty() => "there is no command in it".to_owned(),
        Decision::Allow if reasons.iter().all(|reason| reason == ONLY_LOOKS) => ONLY_LOOKS.to_owned(),
        // Commands that only look need no mention beside those that a rule allows.
        Decision::Allow => reasons.into_iter().find(|reason| reason != ONLY_LOOKS).unwrap_or_default(),
        Decision::Ask | Decision::Deny => reasons.join("; "),
    };
    Verdict { decision, reason, always: if can_be_stored { always } else { Vec::new() } }
}

/// A denial cannot be looked for in what cannot be read: then even a rule that allows everything asks.
fn unread(policy: &Policy, is_open: bool, base: &Verdict, why: &shell::Unclear) -> Verdict {
    let denies = policy.rules.iter().any(|rule| {
        rule.decision == Decision::Deny && matches!(rule.subject, Subject::Command(_) | Subject::Exactly(_))
    });
    if is_open && !denies {
        return base.clone();
    }
    Verdict::new(Decision::Ask, format!("the command cannot be judged: it {why}"))
}

fn placed(reason: &str, at: usize, all: usize, decision: Decision) -> String {
    if all == 1 || decision == Decision::Allow {
        return reason.to_owned();
    }
    let names = ["first", "second", "third", "fourth", "fifth"];
    let place = names.get(at).map_or_else(|| format!("{}th", at + 1), |name| (*name).to_owned());
    format!("{reason}; it is in the {place} part of {all}")
}

/// Where the script may be when it was in one of `from`, if its steps by `cd` can be followed.
fn directories(from: &[PathBuf], commands: &[Simple]) -> Option<Vec<PathBuf>> {
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

impl Judge<'_> {
    /// All commands, each with its place, seen from wherever `cd` may have gone.
    fn script(&self, commands: &[Simple]) -> Vec<(usize, Finding)> {
        if let Some(directories) = directories(&self.directories, commands) {
            return Judge { directories, ..*self }.commands(commands);
        }
        let lost = self.unless_open("it goes to more directories than can be followed".to_owned());
        self.commands(commands).into_iter().chain([(0, lost)]).collect()
    }

    fn commands(&self, commands: &[Simple]) -> Vec<(usize, Finding)> {
        let all = commands.iter().enumerate();
        all.flat_map(|(at, simple)| self.simple(simple).into_iter().map(move |finding| (at, finding)))
            .collect()
    }

    fn simple(&self, simple: &Simple) -> Vec<Finding> {
        let mut findings = Vec::new();
        // A variable of the script itself is passed on to nobody; what programs read is written in capitals.
        let is_own = |name: &str| simple.words.is_empty() && !name.contains(|c: char| c.is_ascii_uppercase());
        let is_harmless = |name: &String| HARMLESS_NAMES.contains(&name.as_str()) || is_own(name);
        for name in simple.assigns.iter().filter(|name| !is_harmless(name)) {
            findings.push(self.unless_open(format!("the variable `{name}` may change what a command does")));
        }
        findings.extend(simple.redirects.iter().filter_map(|redirect| self.redirect(redirect)));
        if simple.words.is_empty() {
            findings.push(Finding::allow(ONLY_LOOKS));
        } else {
            findings.extend(self.words(&simple.words));
        }
        findings
    }

    fn unless_open(&self, reason: String) -> Finding {
        if self.is_open { Finding::allow("a rule allows all commands") } else { Finding::ask(reason) }
    }

    fn redirect(&self, redirect: &Redirect) -> Option<Finding> {
        let target = &redirect.target;
        if self.is_open || target.known() == Some("/dev/null") {
            return None;
        }
        if let Some(why) = self.ground.outside(target, &self.directories) {
            let verb = if redirect.writes { "writes to" } else { "reads" };
            return Some(Finding::ask(format!("a redirection {verb} a file, and {why}")));
        }
        if !redirect.writes {
            return None;
        }
        if let Some(why) = self.ground.sensitive(target, &self.directories) {
            return Some(Finding::ask(why));
        }
        let asks = Finding::ask(format!("a redirection writes to `{}`", target.raw));
        // What a pattern becomes is for the shell to say.
        (!self.policy.may_write() || target.known().is_none()).then_some(asks)
    }

    /// A command with its arguments, and the commands that it starts in turn.
    fn words(&self, words: &[Word]) -> Vec<Finding> {
        let Some(name) = words.first().and_then(Word::known) else {
            let raw = words.first().map_or("", |word| &word.raw);
            return vec![
                self.unless_open(format!("the name of the command is only known when it runs (`{raw}`)")),
            ];
        };
        let own = self.own(name, words);
        let inner = match wrappers::inner(name, words) {
            Inner::Nothing => return vec![own],
            Inner::Unknown(why) => vec![self.unless_open(why)],
            Inner::Commands(commands) => {
                self.deeper(|judge| commands.iter().flat_map(|words| judge.words(words)).collect())
            }
            Inner::Script(script) => self.deeper(|judge| judge.inner_script(name, &script)),
        };
        // A rule that names the whole line has seen what is inside.
        if own.decision == Decision::Deny
            || self.rule(words).is_some_and(|rule| is_whole(rule, Decision::Allow))
        {
            return vec![own];
        }
        let needs_own = !wrappers::is_transparent(name);
        inner.into_iter().chain(needs_own.then_some(own)).collect()
    }

    fn deeper(&self, judge: impl FnOnce(&Judge<'_>) -> Vec<Finding>) -> Vec<Finding> {
        if self.depth >= MAX_DEPTH {
            return vec![Finding::ask("commands are nested too deeply")];
        }
        let Self { policy, ground, is_open, depth, .. } = *self;
        judge(&Judge { policy, ground, directories: self.directories.clone(), is_open, depth: depth + 1 })
    }

    fn inner_script(&self, name: &str, script: &str) -> Vec<Finding> {
        match shell::parse(script) {
            Ok(commands) => self.script(&commands).into_iter().map(|(_, finding)| finding).collect(),
            Err(why) => vec![Finding::ask(format!("the script for `{name}` cannot be judged: it {why}"))],
        }
    }

    /// The command itself, whatever it starts.
    fn own(&self, name: &str, words: &[Word]) -> Finding {
        let rule = self.rule(words);
        if let Some(rule) = rule.filter(|rule| rule.decision == Decision::Deny) {
            return Finding {
                decision: Decision::Deny,
                reason: format!("a rule says: {rule}"),
                always: None,
            };
        }
        if self.is_open {
            return Finding::allow("a rule allows all commands");
        }
        if CHANGE_THE_SHELL.contains(&name) {
            return Finding::ask(format!(
                "`{name}` changes what other commands mean, or runs a text that is not here"
            ));
        }
        if !name.is_ascii() {
            return Finding::ask(format!("`{name}` is written with letters that may only look like others"));
        }
        let counts =
            |rule: &&Rule| !wrappers::is_wrapper(name) || matches!(rule.subject, Subject::Exactly(_));
        match rule.filter(counts) {
            Some(rule) if rule.decision == Decision::Allow => {
                return Finding::allow(format!("a rule says: {rule}"));
            }
            Some(rule) => return Finding { always: None, ..Finding::ask(format!("a rule says: {rule}")) },
            None => {}
        }
        let why = match harmless::check(words, self.ground, &self.directories) {
            Ok(()) => return Finding::allow(ONLY_LOOKS),
            Err(why) => why,
        };
        Finding { always: offer(name, words), ..Finding::ask(why) }
    }

    /// The rule for a command: a denial before all, then the one with the most words.
    fn rule(&self, words: &[Word]) -> Option<&Rule> {
        let all = || self.policy.rules.iter();
        let denial = all().find(|rule| rule.decision == Decision::Deny && applies(rule, words));
        let nearest = all().filter(|rule| applies(rule, words)).max_by_key(|rule| length(rule));
        denial.or(nearest)
    }
}

fn is_whole(rule: &Rule, decision: Decision) -> bool {
    rule.decision == decision && matches!(rule.subject, Subject::Exactly(_))
}

fn length(rule: &Rule) -> usize {
    match &rule.subject {
        Subject::Command(words) => words.len(),
        Subject::Exactly(_) => usize::MAX,
        Subject::Class(_) | Subject::Tool(_) => 0,
    }
}

fn applies(rule: &Rule, words: &[Word]) -> bool {
    let (pattern, is_exact) = match &rule.subject {
        Subject::Command(pattern) => (pattern, false),
        Subject::Exactly(pattern) => (pattern, true),
        Subject::Class(_) | Subject::Tool(_) => return false,
    };
    if pattern.is_empty() || words.len() < pattern.len() || (is_exact && words.len() != pattern.len()) {
        return false;
    }
    let same = |(at, (wanted, word)): (usize, (&String, &Word))| {
        let Some(text) = word.known() else { return false };
        // A denial of `rm` is one of `/bin/rm` too; permission is for the very word.
        let file = text.rsplit('/').next().unwrap_or(text);
        text == wanted || (at == 0 && rule.decision == Decision::Deny && file == wanted)
    };
    pattern.iter().zip(words).enumerate().all(same)
}

/// The rule that "always" would store: the subcommand where there is one, else the very command.
fn offer(name: &str, words: &[Word]) -> Option<Rule> {
    let known: Option<Vec<String>> = words.iter().map(|word| word.known().map(str::to_owned)).collect();
    let allow = |subject| Some(Rule::new(subject, Decision::Allow));
    if HAVE_SUBCOMMANDS.contains(&name) {
        let count = if words.get(1).and_then(Word::known) == Some("run") { 3 } else { 2 };
        let prefix: Vec<String> =
            words.iter().take(count).map_while(|word| word.known().map(str::to_owned)).collect();
        let is_plain = |word: &String| !word.starts_with('-') && !word.contains('=');
        if prefix.len() == count && prefix[1..].iter().all(is_plain) {
            return allow(Subject::Command(prefix));
        }
    }
    allow(Subject::Exactly(known?))
}
