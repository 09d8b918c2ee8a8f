//! Compound commands: their parts are lists like any other.

use super::{
    Simple, Text, Unclear,
    parser::{Close, Parser},
};

impl Parser {
    /// Reads a compound command if `word` begins one.
    pub(super) fn compound(&mut self, word: &str) -> Result<bool, Unclear> {
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

    fn repeated(&mut self, body: impl FnOnce(&mut Self) -> Result<(), Unclear>) -> Result<(), Unclear> {
        self.loops += 1;
        body(self)?;
        self.loops -= 1;
        Ok(())
    }

    fn until_paren(&mut self) -> Result<(), Unclear> {
        match self.list()? {
            Close::Paren => Ok(()),
            Close::End | Close::Word(_) | Close::Case => Unclear::because("has a `(` without its `)`"),
        }
    }

    fn until(&mut self, words: &[&str]) -> Result<String, Unclear> {
        match self.list()? {
            Close::Word(word) if words.contains(&word.as_str()) => Ok(word),
            Close::Word(word) => Unclear::because(format!("has a `{word}` where it does not belong")),
            Close::End | Close::Paren | Close::Case => {
                Unclear::because(format!("lacks its `{}`", words[words.len() - 1]))
            }
        }
    }

    fn branches(&mut self) -> Result<(), Unclear> {
        loop {
            self.until(&["then"])?;
            match self.until(&["elif", "else", "fi"])?.as_str() {
                "elif" => {}
                "else" => return self.until(&["fi"]).map(drop),
                _ => return Ok(()),
            }
        }
    }

    fn loop_over(&mut self) -> Result<(), Unclear> {
        self.blanks();
        let name = self.word()?;
        let Text::Known(variable) = &name.text else {
            return Unclear::because("has a `for` without a plain name");
        };
        self.found.push(Simple { assigns: vec![variable.clone()], ..Simple::default() });
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

    fn cases(&mut self) -> Result<(), Unclear> {
        self.blanks();
        self.word()?;
        self.blanks_and_lines()?;
        if !self.word()?.is("in") {
            return Unclear::because("has a `case` without its `in`");
        }
        loop {
            self.blanks_and_lines()?;
            if self.bare_word() == "esac" {
                self.at += 4;
                return Ok(());
            }
            self.patterns()?;
            match self.list()? {
                Close::Case => {}
                Close::Word(word) if word == "esac" => return Ok(()),
                Close::End | Close::Paren | Close::Word(_) => {
                    return Unclear::because("has a `case` without its `esac`");
                }
            }
        }
    }

    fn patterns(&mut self) -> Result<(), Unclear> {
        self.skip("(");
        loop {
            self.blanks();
            self.word()?;
            self.blanks();
            if self.skip(")") {
                return Ok(());
            }
            if !self.skip("|") {
                return Unclear::because("has a pattern without its `)`");
            }
        }
    }
}
