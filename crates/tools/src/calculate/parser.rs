//! The grammar, evaluated while it is read: `sum = product (± product)*`, `product = unary (×÷% unary)*`,
//! `unary = -unary | power`, `power = percent (^ unary)?`, `percent = atom %*`.

use super::{Fault, function, function::Function, number::Number};
use crate::Error;

/// Deep enough for people, shallow enough for any stack.
const MAX_DEPTH: usize = 100;
const MAX_BYTES: usize = 10_000;
const HUNDRED: Number = Number::whole(100);

/// Computes an expression.
pub(super) fn evaluate(expression: &str) -> Result<Number, Error> {
    let mut parser = Parser { text: expression, at: 0, depth: 0, in_arguments: false };
    parser.whole().map_err(|(at, fault)| Error::Expression { column: column(expression, at), fault })
}

/// Counted in characters from 1, as editors do.
fn column(text: &str, at: usize) -> usize {
    text[..at].chars().count() + 1
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    /// Between the parentheses of a function a comma parts arguments; elsewhere it groups digits.
    in_arguments: bool,
}

/// A number, and whether it was written as a bare percentage: `200 + 10%` means 220.
#[derive(Clone, Copy)]
struct Term {
    value: Number,
    percent: bool,
}

type Parsed<T> = Result<T, (usize, Fault)>;

impl<'a> Parser<'a> {
    fn whole(&mut self) -> Parsed<Number> {
        if self.text.len() > MAX_BYTES {
            return Err((0, Fault::TooLong(MAX_BYTES)));
        }
        if self.text.trim().is_empty() {
            return Err((0, Fault::Empty));
        }
        let value = self.sum()?;
        self.space();
        if self.rest().is_empty() { Ok(value) } else { Err(self.unexpected()) }
    }

    fn sum(&mut self) -> Parsed<Number> {
        let mut left = self.product()?;
        loop {
            let at = self.next_at();
            let compute = if self.eat("+") {
                Number::plus
            } else if self.eat("-") || self.eat("−") {
                Number::minus
            } else {
                return Ok(left.value);
            };
            let right = self.product()?;
            let amount =
                if right.percent && !left.percent { left.value.times(right.value) } else { Ok(right.value) };
            let value = amount.and_then(|amount| compute(left.value, amount)).map_err(|fault| (at, fault))?;
            left = Term { value, percent: left.percent && right.percent };
        }
    }

    fn product(&mut self) -> Parsed<Term> {
        let mut left = self.unary()?;
        loop {
            let at = self.next_at();
            let compute =
                if self.eat("*") || self.eat("×") || self.eat("·") || (left.percent && self.word("of")) {
                    Number::times
                } else if self.eat("/") || self.eat("÷") {
                    Number::divided_by
                } else if self.eat("%") || self.word("mod") {
                    Number::modulo
                } else {
                    return Ok(left);
                };
            let right = self.unary()?;
            let value = compute(left.value, right.value).map_err(|fault| (at, fault))?;
            left = Term { value, percent: false };
        }
    }

    fn unary(&mut self) -> Parsed<Term> {
        let at = self.next_at();
        if self.eat("+") {
            return self.deeper(at, Self::unary);
        }
        if self.eat("-") || self.eat("−") {
            let term = self.deeper(at, Self::unary)?;
            return Ok(Term { value: term.value.negate().map_err(|fault| (at, fault))?, ..term });
        }
        self.power()
    }

    fn power(&mut self) -> Parsed<Term> {
        let base = self.percent()?;
        let at = self.next_at();
        if !(self.eat("^") || self.eat("**")) {
            return Ok(base);
        }
        let exponent = self.deeper(at, Self::unary)?;
        let value = base.value.power(exponent.value).map_err(|fault| (at, fault))?;
        Ok(Term { value, percent: false })
    }

    fn percent(&mut self) -> Parsed<Term> {
        let mut term = Term { value: self.atom()?, percent: false };
        while self.percent_sign_ahead() {
            let at = self.next_at();
            self.eat("%");
            let value = term.value.divided_by(HUNDRED).map_err(|fault| (at, fault))?;
            term = Term { value, percent: true };
        }
        Ok(term)
    }

    /// `%` is a remainder when an operand follows it, and a percentage otherwise.
    fn percent_sign_ahead(&mut self) -> bool {
        self.space();
        let Some(after) = self.rest().strip_prefix('%') else { return false };
        let after = after.trim_start();
        let word = after.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
        let operand = after.starts_with(|c: char| c.is_alphanumeric() || c == '(' || c == '.');
        !operand || word == "of" || word == "mod"
    }

