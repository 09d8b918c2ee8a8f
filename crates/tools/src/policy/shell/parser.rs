//! Lists, pipelines and simple commands.

use std::collections::VecDeque;

use super::{Redirect, Simple, Text, Unclear, Word};

/// Scripts nest; nobody writes more than this by hand.
const MAX_DEPTH: usize = 16;

/// Words that have a meaning of their own where a command begins, and that are no command.
const CLOSERS: [&str; 8] = ["then", "elif", "else", "fi", "do", "done", "esac", "}"];
const NOT_READ: [(&str, &str); 6] = [
    ("function", "defines a function"),
    ("select", "has a `select` in it"),
    ("coproc", "has a `coproc` in it"),
    ("[[", "has a `[[` in it, which only some shells know"),
    ("let", "has a `let` in it, which only some shells know"),
    ("in", "has an `in` where a command is expected"),
];

pub(super) struct Parser {
    pub(super) chars: Vec<char>,
    pub(super) at: usize,
    pub(super) depth: usize,
    pub(super) found: Vec<Simple>,
    /// How many loops it is in.
    pub(super) loops: usize,
    heredocs: VecDeque<Heredoc>,
}

struct Heredoc {
    end: String,
    strips_tabs: bool,
    /// Substitutions in it are made.
    is_live: bool,
}

/// How a list ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Close {
    End,
    Paren,
    /// A word of [`CLOSERS`], which has been read.
    Word(String),
    /// `;;`
    Case,
}

