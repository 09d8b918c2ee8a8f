//! Commands that start other commands. The inner command gets a verdict of its own.

use super::shell::ShellWord;

/// The commands that a command starts.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum InnerCommand {
    /// It starts no other command.
    Nothing,
    Commands(Vec<Vec<ShellWord>>),
    Script(String),
    /// It starts a command that is not known statically. The text is the reason to ask.
    Unknown(String),
    /// It runs what it reads from its input.
    Stdin(String),
}

/// The syntax of a wrapper: options without and with a value, and the number of operands before the command.
struct WrapperCommand {
    name: &'static str,
    flags: &'static [&'static str],
    valued: &'static [&'static str],
    operands: usize,
}

const WRAPPERS: [WrapperCommand; 9] = [
    WrapperCommand { name: "nice", flags: &[], valued: &["-n"], operands: 0 },
    WrapperCommand { name: "nohup", flags: &[], valued: &[], operands: 0 },
    WrapperCommand { name: "time", flags: &["-p"], valued: &[], operands: 0 },
    WrapperCommand { name: "timeout", flags: &["--foreground"], valued: &["-k", "-s"], operands: 1 },
    WrapperCommand { name: "stdbuf", flags: &["-oL", "-eL", "-o0", "-e0"], valued: &[], operands: 0 },
    WrapperCommand { name: "setsid", flags: &["-w"], valued: &[], operands: 0 },
    WrapperCommand { name: "exec", flags: &[], valued: &[], operands: 0 },
    // Options of `env` remove the settings that keep git and other programs harmless.
    WrapperCommand { name: "env", flags: &[], valued: &[], operands: 0 },
    WrapperCommand {
        name: "xargs",
        flags: &["-0", "-r", "-t", "--null"],
        valued: &["-n", "-P", "-L", "-I", "-d"],
        operands: 0,
    },
];

const SHELLS: [&str; 6] = ["sh", "bash", "dash", "zsh", "ksh", "ash"];
/// Actions of `find` that start a command.
pub(super) const FIND_EXEC: [&str; 2] = ["-exec", "-execdir"];
/// The action whose command gets a verdict. A command of `-execdir` runs in directories that are not known.
pub(super) const FIND_INSPECTED: &str = "-exec";
/// Options of a shell that are followed by a script.
const SCRIPT_OPTIONS: [&str; 6] = ["-c", "-ec", "-xc", "-exc", "-euc", "-euxc"];
/// Commands that run others with more privileges. Both the wrapper and the inner command need a verdict.
const PRIVILEGED: [&str; 5] = ["sudo", "doas", "su", "pkexec", "run0"];

/// Whether a prefix rule for this command would allow every command.
pub(super) fn is_wrapper(name: &str) -> bool {
    WRAPPERS.iter().any(|wrapper| wrapper.name == name)
        || SHELLS.contains(&name)
        || PRIVILEGED.contains(&name)
        || ["command", "find"].contains(&name)
}

/// Whether the command runs others with more privileges.
pub(super) fn is_privileged(name: &str) -> bool {
    PRIVILEGED.contains(&name)
}

/// Whether only the verdict on the inner command counts.
pub(super) fn is_transparent(name: &str) -> bool {
    is_wrapper(name) && !PRIVILEGED.contains(&name) && name != "find"
}

pub(super) fn inner_command(name: &str, words: &[ShellWord]) -> InnerCommand {
    let rest = &words[1..];
    if let Some(wrapper) = WRAPPERS.iter().find(|wrapper| wrapper.name == name) {
        return after_options(wrapper, rest);
    }
    match name {
        "command" => match rest.first().map(|word| (word.known(), &word.raw)) {
            Some((Some("-v"), _)) | None => InnerCommand::Nothing,
            Some((Some(word), _)) if !word.starts_with('-') => unless_cd(name, rest),
            Some((_, raw)) => unknown(name, raw),
        },
        "find" => find_exec(rest),
        name if SHELLS.contains(&name) => shell_script(name, rest),
        name if PRIVILEGED.contains(&name) => match rest.first().and_then(ShellWord::known) {
            Some(first) if !first.starts_with('-') && name != "su" => {
                InnerCommand::Commands(vec![rest.to_vec()])
            }
            Some(_) | None => InnerCommand::Unknown(format!("`{name}` runs commands as another user")),
        },
        _ => InnerCommand::Nothing,
    }
}

