//! A parser for the subset of shell syntax that sh and bash interpret alike. It finds the commands of a script statically.
//!
//! **Invariant.** The result contains every simple command of the script in the order of the text, including those in lists,
//! pipelines, subshells, loops and substitutions. Syntax that shells interpret differently, or that could change the meaning
//! of a command, is a parse error.

mod compound;
mod parser;
mod word;

use std::fmt;

/// A simple command in the sense of POSIX: assignments, words and redirections.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SimpleCommand {
    /// Names of the variables that are assigned.
    pub assigns: Vec<String>,
    pub words: Vec<ShellWord>,
    pub redirects: Vec<Redirection>,
    /// The command is in a loop, so it may run more than once.
    pub in_loop: bool,
}

/// One word of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShellWord {
    /// The source text.
    pub raw: String,
    pub text: WordValue,
}

/// What is statically known of a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WordValue {
    /// The exact value.
    Known(String),
    /// A glob pattern, which expands to matching file names.
    Pattern(String),
    /// It depends on variables or on the output of commands.
    Unknown,
}

impl ShellWord {
    pub fn known(&self) -> Option<&str> {
        match &self.text {
            WordValue::Known(text) => Some(text),
            WordValue::Pattern(_) | WordValue::Unknown => None,
        }
    }

    /// A word whose value is known only at run time.
    pub fn unknown() -> Self {
        Self { raw: "…".to_owned(), text: WordValue::Unknown }
    }
}

/// A redirection to or from a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirection {
    pub target: ShellWord,
    pub writes: bool,
}

/// Why a script cannot be parsed. The text continues a sentence that begins with "it".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShellParseError(pub String);

impl fmt::Display for ShellParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl ShellParseError {
    fn fail<T>(why: impl Into<String>) -> Result<T, Self> {
        Err(Self(why.into()))
    }
}

/// Parses a script and returns all its simple commands.
pub fn parse(script: &str) -> Result<Vec<SimpleCommand>, ShellParseError> {
    reject_invisible_characters(script)?;
    parser::ShellParser::new(script, 0)?.script()
}

/// Rejects characters that a person who approves the script cannot see.
fn reject_invisible_characters(script: &str) -> Result<(), ShellParseError> {
    let is_blank = |byte: &u8| b" \t\n".contains(byte);
    let mut joins = script.match_indices("\\\n").map(|(at, _)| script.as_bytes()[..at].last());
    if joins.any(|before| !before.is_none_or(is_blank)) {
        return ShellParseError::fail("joins two lines inside a word");
    }
    for c in script.chars() {
        let number = c.escape_unicode();
        match c {
            '\n' | '\t' | ' ' => {}
            '\r' => return ShellParseError::fail("contains a carriage return"),
            c if c.is_control() => {
                return ShellParseError::fail(format!("contains a control character ({number})"));
            }
            c if c.is_whitespace() => {
                return ShellParseError::fail(format!(
                    "contains white space that shells do not recognize ({number})"
                ));
            }
            '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{ad}' => {
                return ShellParseError::fail(format!(
                    "contains an invisible or bidirectional character ({number})"
                ));
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