impl Parser {
    pub(super) fn new(script: &str, depth: usize) -> Result<Self, Unclear> {
        if depth > MAX_DEPTH {
            return Unclear::because("is nested too deeply");
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

    pub(super) fn script(mut self) -> Result<Vec<Simple>, Unclear> {
        match self.list()? {
            Close::End if self.heredocs.is_empty() => Ok(self.found),
            Close::End => Unclear::because("has a here-document without an end"),
            Close::Paren => Unclear::because("has a `)` too many"),
            Close::Word(word) => Unclear::because(format!("has a `{word}` without its beginning")),
            Close::Case => Unclear::because("has a `;;` outside of a `case`"),
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

    /// Goes one level down for the time of `inner`.
    pub(super) fn nested<T>(
        &mut self,
        inner: impl FnOnce(&mut Self) -> Result<T, Unclear>,
    ) -> Result<T, Unclear> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Unclear::because("is nested too deeply");
        }
        let value = inner(self)?;
        self.depth -= 1;
        Ok(value)
    }

    /// Commands up to whatever ends the list.
    pub(super) fn list(&mut self) -> Result<Close, Unclear> {
        loop {
            self.blanks_and_lines()?;
            if let Some(close) = self.close()? {
                return Ok(close);
            }
            self.pipeline()?;
            self.blanks();
            if self.peek() == Some('&') && self.ahead("&>") {
                return Unclear::because("has `&>` in it, which shells read in two ways");
            }
            if self.ahead(";;") || self.ahead(";&") {
                continue;
            }
            let separated = self.skip("&&") || self.skip("||") || self.skip(";") || self.skip("&");
            let at_end = matches!(self.peek(), None | Some('\n' | ')'));
            if !separated && !at_end {
                return Unclear::because("has something after a command that does not belong there");
            }
        }
    }

    fn close(&mut self) -> Result<Option<Close>, Unclear> {
        match self.peek() {
            None => return Ok(Some(Close::End)),
            Some(')') => {
                self.at += 1;
                return Ok(Some(Close::Paren));
            }
            Some(';') if self.skip(";;") => return Ok(Some(Close::Case)),
            Some(';' | '&' | '|') => return Unclear::because("has a separator where a command is expected"),
            Some(_) => {}
        }
        let word = self.bare_word();
        if CLOSERS.contains(&word.as_str()) {
            self.at += word.chars().count();
            return Ok(Some(Close::Word(word)));
        }
        Ok(None)
    }

    /// The characters up to the next one that ends a word; quotes are among them.
    pub(super) fn bare_word(&self) -> String {
        self.chars[self.at..].iter().take_while(|c| !" \t\n;&|()<>".contains(**c)).collect()
    }

    fn pipeline(&mut self) -> Result<(), Unclear> {
        loop {
            self.blanks_and_lines()?;
            if self.bare_word() == "!" {
                self.at += 1;
                continue;
            }
            self.nested(Self::command)?;
            self.blanks();
            if self.ahead("|&") {
                return Unclear::because("has `|&` in it, which only some shells know");
            }
            if self.ahead("||") || !self.skip("|") {
                return Ok(());
            }
        }
    }

    fn command(&mut self) -> Result<(), Unclear> {
        if self.ahead("((") {
            return Unclear::because("has arithmetic in it");
        }
        let word = self.bare_word();
        if let Some((_, why)) = NOT_READ.iter().find(|(name, _)| *name == word) {
            return Unclear::because(*why);
        }
        if self.compound(&word)? { self.redirects_after() } else { self.simple() }
    }

    /// Files that a compound command reads or writes.
    fn redirects_after(&mut self) -> Result<(), Unclear> {
        let mut simple = Simple::default();
        self.blanks();
        while self.redirect(&mut simple)? {
            self.blanks();
        }
        if !simple.redirects.is_empty() {
            self.found.push(simple);
        }
        Ok(())
    }

    fn simple(&mut self) -> Result<(), Unclear> {
        let mut simple = Simple::default();
        // Its place is before the commands that its own words contain.
        let place = self.found.len();
        loop {
            self.blanks();
            match self.peek() {
                None | Some('\n' | ';' | '|' | ')' | '&') => break,
                Some('(') => return Unclear::because("has a `(` inside a command: a function, or a pattern"),
                Some(_) => {}
            }
            if self.redirect(&mut simple)? {
                continue;
            }
            let start = self.at;
            if let Some(name) = simple.words.is_empty().then(|| self.assigned_name()).flatten() {
                if self.peek() == Some('(') {
                    return Unclear::because("sets an array, which only some shells know");
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
        if simple == Simple::default() {
            return Unclear::because("has an empty command in it");
        }
        simple.in_loop = self.loops > 0;
        self.found.insert(place, simple);
        Ok(())
    }

    /// `NAME=` or `NAME+=`, read; nothing is read if there is none.
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

    /// Reads one redirection, if there is one here.
    fn redirect(&mut self, simple: &mut Simple) -> Result<bool, Unclear> {
        let digits = self.chars[self.at..].iter().take_while(|c| c.is_ascii_digit()).count();
        if !matches!(self.chars.get(self.at + digits), Some('<' | '>')) {
            return Ok(false);
        }
        self.at += digits;
        if self.ahead("<<<") || self.ahead("<(") || self.ahead(">(") {
            return Unclear::because(
                "has a here-string or a process substitution, which only some shells know",
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
            simple.redirects.push(Redirect { target, writes });
        }
        Ok(true)
    }

    fn heredoc(&mut self, strips_tabs: bool) -> Result<(), Unclear> {
        let word = self.word()?;
        let Text::Known(end) = word.text else {
            return Unclear::because("has a here-document whose end is not a plain word");
        };
        self.heredocs.push_back(Heredoc { is_live: end == word.raw, end, strips_tabs });
        Ok(())
    }

    /// Space between words, and lines that go on.
    pub(super) fn blanks(&mut self) {
        loop {
            match self.peek() {
                Some(' ' | '\t') => self.at += 1,
                Some('\\') if self.ahead("\\\n") => self.at += 2,
                // The caller is between words: here a `#` begins a comment.
                Some('#') => self.at += self.chars[self.at..].iter().take_while(|c| **c != '\n').count(),
                Some(_) | None => return,
            }
        }
    }

    /// Space between commands.
    pub(super) fn blanks_and_lines(&mut self) -> Result<(), Unclear> {
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

    fn heredoc_body(&mut self, heredoc: &Heredoc) -> Result<(), Unclear> {
        let mut body = String::new();
        loop {
            if self.peek().is_none() {
                return Unclear::because("has a here-document without an end");
            }
            let line: String = self.chars[self.at..].iter().take_while(|c| **c != '\n').collect();
            self.at = (self.at + line.chars().count() + 1).min(self.chars.len());
            let line = if heredoc.strips_tabs { line.trim_start_matches('\t') } else { &line };
            if line == heredoc.end {
                break;
            }
            if heredoc.is_live && line.ends_with('\\') {
                return Unclear::because("has a here-document that joins lines");
            }
            body.push_str(line);
            body.push('\n');
        }
        if heredoc.is_live {
            let mut inner = Self::new(&body, self.depth + 1)?;
            inner.live_text(None, &mut String::new())?;
            self.found.append(&mut inner.found);
        }
        Ok(())
    }
}

impl Word {
    pub(super) fn is(&self, text: &str) -> bool {
        self.raw == text
    }
}
