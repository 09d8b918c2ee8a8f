//! What a shell script would run, without running it: a parser for the part of sh that sh and bash read alike.
//!
//! **Invariant.** Every simple command of a script that parses is in the answer, in the order of the text, whether it stands
//! in a list, a pipeline, a subshell, a loop or a substitution. Whatever is read differently by different shells, or could
//! give a command another meaning, does not parse.

mod compound;
mod parser;
mod word;

use std::fmt;

/// A command as the shell would start it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Simple {
    /// Names of variables that are set for it, or by it.
    pub assigns: Vec<String>,
    pub words: Vec<Word>,
    pub redirects: Vec<Redirect>,
    /// It may run more than once.
    pub in_loop: bool,
}

/// One word of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// As it is written.
    pub raw: String,
    pub text: Text,
}

/// What is known of a word before the script runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Text {
    /// All of it.
    Known(String),
    /// It becomes the names of files that fit the pattern.
    Pattern(String),
    /// It depends on variables or on what other commands print.
    Unknown,
}

impl Word {
    pub fn known(&self) -> Option<&str> {
        match &self.text {
            Text::Known(text) => Some(text),
            Text::Pattern(_) | Text::Unknown => None,
        }
    }

    /// A word that only the run knows.
    pub fn unknown() -> Self {
        Self { raw: "…".to_owned(), text: Text::Unknown }
    }
}

/// A file that the shell itself opens for a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirect {
    pub target: Word,
    pub writes: bool,
}

/// Why a script was not understood, as a sentence goes on after "it".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unclear(pub String);

impl fmt::Display for Unclear {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Unclear {
    fn because<T>(why: impl Into<String>) -> Result<T, Self> {
        Err(Self(why.into()))
    }
}

/// All simple commands of a script.
pub fn parse(script: &str) -> Result<Vec<Simple>, Unclear> {
    refuse_what_hides(script)?;
    parser::Parser::new(script, 0)?.script()
}

/// What a person cannot see must not decide what runs.
fn refuse_what_hides(script: &str) -> Result<(), Unclear> {
    let is_blank = |byte: &u8| b" \t\n".contains(byte);
    let mut joins = script.match_indices("\\\n").map(|(at, _)| script.as_bytes()[..at].last());
    if joins.any(|before| !before.is_none_or(is_blank)) {
        return Unclear::because("joins two lines inside a word");
    }
    for c in script.chars() {
        let number = c.escape_unicode();
        match c {
            '\n' | '\t' | ' ' => {}
            '\r' => return Unclear::because("has a carriage return in it"),
            c if c.is_control() => {
                return Unclear::because(format!("has a control character in it ({number})"));
            }
            c if c.is_whitespace() => {
                return Unclear::because(format!("has white space that is none to a shell ({number})"));
            }
            '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{ad}' => {
                return Unclear::because(format!("has a character that hides or turns text ({number})"));
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
