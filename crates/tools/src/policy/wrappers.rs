//! Commands that start other commands: the one inside is judged like any other.

use super::shell::Word;

/// What a command starts.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Inner {
    /// It starts nothing of its own accord.
    Nothing,
    Commands(Vec<Vec<Word>>),
    Script(String),
    /// It starts something that is not known; the reason is a sentence.
    Unknown(String),
}

/// Options of a wrapper: those that stand alone, those that take a word, and how many words come before the command.
struct Wrapper {
    name: &'static str,
    alone: &'static [&'static str],
    valued: &'static [&'static str],
    operands: usize,
}

const WRAPPERS: [Wrapper; 9] = [
    Wrapper { name: "nice", alone: &[], valued: &["-n"], operands: 0 },
    Wrapper { name: "nohup", alone: &[], valued: &[], operands: 0 },
    Wrapper { name: "time", alone: &["-p"], valued: &[], operands: 0 },
    Wrapper { name: "timeout", alone: &["--foreground"], valued: &["-k", "-s"], operands: 1 },
    Wrapper { name: "stdbuf", alone: &["-oL", "-eL", "-o0", "-e0"], valued: &[], operands: 0 },
    Wrapper { name: "setsid", alone: &["-w"], valued: &[], operands: 0 },
    Wrapper { name: "exec", alone: &[], valued: &[], operands: 0 },
    Wrapper { name: "env", alone: &["-i"], valued: &["-u"], operands: 0 },
    Wrapper {
        name: "xargs",
        alone: &["-0", "-r", "-t", "--null"],
        valued: &["-n", "-P", "-L", "-I", "-d"],
        operands: 0,
    },
];

const SHELLS: [&str; 6] = ["sh", "bash", "dash", "zsh", "ksh", "ash"];
/// Actions of `find` that start a command.
pub(super) const FIND_STARTS: [&str; 2] = ["-exec", "-execdir"];
/// Ways to ask a shell for a script, and nothing else.
const SCRIPT_OPTIONS: [&str; 6] = ["-c", "-ec", "-xc", "-exc", "-euc", "-euxc"];
/// They start others with more rights: they ask themselves, and so does what they start.
const RAISE: [&str; 5] = ["sudo", "doas", "su", "pkexec", "run0"];

/// Whether a prefix rule for this name would allow anything at all.
pub(super) fn is_wrapper(name: &str) -> bool {
    WRAPPERS.iter().any(|wrapper| wrapper.name == name)
        || SHELLS.contains(&name)
        || RAISE.contains(&name)
        || ["command", "find"].contains(&name)
}

/// Whether only what is inside counts.
pub(super) fn is_transparent(name: &str) -> bool {
    is_wrapper(name) && !RAISE.contains(&name) && name != "find"
}

pub(super) fn inner(name: &str, words: &[Word]) -> Inner {
    let rest = &words[1..];
    if let Some(wrapper) = WRAPPERS.iter().find(|wrapper| wrapper.name == name) {
        return wrapped(wrapper, rest);
    }
    match name {
        "command" => match rest.first().map(|word| (word.known(), &word.raw)) {
            Some((Some("-v"), _)) | None => Inner::Nothing,
            Some((Some(word), _)) if !word.starts_with('-') => started(name, rest),
            Some((_, raw)) => unknown(name, raw),
        },
        "find" => found(rest),
        name if SHELLS.contains(&name) => scripted(name, rest),
        name if RAISE.contains(&name) => match rest.first().and_then(Word::known) {
            Some(first) if !first.starts_with('-') && name != "su" => Inner::Commands(vec![rest.to_vec()]),
            Some(_) | None => Inner::Unknown(format!("`{name}` runs commands as somebody else")),
        },
        _ => Inner::Nothing,
    }
}

fn unknown(name: &str, option: &str) -> Inner {
    Inner::Unknown(format!("what `{name} {option}` runs is not known"))
}

fn wrapped(wrapper: &Wrapper, rest: &[Word]) -> Inner {
    let name = wrapper.name;
    let mut at = 0;
    while let Some(word) = rest.get(at) {
        let Some(text) = word.known() else { break };
        if wrapper.valued.contains(&text) {
            at += 2;
        } else if wrapper.alone.contains(&text) {
            at += 1;
        } else if name == "env" && text.contains('=') && !text.starts_with('-') {
            return Inner::Unknown(format!(
                "`env {text}` sets a variable that may change what a command does"
            ));
        } else if text.starts_with('-') {
            return unknown(name, text);
        } else {
            break;
        }
    }
    let begin = at + wrapper.operands;
    let Some(command) = rest.get(begin..).filter(|command| !command.is_empty()) else {
        return Inner::Nothing;
    };
    // What is only known when it runs may become several words, a command among them.
    if let Some(word) = rest[..begin].iter().find(|word| word.known().is_none()) {
        return unknown(name, &word.raw);
    }
    let mut command = command.to_vec();
    if name == "xargs" {
        command.push(Word::unknown());
    }
    started(name, &command)
}

/// A command, unless it moves the script to another directory behind our back.
fn started(name: &str, command: &[Word]) -> Inner {
    match command.first().and_then(Word::known) {
        Some("cd") => unknown(name, "cd"),
        Some(_) | None => Inner::Commands(vec![command.to_vec()]),
    }
}

fn scripted(name: &str, rest: &[Word]) -> Inner {
    let option = rest.first().and_then(Word::known).unwrap_or_default();
    match rest.get(1).map(Word::known) {
        Some(Some(script)) if SCRIPT_OPTIONS.contains(&option) => Inner::Script(script.to_owned()),
        _ => Inner::Unknown(format!("`{name}` runs a script that is not here to be read")),
    }
}

/// The commands of `find -exec`, with a file that only the run knows in the place of `{}`.
fn found(rest: &[Word]) -> Inner {
    let mut commands = Vec::new();
    let mut words = rest;
    while let [word, after @ ..] = words {
        words = after;
        if word.known().is_some_and(|text| FIND_STARTS.contains(&text)) {
            let (inside, after) = after.split_at(exec_length(after));
            let file = |word: &Word| if word.raw.contains("{}") { Word::unknown() } else { word.clone() };
            commands.push(inside.iter().map(file).collect());
            words = after;
        }
    }
    if commands.is_empty() { Inner::Nothing } else { Inner::Commands(commands) }
}

/// How many words after `-exec` are its command: a `;` ends it, and a `+` only after `{}`.
pub(super) fn exec_length(words: &[Word]) -> usize {
    let is = |word: &Word, text: &str| word.known() == Some(text);
    let ends = |at: &usize| {
        is(&words[*at], ";")
            || (is(&words[*at], "+") && at.checked_sub(1).is_some_and(|at| is(&words[at], "{}")))
    };
    (0..words.len()).find(ends).unwrap_or(words.len())
}
