//! Commands whose arguments are a small language.

use super::{Around, option};
use crate::policy::{
    shell::Word,
    wrappers::{FIND_STARTS, exec_length},
};

/// Tests of `find` that look at files, and actions that print their names.
const FIND: [&str; 34] = [
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

impl Around<'_> {
    /// What `-exec` starts is judged elsewhere.
    pub(super) fn find(&self, args: &[Word]) -> Result<(), String> {
        let mut words = args;
        while let [word, after @ ..] = words {
            words = after;
            match option(word) {
                Some(option) if FIND_STARTS.contains(&option) => words = &after[exec_length(after)..],
                Some(option) if FIND.contains(&option) => {}
                Some(option) => return Err(format!("`find {option}` is not known to only look")),
                None if matches!(word.known(), Some(";" | "+")) => {}
                None => self.inside(word)?,
            }
            if word.known().is_none() && word.raw.starts_with(['*', '?', '[']) {
                return Err(format!("`{}` may become an option of `find`", word.raw));
            }
        }
        Ok(())
    }

    /// `sed -n 5p`, `sed -n '1,40p'`: lines are printed, and nothing else.
    pub(super) fn sed(&self, args: &[Word]) -> Result<(), String> {
        let [quiet, script, files @ ..] = args else {
            return Err("`sed` is not on the allowed list, unless it prints lines".to_owned());
        };
        if quiet.known() != Some("-n") || !script.known().is_some_and(prints_lines) {
            return Err("`sed` is allowed to print lines by their numbers only".to_owned());
        }
        for file in files {
            if option(file).is_some() || file.raw.starts_with(['*', '?', '[']) {
                return Err(format!("`sed … {}` is not known to only look", file.raw));
            }
            self.inside(file)?;
        }
        Ok(())
    }

    pub(super) fn cd(&self, args: &[Word]) -> Result<(), String> {
        match args {
            [target] if target.known().is_some_and(|text| !text.is_empty() && !text.starts_with('-')) => {
                self.inside(target)
            }
            _ => Err("`cd` is allowed to a directory inside the working directory only".to_owned()),
        }
    }

    /// A word without `+` would set the clock.
    pub(super) fn date(&self, args: &[Word]) -> Result<(), String> {
        let shows = |word: &Word| {
            word.known()
                .is_some_and(|text| text.starts_with('+') || ["-u", "-R", "-I", "-Iseconds"].contains(&text))
        };
        if args.iter().all(shows) { Ok(()) } else { Err(format!("`{}` may set the clock", self.name)) }
    }
}

fn prints_lines(script: &str) -> bool {
    let Some(range) = script.strip_suffix('p') else { return false };
    let is_line = |text: &str| text == "$" || (!text.is_empty() && text.chars().all(|c| c.is_ascii_digit()));
    match range.split_once(',') {
        Some((from, to)) => is_line(from) && is_line(to),
        None => is_line(range),
    }
}
