//! Words: quotes, variables and substitutions.

use super::{
    Text, Unclear, Word,
    parser::{Close, Parser},
};

/// What a word has shown itself to be so far.
#[derive(Default)]
struct Draft {
    text: String,
    has_pattern: bool,
    is_unknown: bool,
}

impl Parser {
    /// Reads one word, and the commands that are in it.
    pub(super) fn word(&mut self) -> Result<Word, Unclear> {
        let start = self.at;
        let mut draft = Draft::default();
        while let Some(c) = self.peek() {
            match c {
                ' ' | '\t' | '\n' | ';' | '&' | '|' | '<' | '>' | ')' => break,
                '(' => return Unclear::because("has a `(` inside a word: a function, or a pattern"),
                c => self.piece(c, start, &mut draft)?,
            }
        }
        if self.at == start {
            return Unclear::because("lacks a word where one is expected");
        }
        let raw: String = self.chars[start..self.at].iter().collect();
        let text = match draft {
            Draft { is_unknown: true, .. } => Text::Unknown,
            // Alone it is a command.
            Draft { has_pattern: true, text, .. } if text != "[" => Text::Pattern(text),
            Draft { text, .. } => Text::Known(text),
        };
        Ok(Word { raw, text })
    }

    fn piece(&mut self, c: char, start: usize, draft: &mut Draft) -> Result<(), Unclear> {
        match c {
            '\'' => self.single_quoted(&mut draft.text),
            '"' => {
                self.at += 1;
                draft.is_unknown |= self.live_text(Some('"'), &mut draft.text)?;
                Ok(())
            }
            '\\' => self.escaped(&mut draft.text),
            '$' | '`' => {
                draft.is_unknown |= self.expansion(&mut draft.text)?;
                Ok(())
            }
            c => {
                draft.has_pattern |= "*?[".contains(c);
                // A home directory, or a brace that only some shells expand.
                draft.is_unknown |= c == '~' && self.at == start;
                draft.is_unknown |=
                    c == '{' && self.chars.get(self.at + 1).is_some_and(|next| !"} \t\n;".contains(*next));
                draft.text.push(c);
                self.at += 1;
                Ok(())
            }
        }
    }

    fn single_quoted(&mut self, text: &mut String) -> Result<(), Unclear> {
        self.at += 1;
        while let Some(c) = self.peek() {
            self.at += 1;
            if c == '\'' {
                return Ok(());
            }
            text.push(c);
        }
        Unclear::because("has a quote without an end")
    }

    fn escaped(&mut self, text: &mut String) -> Result<(), Unclear> {
        self.at += 1;
        match self.peek() {
            None => Unclear::because("ends in a backslash"),
            Some(c) => {
                self.at += 1;
                text.extend((c != '\n').then_some(c));
                Ok(())
            }
        }
    }

    /// Text in which variables and substitutions are made, up to `end` or to the end of all. Says whether there were any.
    pub(super) fn live_text(&mut self, end: Option<char>, text: &mut String) -> Result<bool, Unclear> {
        let mut is_unknown = false;
        while let Some(c) = self.peek() {
            match c {
                c if Some(c) == end => {
                    self.at += 1;
                    return Ok(is_unknown);
                }
                '$' | '`' => is_unknown |= self.expansion(text)?,
                '\\' if matches!(self.chars.get(self.at + 1), Some('$' | '`' | '"' | '\\' | '\n')) => {
                    self.escaped(text)?;
                }
                c => {
                    text.push(c);
                    self.at += 1;
                }
            }
        }
        if end.is_some() { Unclear::because("has a quote without an end") } else { Ok(is_unknown) }
    }

    /// What begins with `$` or a backtick. Says whether it becomes something unknown; else it is in `text`.
    fn expansion(&mut self, text: &mut String) -> Result<bool, Unclear> {
        if self.peek() == Some('`') {
            return self.backticks().map(|()| true);
        }
        if self.ahead("$((") || self.ahead("$[") {
            return Unclear::because("has arithmetic in it");
        }
        if self.ahead("$'") || self.ahead("$\"") {
            return Unclear::because("has a quote with a `$` before it, which shells read in two ways");
        }
        if self.skip("$(") {
            let before = self.awaits_heredoc();
            let close = self.nested(Self::list)?;
            // Shells differ in where such a document lies: what one takes for text is a command to the other.
            if before || self.awaits_heredoc() {
                return Unclear::because("has a here-document across the end of a substitution");
            }
            return match close {
                Close::Paren => Ok(true),
                Close::End | Close::Word(_) | Close::Case => {
                    Unclear::because("has a substitution without an end")
                }
            };
        }
        self.at += 1;
        match self.peek() {
            Some('{') => self.braced().map(|()| true),
            Some(c) if c.is_ascii_alphabetic() || c == '_' => {
                let name = |c: &&char| c.is_ascii_alphanumeric() || **c == '_';
                self.at += self.chars[self.at..].iter().take_while(name).count();
                Ok(true)
            }
            Some(c) if c.is_ascii_digit() || "?#$!@*-".contains(c) => {
                self.at += 1;
                Ok(true)
            }
            Some(_) | None => {
                text.push('$');
                Ok(false)
            }
        }
    }

    /// `${NAME}` and nothing more: the rest is a language of its own.
    fn braced(&mut self) -> Result<(), Unclear> {
        self.at += 1;
        let name = |c: &&char| c.is_ascii_alphanumeric() || **c == '_';
        let length = self.chars[self.at..].iter().take_while(name).count();
        self.at += length;
        if length == 0 || !self.skip("}") {
            return Unclear::because("has a `${…}` in it that does more than name a variable");
        }
        Ok(())
    }

    fn backticks(&mut self) -> Result<(), Unclear> {
        self.at += 1;
        let mut script = String::new();
        loop {
            let Some(c) = self.peek() else {
                return Unclear::because("has a substitution without an end");
            };
            self.at += 1;
            match (c, self.peek()) {
                ('`', _) => break,
                ('\\', Some('"')) => {
                    return Unclear::because("has a quote in backticks, which is read in two ways");
                }
                ('\\', Some(next @ ('`' | '\\' | '$'))) => {
                    script.push(next);
                    self.at += 1;
                }
                (c, _) => script.push(c),
            }
        }
        let mut inner = Self::new(&script, self.depth + 1)?.script()?;
        self.found.append(&mut inner);
        Ok(())
    }
}
