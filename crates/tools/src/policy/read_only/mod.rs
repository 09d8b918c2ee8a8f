//! Commands that are known to be read-only. A command asks if one of its options is not on the list.

pub(super) mod git_config;
mod special;
mod table;

use std::path::{Path, PathBuf};

use self::table::{COMMANDS, GIT_SUBCOMMANDS, HARMLESS_PREFIXES, Operands, PRINT_VERSION, ReadOnlyCommand};
use super::{
    PathScope,
    shell::{ShellWord, WordValue},
};

/// Checks that a command is read-only; the error is the reason why it may not be.
pub(super) fn check(words: &[ShellWord], scope: &PathScope, directories: &[PathBuf]) -> Result<(), String> {
    let name = words.first().and_then(ShellWord::known).unwrap_or_default();
    let check = CommandCheck { name: name.to_owned(), scope, directories };
    let args = words.get(1..).unwrap_or_default();
    if let Some(entry) = scope.project_entry(name, directories) {
        return Err(format!("`{name}` is a program of the project (`{}` in PATH)", entry.display()));
    }
    match name {
        name if PRINT_VERSION.contains(&name) && is_version(args) => Ok(()),
        "git" => check.git(args),
        "find" => check.find(args),
        "sed" => check.sed(args),
        "cd" => check.cd(args),
        "date" => check.date(args),
        name => match COMMANDS.iter().find(|entry| entry.names.contains(&name)) {
            Some(entry) if name == "rg" && args.iter().any(|word| word.known() == Some("--files")) => {
                check.by_table(&ReadOnlyCommand { operands: Operands::Paths, ..*entry }, args)
            }
            Some(entry) => check.by_table(entry, args),
            None => Err(format!("`{name}` is not on the allowed list")),
        },
    }
}

/// Whether a rule may allow the command by its name alone: see [`HARMLESS_PREFIXES`].
pub(super) fn fits_prefix(words: &[ShellWord], scope: &PathScope, directories: &[PathBuf]) -> bool {
    let name = words.first().and_then(ShellWord::known).unwrap_or_default();
    let Some(entry) = HARMLESS_PREFIXES.iter().find(|entry| entry.names.contains(&name)) else {
        return false;
    };
    let check = CommandCheck { name: name.to_owned(), scope, directories };
    let is_protected = |word: &ShellWord| scope.protected_word(word, directories).is_some();
    scope.project_entry(name, directories).is_none()
        && check.by_table(entry, &words[1..]).is_ok()
        && !words[1..].iter().any(is_protected)
}

/// A command to be checked, and the paths that it may read.
struct CommandCheck<'a> {
    name: String,
    scope: &'a PathScope,
    directories: &'a [PathBuf],
}

