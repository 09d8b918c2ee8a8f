//! Lists, pipelines and simple commands.

use std::collections::VecDeque;

use super::{Redirection, ShellParseError, ShellWord, SimpleCommand, WordValue};

/// Limits recursion, so that no script overflows the stack.
const MAX_DEPTH: usize = 16;

/// Reserved words that end a list.
const CLOSERS: [&str; 8] = ["then", "elif", "else", "fi", "do", "done", "esac", "}"];
/// Reserved words that are not supported, with the error text.
const UNSUPPORTED: [(&str, &str); 6] = [
    ("function", "defines a function"),
    ("select", "contains `select`"),
    ("coproc", "contains `coproc`"),
    ("[[", "contains `[[`, which not all shells support"),
    ("let", "contains `let`, which not all shells support"),
    ("in", "has an `in` where a command is expected"),
];

pub(super) struct ShellParser {
    pub(super) chars: Vec<char>,
    pub(super) at: usize,
    pub(super) depth: usize,
    pub(super) found: Vec<SimpleCommand>,
    /// How many loops the current position is in.
    pub(super) loops: usize,
    heredocs: VecDeque<Heredoc>,
}

struct Heredoc {
    end: String,
    strips_tabs: bool,
    /// Variables and substitutions in the body are expanded.
    is_expanded: bool,
}

/// What ended a list.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ListEnd {
    End,
    Paren,
    /// A word of [`CLOSERS`], which has been consumed.
    Word(String),
    /// `;;`
    Case,
}

impl ShellParser {
    pub(super) fn new(script: &str, depth: usize) -> Result<Self, ShellParseError> {
        if depth > MAX_DEPTH {
            return ShellParseError::fail("is nested too deeply");
        }
        Ok(Self {
            chars: script.chars().collect(),
            at: 0,
            depth,
            found: Vec::new(),
            loops: 0,
            heredocs: VecDeque::new(),
        })
    }

