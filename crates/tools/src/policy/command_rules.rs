//! Rules for commands: which rule matches a command, and which rule "always" offers.

use std::path::PathBuf;

use super::{
    Decision, PathScope, PolicyRule, Subject, read_only,
    shell::{ShellWord, SimpleCommand},
};

/// A longer script is not offered as a rule: a person could not read the rule again.
const MAX_SCRIPT: usize = 300;

/// The rule of the configuration that applies to a command: a denial if there is one, else the most specific rule.
pub(super) fn configured<'a>(rules: &'a [PolicyRule], words: &[ShellWord]) -> Option<&'a PolicyRule> {
    let denial = rules.iter().find(|rule| rule.decision == Decision::Deny && matches(rule, words));
    denial.or_else(|| rules.iter().filter(|rule| matches(rule, words)).max_by_key(|rule| specificity(rule)))
}

/// The stored rule that allows a command: for its exact words, or for a prefix if its options and operands are known to be
/// harmless.
pub(super) fn stored<'a>(
    rules: &'a [PolicyRule],
    words: &[ShellWord],
    (scope, directories): (&PathScope, &[PathBuf]),
) -> Option<&'a PolicyRule> {
    let fits = |rule: &&PolicyRule| match rule.subject {
        Subject::Exactly(_) => true,
        Subject::Command(_) => read_only::fits_prefix(words, scope, directories),
        Subject::Class(_) | Subject::Tool(_) | Subject::Script(_) | Subject::Path(_) => false,
    };
    rules.iter().filter(|rule| rule.decision == Decision::Allow && matches(rule, words)).find(fits)
}

/// The rule that allows exactly this script.
pub(super) fn for_script<'a>(rules: &'a [PolicyRule], script: &str) -> Option<&'a PolicyRule> {
    let is_script = |rule: &&PolicyRule| matches!(&rule.subject, Subject::Script(text) if text == script);
    rules.iter().filter(|rule| rule.decision == Decision::Allow).find(is_script)
}

/// The rule for a whole script that "always" offers.
pub(super) fn offered_script(script: &str) -> Option<PolicyRule> {
    let is_short = script.len() <= MAX_SCRIPT && !script.contains('\n');
    is_short.then(|| PolicyRule::new(Subject::Script(script.to_owned()), Decision::Allow))
}

/// The rule for one command that "always" offers: for the program if the table of harmless prefixes has it, else for the exact
/// words.
pub(super) fn offered(words: &[ShellWord], scope: &PathScope, directories: &[PathBuf]) -> Option<PolicyRule> {
    let known: Option<Vec<String>> = words.iter().map(|word| word.known().map(str::to_owned)).collect();
    let known = known?;
    let subject = if read_only::fits_prefix(words, scope, directories) {
        Subject::Command(known.into_iter().take(1).collect())
    } else {
        Subject::Exactly(known)
    };
    Some(PolicyRule::new(subject, Decision::Allow))
}

/// Whether a script changes its working directory, so that rules for single commands do not apply.
pub(super) fn changes_directory(commands: &[SimpleCommand]) -> bool {
    let is_cd = |word: &ShellWord| matches!(word.known(), Some("cd" | "pushd" | "popd") | None);
    commands.iter().any(|simple| simple.words.first().is_some_and(is_cd))
}

fn specificity(rule: &PolicyRule) -> usize {
    match &rule.subject {
        Subject::Command(words) => words.len(),
        Subject::Exactly(_) => usize::MAX,
        Subject::Class(_) | Subject::Tool(_) | Subject::Script(_) | Subject::Path(_) => 0,
    }
}

fn matches(rule: &PolicyRule, words: &[ShellWord]) -> bool {
    let (pattern, is_exact) = match &rule.subject {
        Subject::Command(pattern) => (pattern, false),
        Subject::Exactly(pattern) => (pattern, true),
        Subject::Class(_) | Subject::Tool(_) | Subject::Script(_) | Subject::Path(_) => return false,
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
