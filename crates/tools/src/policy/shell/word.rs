//! Words: quotes, variables and command substitutions.

use super::{
    ShellParseError, ShellWord, WordValue,
    parser::{ListEnd, ShellParser},
};

/// A word while it is parsed.
#[derive(Default)]
struct WordBuilder {
    text: String,
    has_pattern: bool,
    is_unknown: bool,
}

impl ShellParser {
    /// Parses one word and the commands in its substitutions.
    pub(super) fn word(&mut self) -> Result<ShellWord, ShellParseError> {
        let start = self.at;
        let mut builder = WordBuilder::default();
        while let Some(c) = self.peek() {
            match c {
                ' ' | '\t' | '\n' | ';' | '&' | '|' | '<' | '>' | ')' => break,
                '(' => return ShellParseError::fail("has a `(` inside a word, as in a function or pattern"),
                c => self.piece(c, start, &mut builder)?,
            }
        }
        if self.at == start {
            return ShellParseError::fail("lacks a word where one is expected");
        }
        let raw: String = self.chars[start..self.at].iter().collect();
        let text = match builder {
            WordBuilder { is_unknown: true, .. } => WordValue::Unknown,
            // A lone `[` is the test command.
            WordBuilder { has_pattern: true, text, .. } if text != "[" => WordValue::Pattern(text),
            WordBuilder { text, .. } => WordValue::Known(text),
        };
        Ok(ShellWord { raw, text })
    }

    fn piece(&mut self, c: char, start: usize, builder: &mut WordBuilder) -> Result<(), ShellParseError> {
        match c {
            '\'' => self.single_quoted(&mut builder.text),
            '"' => {
                self.at += 1;
                builder.is_unknown |= self.expanded_text(Some('"'), &mut builder.text)?;
                Ok(())
            }
            '\\' => self.escaped(&mut builder.text),
            '$' | '`' => {
                builder.is_unknown |= self.expansion(&mut builder.text)?;
                Ok(())
            }
            c => {
                builder.has_pattern |= "*?[".contains(c);
                // A tilde expands to a home directory, and a brace only in some shells.
                builder.is_unknown |= c == '~' && self.at == start;
                builder.is_unknown |=
                    c == '{' && self.chars.get(self.at + 1).is_some_and(|next| !"} \t\n;".contains(*next));
                builder.text.push(c);
                self.at += 1;
                Ok(())
            }
        }
    }

    fn single_quoted(&mut self, text: &mut String) -> Result<(), ShellParseError> {
        self.at += 1;
        while let Some(c) = self.peek() {
            self.at += 1;
            if c == '\'' {
                return Ok(());
            }
            text.push(c);
        }
        ShellParseError::fail("has an unterminated quote")
    }

    fn escaped(&mut self, text: &mut String) -> Result<(), ShellParseError> {
        self.at += 1;
        match self.peek() {
            None => ShellParseError::fail("ends in a backslash"),
            Some(c) => {
                self.at += 1;
                text.extend((c != '\n').then_some(c));
                Ok(())
            }
        }
    }

    /// Parses text in which variables and substitutions are expanded, up to `end` or the end of the script. Returns whether
    /// there are any.
    pub(super) fn expanded_text(
        &mut self,
        end: Option<char>,
        text: &mut String,
    ) -> Result<bool, ShellParseError> {
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
        if end.is_some() { ShellParseError::fail("has an unterminated quote") } else { Ok(is_unknown) }
    }

    /// Parses an expansion that begins with `$` or a backtick. Returns whether its value is unknown; else it is in `text`.
    fn expansion(&mut self, text: &mut String) -> Result<bool, ShellParseError> {
        if self.peek() == Some('`') {
            return self.backticks().map(|()| true);
        }
        if self.ahead("$((") || self.ahead("$[") {
            return ShellParseError::fail("contains arithmetic");
        }
        if self.ahead("$'") || self.ahead("$\"") {
            return ShellParseError::fail("has a `$` before a quote, which shells interpret differently");
        }
        if self.skip("$(") {
            let before = self.awaits_heredoc();
            let close = self.nested(Self::list)?;
            // Shells differ in where such a here-document ends: what is text to one is a command to the other.
            if before || self.awaits_heredoc() {
                return ShellParseError::fail("has a here-document that crosses the end of a substitution");
            }
            return match close {
                ListEnd::Paren => Ok(true),
                ListEnd::End | ListEnd::Word(_) | ListEnd::Case => {
                    ShellParseError::fail("has an unterminated substitution")
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

    /// Parses `${NAME}`. Other parameter expansions are not supported.
    fn braced(&mut self) -> Result<(), ShellParseError> {
        self.at += 1;
        let name = |c: &&char| c.is_ascii_alphanumeric() || **c == '_';
        let length = self.chars[self.at..].iter().take_while(name).count();
        self.at += length;
        if length == 0 || !self.skip("}") {
            return ShellParseError::fail("has a `${…}` that is not only a variable name");
        }
        Ok(())
    }

    fn backticks(&mut self) -> Result<(), ShellParseError> {
        self.at += 1;
        let mut script = String::new();
        loop {
            let Some(c) = self.peek() else {
                return ShellParseError::fail("has an unterminated substitution");
            };
            self.at += 1;
            match (c, self.peek()) {
                ('`', _) => break,
                ('\\', Some('"')) => {
                    return ShellParseError::fail(
                        "has an escaped quote in backticks, which shells interpret differently",
                    );
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