    fn atom(&mut self) -> Parsed<Number> {
        let at = self.next_at();
        if self.eat("(") {
            let value = self.deeper(at, |parser| parser.within(false, Self::sum))?;
            return if self.eat(")") { Ok(value) } else { Err(self.unclosed(at)) };
        }
        if self.eat("√") {
            let term = self.deeper(at, Self::unary)?;
            return Function::Sqrt.apply(&[term.value]).map_err(|fault| (at, fault));
        }
        match self.rest().chars().next() {
            Some(c) if c.is_ascii_digit() || c == '.' => self.number(),
            Some(c) if c.is_alphabetic() => self.named(),
            Some(_) => Err(self.unexpected()),
            None => Err((at, Fault::EndsEarly)),
        }
    }

    fn number(&mut self) -> Parsed<Number> {
        let at = self.at;
        let length = number_length(self.rest(), !self.in_arguments);
        self.at += length;
        let digits: String = self.text[at..self.at].chars().filter(|c| !matches!(c, ',' | '_')).collect();
        Number::read(&digits).map_err(|fault| (at, fault))
    }

    fn named(&mut self) -> Parsed<Number> {
        let at = self.at;
        let rest = self.rest();
        let name = &rest[..rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len())];
        self.at += name.len();
        let lower = name.to_lowercase();
        if let Some(value) = function::constant(&lower) {
            return Ok(value);
        }
        let function = Function::named(&lower).ok_or_else(|| (at, Fault::Unknown(name.to_owned())))?;
        let open = self.next_at();
        if !self.eat("(") {
            return Err(if self.rest().is_empty() { (open, Fault::EndsEarly) } else { self.unexpected() });
        }
        let args = self.deeper(at, |parser| parser.within(true, Self::arguments))?;
        if !self.eat(")") {
            return Err(self.unclosed(open));
        }
        function.apply(&args).map_err(|fault| (at, fault))
    }

    fn arguments(&mut self) -> Parsed<Vec<Number>> {
        self.space();
        if self.rest().starts_with(')') {
            return Ok(Vec::new());
        }
        let mut args = vec![self.sum()?];
        while self.eat(",") || self.eat(";") {
            args.push(self.sum()?);
        }
        Ok(args)
    }

    fn within<T>(&mut self, in_arguments: bool, read: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        let outside = std::mem::replace(&mut self.in_arguments, in_arguments);
        let read = read(self);
        self.in_arguments = outside;
        read
    }

    fn deeper<T>(&mut self, at: usize, read: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth == MAX_DEPTH {
            return Err((at, Fault::TooDeep(MAX_DEPTH)));
        }
        self.depth += 1;
        let read = read(self);
        self.depth -= 1;
        read
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn space(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    fn next_at(&mut self) -> usize {
        self.space();
        self.at
    }

    fn eat(&mut self, token: &str) -> bool {
        self.space();
        // `**` is a power, not two products.
        let found = self.rest().starts_with(token) && !(token == "*" && self.rest().starts_with("**"));
        self.at += if found { token.len() } else { 0 };
        found
    }

    fn word(&mut self, word: &str) -> bool {
        self.space();
        let found =
            self.rest().strip_prefix(word).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric));
        self.at += if found { word.len() } else { 0 };
        found
    }

    fn unclosed(&self, open: usize) -> (usize, Fault) {
        if self.rest().is_empty() { (open, Fault::Unclosed) } else { self.unexpected() }
    }

    fn unexpected(&self) -> (usize, Fault) {
        let shown = self.rest().chars().next().map_or_else(String::new, String::from);
        (self.at, Fault::Unexpected(shown))
    }
}

/// How many bytes of `text` are one number: `1,234.5e-6`, `1_000`, `.5`.
fn number_length(text: &str, grouped: bool) -> usize {
    let bytes = text.as_bytes();
    let digits =
        |from: usize| from + bytes[from..].iter().take_while(|b| b.is_ascii_digit() || **b == b'_').count();
    let mut end = digits(0);
    while grouped
        && (1..=3).contains(&group(&bytes[..end]))
        && bytes.get(end) == Some(&b',')
        && digits(end + 1) == end + 4
    {
        end += 4;
    }
    if bytes.get(end) == Some(&b'.') {
        end = digits(end + 1);
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let after = digits(end + 1 + sign);
        end = if after > end + 1 + sign { after } else { end };
    }
    end
}

/// The length of the last group of digits.
fn group(digits: &[u8]) -> usize {
    digits.iter().rev().take_while(|b| **b != b',').count()
}
