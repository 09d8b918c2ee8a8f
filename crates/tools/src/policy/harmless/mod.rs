//! Commands that only look. An option that is not known to only look makes the command ask.

mod repository;
mod special;
mod table;

use std::path::PathBuf;

use self::table::{GIT, Harmless, Operands, PLAIN};
use super::{
    Ground,
    shell::{Text, Word},
};

/// Why a command is not harmless, if it is not.
pub(super) fn check(words: &[Word], ground: &Ground, directories: &[PathBuf]) -> Result<(), String> {
    let name = words.first().and_then(Word::known).unwrap_or_default();
    let around = Around { name: name.to_owned(), ground, directories };
    let args = words.get(1..).unwrap_or_default();
    match name {
        "git" => around.git(args),
        "find" => around.find(args),
        "sed" => around.sed(args),
        "cd" => around.cd(args),
        "date" => around.date(args),
        name => match PLAIN.iter().find(|entry| entry.names.contains(&name)) {
            Some(entry) => around.plain(entry, args),
            None => Err(format!("`{name}` is not on the allowed list")),
        },
    }
}

/// A command, and where it looks.
struct Around<'a> {
    name: String,
    ground: &'a Ground,
    directories: &'a [PathBuf],
}

impl Around<'_> {
    fn git(&self, args: &[Word]) -> Result<(), String> {
        let skip = usize::from(args.first().and_then(Word::known) == Some("--no-pager"));
        let args = &args[skip..];
        let Some(sub) = args.first().and_then(Word::known) else {
            return Err("`git` without a known subcommand is not on the allowed list".to_owned());
        };
        let name = format!("git {sub}");
        match GIT.iter().find(|entry| entry.names.contains(&sub)) {
            Some(entry) => {
                Around { name, ..*self }.plain(entry, &args[1..])?;
                self.ground
                    .seen_from(self.directories)
                    .find_map(|dir| repository::doubt(&dir))
                    .map_or(Ok(()), Err)
            }
            None => Err(format!("`{name}` is not on the allowed list")),
        }
    }

    fn plain(&self, entry: &Harmless, args: &[Word]) -> Result<(), String> {
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

    fn option(&self, entry: &Harmless, option: &str) -> Result<(), String> {
        let is_known = match option.strip_prefix("--") {
            Some(long) => entry.long.contains(&long.split('=').next().unwrap_or(long)),
            None => option.chars().skip(1).all(|c| entry.short.contains(c) || c.is_ascii_digit()),
        };
        let name = &self.name;
        if is_known { Ok(()) } else { Err(format!("`{name} {option}` is not known to only look")) }
    }

    fn operands(&self, entry: &Harmless, operands: &[&Word]) -> Result<(), String> {
        let name = &self.name;
        let paths = match entry.operands {
            Operands::Text => return Ok(()),
            Operands::FormatThenText => return self.is_known(operands.first().copied()),
            Operands::Anything => return self.no_script_inside(operands),
            Operands::Paths => operands,
            Operands::PatternThenPaths => {
                if operands.first().is_some_and(|word| matches!(word.text, Text::Pattern(_))) {
                    return Err(format!("the pattern of `{name}` is not quoted"));
                }
                self.is_known(operands.first().copied())?;
                operands.get(1..).unwrap_or_default()
            }
            Operands::AtMost(count) => {
                let has_pattern = operands.iter().any(|word| word.known().is_none());
                if operands.len() > count || has_pattern {
                    return Err(format!("`{name}` may write with so many arguments"));
                }
                operands
            }
        };
        for word in paths {
            self.inside(word)?;
            if let (Text::Pattern(text), true) = (&word.text, entry.is_guarded)
                && text.starts_with(['*', '?', '['])
            {
                return Err(format!("`{text}` may become an option of `{name}`"));
            }
        }
        Ok(())
    }

    fn inside(&self, word: &Word) -> Result<(), String> {
        match self.ground.outside(word, self.directories) {
            None => Ok(()),
            Some(why) => {
                Err(format!("`{}` is allowed inside the working directory only, and {why}", self.name))
            }
        }
    }

    /// What is only known when it runs may be an option, or become several words.
    fn is_known(&self, word: Option<&Word>) -> Result<(), String> {
        match word.filter(|word| word.known().is_none()) {
            Some(word) => Err(format!("`{}` may become an option of `{}`", word.raw, self.name)),
            None => Ok(()),
        }
    }

    /// Some shells run what stands in the brackets of a variable's name, even in quotes, if they are asked for it by `-v`.
    /// That option, too, may come out of a variable.
    fn no_script_inside(&self, operands: &[&Word]) -> Result<(), String> {
        let hides = |word: &&&Word| match &word.text {
            Text::Known(text) => {
                text.contains("$(") || text.contains('`') || ["-v", "-R"].contains(&text.as_str())
            }
            Text::Pattern(_) => true,
            Text::Unknown => !is_one_word(&word.raw),
        };
        let two = |pair: &&[&Word]| pair.iter().all(|word| word.known().is_none());
        let found =
            operands.iter().find(hides).or_else(|| operands.windows(2).find(two).map(|pair| &pair[1]));
        match found {
            Some(word) => Err(format!("`{}` may run a part of `{}`", self.name, word.raw)),
            None => Ok(()),
        }
    }
}

/// Whether a word stands in one pair of double quotes.
fn is_one_word(raw: &str) -> bool {
    let inside = raw.strip_prefix('"').and_then(|raw| raw.strip_suffix('"'));
    inside.is_some_and(|inside| !inside.contains('"'))
}

/// The text of a word that is an option. What begins with a dash stays one, whatever a pattern after it becomes.
fn option(word: &Word) -> Option<&str> {
    match &word.text {
        Text::Known(text) | Text::Pattern(text) => {
            Some(text.as_str()).filter(|text| text.len() > 1 && text.starts_with('-'))
        }
        Text::Unknown => None,
    }
}