impl CommandCheck<'_> {
    fn git(&self, args: &[ShellWord]) -> Result<(), String> {
        let skip = usize::from(args.first().and_then(ShellWord::known) == Some("--no-pager"));
        let args = &args[skip..];
        let Some(sub) = args.first().and_then(ShellWord::known) else {
            return Err("`git` without a known subcommand is not on the allowed list".to_owned());
        };
        let name = format!("git {sub}");
        match GIT_SUBCOMMANDS.iter().find(|entry| entry.names.contains(&sub)) {
            Some(entry) => {
                CommandCheck { name, ..*self }.by_table(entry, &args[1..])?;
                self.scope
                    .directories_on_disk(self.directories)
                    .find_map(|dir| git_config::reason_to_ask(&dir))
                    .map_or(Ok(()), Err)
            }
            None => Err(format!("`{name}` is not on the allowed list")),
        }
    }

    fn by_table(&self, entry: &ReadOnlyCommand, args: &[ShellWord]) -> Result<(), String> {
        let mut operands = Vec::new();
        let mut only_operands = false;
        for word in args {
            let option = if only_operands { None } else { option(word) };
            match option {
                Some("--") => only_operands = true,
                Some(option) if entry.operands != Operands::Anything => self.option(entry, option)?,
                Some(_) | None => operands.push(word),
            }
        }
        self.operands(entry, &operands)
    }

    fn option(&self, entry: &ReadOnlyCommand, option: &str) -> Result<(), String> {
        let is_known = match option.strip_prefix("--") {
            Some(long) => entry.long.contains(&long.split('=').next().unwrap_or(long)),
            None => option.chars().skip(1).all(|c| entry.short.contains(c) || c.is_ascii_digit()),
        };
        let name = &self.name;
        if is_known { Ok(()) } else { Err(format!("`{name} {option}` is not known to be read-only")) }
    }

    fn operands(&self, entry: &ReadOnlyCommand, operands: &[&ShellWord]) -> Result<(), String> {
        let name = &self.name;
        let paths = match entry.operands {
            Operands::Text => return Ok(()),
            Operands::FormatThenText => return self.require_known(operands.first().copied()),
            Operands::Anything => return self.forbid_subscripts(operands),
            Operands::Paths => operands,
            Operands::Files => {
                let is_directory = |word: &&&ShellWord| {
                    let path = word.known().map(Path::new);
                    path.is_some_and(|path| {
                        self.scope.candidates(path, self.directories).any(|path| path.is_dir())
                    })
                };
                if let Some(word) = operands.iter().find(is_directory) {
                    return Err(format!("`{name}` follows links in the directory `{}`", word.raw));
                }
                operands
            }
            Operands::PatternThenPaths => {
                if operands.first().is_some_and(|word| matches!(word.text, WordValue::Pattern(_))) {
                    return Err(format!("the pattern of `{name}` is not quoted"));
                }
                self.require_known(operands.first().copied())?;
                operands.get(1..).unwrap_or_default()
            }
            Operands::AtMost(count) => {
                let has_pattern = operands.iter().any(|word| word.known().is_none());
                if operands.len() > count || has_pattern {
                    return Err(format!("`{name}` may write with that many arguments"));
                }
                operands
            }
        };
        for word in paths {
            self.require_inside(word)?;
            if let (WordValue::Pattern(text), true) = (&word.text, entry.is_guarded)
                && text.starts_with(['*', '?', '['])
            {
                return Err(format!("`{text}` may expand to an option of `{name}`"));
            }
        }
        Ok(())
    }

    fn require_inside(&self, word: &ShellWord) -> Result<(), String> {
        match self.scope.outside(word, self.directories) {
            None => Ok(()),
            Some(why) => {
                Err(format!("`{}` is allowed only inside the working directory, and {why}", self.name))
            }
        }
    }

    /// A word that is known only at run time may be an option or expand to several words.
    fn require_known(&self, word: Option<&ShellWord>) -> Result<(), String> {
        match word.filter(|word| word.known().is_none()) {
            Some(word) => Err(format!("`{}` may expand to an option of `{}`", word.raw, self.name)),
            None => Ok(()),
        }
    }

    /// With `-v`, some shells evaluate the subscript of a variable name (`a[$(rm x)]`), even in quotes. The option itself may
    /// come from a variable.
    fn forbid_subscripts(&self, operands: &[&ShellWord]) -> Result<(), String> {
        let may_evaluate = |word: &&&ShellWord| match &word.text {
            WordValue::Known(text) => {
                text.contains("$(") || text.contains('`') || ["-v", "-R"].contains(&text.as_str())
            }
            WordValue::Pattern(_) => true,
            WordValue::Unknown => !is_one_word(&word.raw),
        };
        let two = |pair: &&[&ShellWord]| pair.iter().all(|word| word.known().is_none());
        // If one word is unknown, it may be `-v`, and any other word the name of a variable with a subscript.
        let has_unknown = operands.iter().any(|word| word.known().is_none());
        let subscript = || {
            let is_subscript =
                |word: &&&ShellWord| word.known().is_some_and(|text| text.contains('[')) && has_unknown;
            operands.iter().find(is_subscript)
        };
        let pair = || operands.windows(2).find(two).map(|pair| &pair[1]);
        let found = operands.iter().find(may_evaluate).or_else(pair).or_else(subscript);
        match found {
            Some(word) => Err(format!("`{}` may evaluate a part of `{}`", self.name, word.raw)),
            None => Ok(()),
        }
    }
}

fn is_version(args: &[ShellWord]) -> bool {
    matches!(args, [only] if only.known() == Some("--version"))
}

/// Whether a word is enclosed in one pair of double quotes.
fn is_one_word(raw: &str) -> bool {
    let inside = raw.strip_prefix('"').and_then(|raw| raw.strip_suffix('"'));
    inside.is_some_and(|inside| !inside.contains('"'))
}

/// The text of a word if it is an option. A glob pattern that begins with a dash expands only to options.
fn option(word: &ShellWord) -> Option<&str> {
    match &word.text {
        WordValue::Known(text) | WordValue::Pattern(text) => {
            Some(text.as_str()).filter(|text| text.len() > 1 && text.starts_with('-'))
        }
        WordValue::Unknown => None,
    }
}
