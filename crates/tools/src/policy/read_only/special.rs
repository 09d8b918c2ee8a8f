//! Commands whose arguments have a syntax of their own: `find`, `sed`, `cd`, `date`.

use super::{CommandCheck, is_one_word, option};
use crate::policy::{
    shell::ShellWord,
    wrappers::{FIND_INSPECTED, exec_length},
};

/// Tests of `find`, and actions that only print.
const FIND_READ_ONLY: [&str; 34] = [
    "-name",
    "-iname",
    "-path",
    "-ipath",
    "-wholename",
    "-regex",
    "-iregex",
    "-type",
    "-maxdepth",
    "-mindepth",
    "-size",
    "-mtime",
    "-mmin",
    "-newer",
    "-atime",
    "-ctime",
    "-empty",
    "-not",
    "-o",
    "-or",
    "-a",
    "-and",
    "-print",
    "-print0",
    "-prune",
    "-ls",
    "-perm",
    "-user",
    "-group",
    "-links",
    "-executable",
    "-readable",
    "-writable",
    "-depth",
];

impl CommandCheck<'_> {
    /// The command of `-exec` gets its own verdict.
    pub(super) fn find(&self, args: &[ShellWord]) -> Result<(), String> {
        let mut words = args;
        while let [word, after @ ..] = words {
            words = after;
            match option(word) {
                Some(option) if option == FIND_INSPECTED => {
                    let (inside, rest) = after.split_at(exec_length(after));
                    if let Some(word) = inside.iter().find(|word| may_be_several(word)) {
                        return Err(format!("`{}` may expand to an action of `find`", word.raw));
                    }
                    words = rest;
                }
                Some(option) if FIND_READ_ONLY.contains(&option) => {}
                Some(option) => return Err(format!("`find {option}` is not known to be read-only")),
                None if matches!(word.known(), Some(";" | "+")) => {}
                None => self.require_inside(word)?,
            }
            if word.known().is_none() && word.raw.starts_with(['*', '?', '[']) {
                return Err(format!("`{}` may expand to an option of `find`", word.raw));
            }
        }
        Ok(())
    }

    /// Allows only printing of lines by number: `sed -n 5p`, `sed -n '1,40p'`.
    pub(super) fn sed(&self, args: &[ShellWord]) -> Result<(), String> {
        let [quiet, script, files @ ..] = args else {
            return Err("`sed` is allowed only to print lines by number".to_owned());
        };
        if quiet.known() != Some("-n") || !script.known().is_some_and(prints_lines) {
            return Err("`sed` is allowed only to print lines by number".to_owned());
        }
        for file in files {
            if option(file).is_some() || file.raw.starts_with(['*', '?', '[']) {
                return Err(format!("`sed … {}` is not known to be read-only", file.raw));
            }
            self.require_inside(file)?;
        }
        Ok(())
    }

    pub(super) fn cd(&self, args: &[ShellWord]) -> Result<(), String> {
        match args {
            [target] if target.known().is_some_and(|text| !text.is_empty() && !text.starts_with('-')) => {
                self.require_inside(target)
            }
            _ => Err("`cd` is allowed only to a directory inside the working directory".to_owned()),
        }
    }

    /// An operand without `+` would set the clock.
    pub(super) fn date(&self, args: &[ShellWord]) -> Result<(), String> {
        let only_prints = |word: &ShellWord| {
            word.known()
                .is_some_and(|text| text.starts_with('+') || ["-u", "-R", "-I", "-Iseconds"].contains(&text))
        };
        if args.iter().all(only_prints) { Ok(()) } else { Err(format!("`{}` may set the clock", self.name)) }
    }
}

/// Whether a word may expand to several words.
fn may_be_several(word: &ShellWord) -> bool {
    word.known().is_none() && !is_one_word(&word.raw)
}

fn prints_lines(script: &str) -> bool {
    let Some(range) = script.strip_suffix('p') else { return false };
    let is_line = |text: &str| text == "$" || (!text.is_empty() && text.chars().all(|c| c.is_ascii_digit()));
    match range.split_once(',') {
        Some((from, to)) => is_line(from) && is_line(to),
        None => is_line(range),
    }
}