fn unknown(name: &str, option: &str) -> InnerCommand {
    InnerCommand::Unknown(format!("it is unknown what `{name} {option}` runs"))
}

/// Skips the options and operands of a wrapper.
fn after_options(wrapper: &WrapperCommand, rest: &[ShellWord]) -> InnerCommand {
    let name = wrapper.name;
    let mut at = 0;
    while let Some(word) = rest.get(at) {
        let Some(text) = word.known() else { break };
        if wrapper.valued.contains(&text) {
            at += 2;
        } else if wrapper.flags.contains(&text) {
            at += 1;
        } else if name == "env" && text.contains('=') && !text.starts_with('-') {
            return InnerCommand::Unknown(format!(
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
        return InnerCommand::Nothing;
    };
    // A word that is known only at run time may expand to several words, including a command.
    if let Some(word) = rest[..begin].iter().find(|word| word.known().is_none()) {
        return unknown(name, &word.raw);
    }
    let mut command = command.to_vec();
    if name == "xargs" {
        replace_placeholder(&rest[..begin], &mut command);
        command.push(ShellWord::unknown());
    }
    unless_cd(name, &command)
}

/// `xargs -I TEXT` replaces the text inside every word of the command, including its name.
fn replace_placeholder(options: &[ShellWord], command: &mut [ShellWord]) {
    let at = options.iter().position(|word| word.known() == Some("-I"));
    let Some(placeholder) = at.and_then(|at| options.get(at + 1)).and_then(ShellWord::known) else { return };
    for word in command {
        if word.known().is_none_or(|text| text.contains(placeholder)) {
            *word = ShellWord { raw: word.raw.clone(), ..ShellWord::unknown() };
        }
    }
}

/// The inner command. `cd` is unknown, because a `cd` inside a wrapper is not tracked.
fn unless_cd(name: &str, command: &[ShellWord]) -> InnerCommand {
    match command.first().and_then(ShellWord::known) {
        Some("cd") => unknown(name, "cd"),
        Some(_) | None => InnerCommand::Commands(vec![command.to_vec()]),
    }
}

fn shell_script(name: &str, rest: &[ShellWord]) -> InnerCommand {
    let option = rest.first().and_then(ShellWord::known).unwrap_or_default();
    match rest.get(1).map(ShellWord::known) {
        Some(Some(script)) if SCRIPT_OPTIONS.contains(&option) => InnerCommand::Script(script.to_owned()),
        None if option.is_empty() || option.starts_with('-') => {
            InnerCommand::Stdin(format!("`{name}` runs a script from its input"))
        }
        _ => InnerCommand::Unknown(format!("`{name}` runs a script that cannot be inspected")),
    }
}

/// The commands of `find -exec`. `{}` becomes an unknown word.
fn find_exec(rest: &[ShellWord]) -> InnerCommand {
    let mut commands = Vec::new();
    let mut words = rest;
    while let [word, after @ ..] = words {
        words = after;
        if word.known().is_some_and(|text| FIND_EXEC.contains(&text)) {
            let (inside, after) = after.split_at(exec_length(after));
            let file =
                |word: &ShellWord| if word.raw.contains("{}") { ShellWord::unknown() } else { word.clone() };
            commands.push(inside.iter().map(file).collect());
            words = after;
        }
    }
    if commands.is_empty() { InnerCommand::Nothing } else { InnerCommand::Commands(commands) }
}

/// The number of words of the command after `-exec`, which ends at `;`, or at `+` after `{}`.
pub(super) fn exec_length(words: &[ShellWord]) -> usize {
    let is = |word: &ShellWord, text: &str| word.known() == Some(text);
    let ends = |at: &usize| {
        is(&words[*at], ";")
            || (is(&words[*at], "+") && at.checked_sub(1).is_some_and(|at| is(&words[at], "{}")))
    };
    (0..words.len()).find(ends).unwrap_or(words.len())
}
