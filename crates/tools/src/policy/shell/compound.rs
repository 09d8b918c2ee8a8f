//! Compound commands: groups, `if`, loops and `case`.

use super::{
    ShellParseError, SimpleCommand, WordValue,
    parser::{ListEnd, ShellParser},
};

impl ShellParser {
    /// Parses a compound command if `word` begins one.
    pub(super) fn compound(&mut self, word: &str) -> Result<bool, ShellParseError> {
        if self.skip("(") {
            self.until_paren()?;
            return Ok(true);
        }
        if !["{", "if", "while", "until", "for", "case"].contains(&word) {
            return Ok(false);
        }
        self.at += word.chars().count();
        match word {
            "{" => self.until(&["}"]).map(drop)?,
            "if" => self.branches()?,
            "for" => self.repeated(Self::loop_over)?,
            "case" => self.cases()?,
            _ => self.repeated(|parser| {
                parser.until(&["do"])?;
                parser.until(&["done"]).map(drop)
            })?,
        }
        Ok(true)
    }

    fn repeated(
        &mut self,
        body: impl FnOnce(&mut Self) -> Result<(), ShellParseError>,
    ) -> Result<(), ShellParseError> {
        self.loops += 1;
        body(self)?;
        self.loops -= 1;
        Ok(())
    }

    fn until_paren(&mut self) -> Result<(), ShellParseError> {
        match self.list()? {
            ListEnd::Paren => Ok(()),
            ListEnd::End | ListEnd::Word(_) | ListEnd::Case => {
                ShellParseError::fail("has a `(` without its `)`")
            }
        }
    }

    fn until(&mut self, words: &[&str]) -> Result<String, ShellParseError> {
        match self.list()? {
            ListEnd::Word(word) if words.contains(&word.as_str()) => Ok(word),
            ListEnd::Word(word) => ShellParseError::fail(format!("has a `{word}` where it does not belong")),
            ListEnd::End | ListEnd::Paren | ListEnd::Case => {
                ShellParseError::fail(format!("lacks its `{}`", words[words.len() - 1]))
            }
        }
    }

    fn branches(&mut self) -> Result<(), ShellParseError> {
        loop {
            self.until(&["then"])?;
            match self.until(&["elif", "else", "fi"])?.as_str() {
                "elif" => {}
                "else" => return self.until(&["fi"]).map(drop),
                _ => return Ok(()),
            }
        }
    }

    fn loop_over(&mut self) -> Result<(), ShellParseError> {
        self.blanks();
        let name = self.word()?;
        let WordValue::Known(variable) = &name.text else {
            return ShellParseError::fail("has a `for` without a plain name");
        };
        self.found.push(SimpleCommand { assigns: vec![variable.clone()], ..SimpleCommand::default() });
        self.blanks_and_lines()?;
        if self.bare_word() == "in" {
            self.at += 2;
            self.blanks();
            while !matches!(self.peek(), None | Some(';' | '\n')) {
                self.word()?;
                self.blanks();
            }
        }
        self.skip(";");
        self.until(&["do"])?;
        self.until(&["done"]).map(drop)
    }

    fn cases(&mut self) -> Result<(), ShellParseError> {
        self.blanks();
        self.word()?;
        self.blanks_and_lines()?;
        if !self.word()?.is("in") {
            return ShellParseError::fail("has a `case` without its `in`");
        }
        loop {
            self.blanks_and_lines()?;
            if self.bare_word() == "esac" {
                self.at += 4;
                return Ok(());
            }
            self.patterns()?;
            match self.list()? {
                ListEnd::Case => {}
                ListEnd::Word(word) if word == "esac" => return Ok(()),
                ListEnd::End | ListEnd::Paren | ListEnd::Word(_) => {
                    return ShellParseError::fail("has a `case` without its `esac`");
                }
            }
        }
    }

    fn patterns(&mut self) -> Result<(), ShellParseError> {
        self.skip("(");
        loop {
            self.blanks();
            self.word()?;
            self.blanks();
            if self.skip(")") {
                return Ok(());
            }
            if !self.skip("|") {
                return ShellParseError::fail("has a pattern without its `)`");
            }
        }
    }
}