    pub(super) fn script(mut self) -> Result<Vec<SimpleCommand>, ShellParseError> {
        match self.list()? {
            ListEnd::End if self.heredocs.is_empty() => Ok(self.found),
            ListEnd::End => ShellParseError::fail("has an unterminated here-document"),
            ListEnd::Paren => ShellParseError::fail("has an unmatched `)`"),
            ListEnd::Word(word) => ShellParseError::fail(format!("has an unmatched `{word}`")),
            ListEnd::Case => ShellParseError::fail("has a `;;` outside of a `case`"),
        }
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    pub(super) fn ahead(&self, text: &str) -> bool {
        text.chars().enumerate().all(|(offset, c)| self.chars.get(self.at + offset) == Some(&c))
    }

    pub(super) fn skip(&mut self, text: &str) -> bool {
        let is_there = self.ahead(text);
        self.at += if is_there { text.chars().count() } else { 0 };
        is_there
    }

    pub(super) fn awaits_heredoc(&self) -> bool {
        !self.heredocs.is_empty()
    }

    /// Runs `inner` one nesting level deeper.
    pub(super) fn nested<T>(
        &mut self,
        inner: impl FnOnce(&mut Self) -> Result<T, ShellParseError>,
    ) -> Result<T, ShellParseError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return ShellParseError::fail("is nested too deeply");
        }
        let value = inner(self)?;
        self.depth -= 1;
        Ok(value)
    }

    /// Parses commands up to the end of the list.
    pub(super) fn list(&mut self) -> Result<ListEnd, ShellParseError> {
        loop {
            self.blanks_and_lines()?;
            if let Some(close) = self.close()? {
                return Ok(close);
            }
            self.pipeline()?;
            self.blanks();
            if self.peek() == Some('&') && self.ahead("&>") {
                return ShellParseError::fail("contains `&>`, which shells interpret differently");
            }
            if self.ahead(";;") || self.ahead(";&") {
                continue;
            }
            let separated = self.skip("&&") || self.skip("||") || self.skip(";") || self.skip("&");
            let at_end = matches!(self.peek(), None | Some('\n' | ')'));
            if !separated && !at_end {
                return ShellParseError::fail("has unexpected text after a command");
            }
        }
    }

    fn close(&mut self) -> Result<Option<ListEnd>, ShellParseError> {
        match self.peek() {
            None => return Ok(Some(ListEnd::End)),
            Some(')') => {
                self.at += 1;
                return Ok(Some(ListEnd::Paren));
            }
            Some(';') if self.skip(";;") => return Ok(Some(ListEnd::Case)),
            Some(';' | '&' | '|') => {
                return ShellParseError::fail("has a separator where a command is expected");
            }
            Some(_) => {}
        }
        let word = self.bare_word();
        if CLOSERS.contains(&word.as_str()) {
            self.at += word.chars().count();
            return Ok(Some(ListEnd::Word(word)));
        }
        Ok(None)
    }

    /// The characters up to the end of the word, including quotes.
    pub(super) fn bare_word(&self) -> String {
        self.chars[self.at..].iter().take_while(|c| !" \t\n;&|()<>".contains(**c)).collect()
    }

    fn pipeline(&mut self) -> Result<(), ShellParseError> {
        loop {
            self.blanks_and_lines()?;
            if self.bare_word() == "!" {
                self.at += 1;
                continue;
            }
            self.nested(Self::command)?;
            self.blanks();
            if self.ahead("|&") {
                return ShellParseError::fail("contains `|&`, which not all shells support");
            }
            if self.ahead("||") || !self.skip("|") {
                return Ok(());
            }
        }
    }

    fn command(&mut self) -> Result<(), ShellParseError> {
        if self.ahead("((") {
            return ShellParseError::fail("contains arithmetic");
        }
        let word = self.bare_word();
        if let Some((_, why)) = UNSUPPORTED.iter().find(|(name, _)| *name == word) {
            return ShellParseError::fail(*why);
        }
        if self.compound(&word)? { self.redirects_after() } else { self.simple() }
    }

    /// Parses the redirections of a compound command.
    fn redirects_after(&mut self) -> Result<(), ShellParseError> {
        let mut simple = SimpleCommand::default();
        self.blanks();
        while self.redirect(&mut simple)? {
            self.blanks();
        }
        if !simple.redirects.is_empty() {
            self.found.push(simple);
        }
        Ok(())
    }

    fn simple(&mut self) -> Result<(), ShellParseError> {
        let mut simple = SimpleCommand::default();
        // It comes before the commands in the substitutions of its words.
        let index = self.found.len();
        loop {
            self.blanks();
            match self.peek() {
                None | Some('\n' | ';' | '|' | ')' | '&') => break,
                Some('(') => {
                    return ShellParseError::fail("has a `(` inside a command, as in a function or pattern");
                }
                Some(_) => {}
            }
            if self.redirect(&mut simple)? {
                continue;
            }
            let start = self.at;
            if let Some(name) = simple.words.is_empty().then(|| self.assigned_name()).flatten() {
                if self.peek() == Some('(') {
                    return ShellParseError::fail("assigns an array, which not all shells support");
                }
                if !matches!(self.peek(), None | Some(' ' | '\t' | '\n' | ';' | '&' | '|' | ')')) {
                    self.word()?;
                }
                simple.assigns.push(name);
                continue;
            }
            self.at = start;
            let word = self.word()?;
            simple.words.push(word);
        }
        if simple == SimpleCommand::default() {
            return ShellParseError::fail("contains an empty command");
        }
        simple.in_loop = self.loops > 0;
        self.found.insert(index, simple);
        Ok(())
    }

    /// Consumes `NAME=` or `NAME+=` and returns the name, or consumes nothing.
    fn assigned_name(&mut self) -> Option<String> {
        let name: String =
            self.chars[self.at..].iter().take_while(|c| c.is_ascii_alphanumeric() || **c == '_').collect();
        let start = self.at;
        self.at += name.len();
        let is_name = name.starts_with(|c: char| !c.is_ascii_digit());
        if is_name && (self.skip("=") || self.skip("+=")) {
            return Some(name);
        }
        self.at = start;
        None
    }

    /// Parses one redirection, if there is one.
    fn redirect(&mut self, simple: &mut SimpleCommand) -> Result<bool, ShellParseError> {
        let digits = self.chars[self.at..].iter().take_while(|c| c.is_ascii_digit()).count();
        if !matches!(self.chars.get(self.at + digits), Some('<' | '>')) {
            return Ok(false);
        }
        self.at += digits;
        if self.ahead("<<<") || self.ahead("<(") || self.ahead(">(") {
            return ShellParseError::fail(
                "has a here-string or a process substitution, which not all shells support",
            );
        }
        if self.skip("<<") {
            let strips_tabs = self.skip("-");
            self.blanks();
            return self.heredoc(strips_tabs).map(|()| true);
        }
        let operators = [
            (">>", true),
            (">|", true),
            (">&", true),
            ("<>", true),
            ("<&", false),
            (">", true),
            ("<", false),
        ];
        let Some((operator, writes)) = operators.into_iter().find(|(operator, _)| self.skip(operator)) else {
            return Ok(false);
        };
        self.blanks();
        let target = self.word()?;
        let copies =
            target.known().is_some_and(|text| text == "-" || text.chars().all(|c| c.is_ascii_digit()));
        if !(operator.ends_with('&') && copies) {
            simple.redirects.push(Redirection { target, writes });
        }
        Ok(true)
    }

    fn heredoc(&mut self, strips_tabs: bool) -> Result<(), ShellParseError> {
        let word = self.word()?;
        let WordValue::Known(end) = word.text else {
            return ShellParseError::fail("has a here-document whose delimiter is not a plain word");
        };
        self.heredocs.push_back(Heredoc { is_expanded: end == word.raw, end, strips_tabs });
        Ok(())
    }

    /// Skips space between words, line continuations and comments.
    pub(super) fn blanks(&mut self) {
        loop {
            match self.peek() {
                Some(' ' | '\t') => self.at += 1,
                Some('\\') if self.ahead("\\\n") => self.at += 2,
                // Between words, `#` begins a comment.
                Some('#') => self.at += self.chars[self.at..].iter().take_while(|c| **c != '\n').count(),
                Some(_) | None => return,
            }
        }
    }

    /// Skips space and line breaks between commands, and parses pending here-documents.
    pub(super) fn blanks_and_lines(&mut self) -> Result<(), ShellParseError> {
        loop {
            self.blanks();
            if self.peek() != Some('\n') {
                return Ok(());
            }
            self.at += 1;
            while let Some(heredoc) = self.heredocs.pop_front() {
                self.heredoc_body(&heredoc)?;
            }
        }
    }

    fn heredoc_body(&mut self, heredoc: &Heredoc) -> Result<(), ShellParseError> {
        let mut body = String::new();
        loop {
            if self.peek().is_none() {
                return ShellParseError::fail("has an unterminated here-document");
            }
            let line: String = self.chars[self.at..].iter().take_while(|c| **c != '\n').collect();
            self.at = (self.at + line.chars().count() + 1).min(self.chars.len());
            let line = if heredoc.strips_tabs { line.trim_start_matches('\t') } else { &line };
            if line == heredoc.end {
                break;
            }
            if heredoc.is_expanded && line.ends_with('\\') {
                return ShellParseError::fail("has a here-document that joins lines");
            }
            body.push_str(line);
            body.push('\n');
        }
        if heredoc.is_expanded {
            let mut inner = Self::new(&body, self.depth + 1)?;
            inner.expanded_text(None, &mut String::new())?;
            self.found.append(&mut inner.found);
        }
        Ok(())
    }
}

impl ShellWord {
    pub(super) fn is(&self, text: &str) -> bool {
        self.raw == text
    }
}
