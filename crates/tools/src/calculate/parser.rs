//! Recursive descent parser that evaluates while it parses: `sum = product (± product)*`, `product = unary (×÷% unary)*`,
//! `unary = -unary | power`, `power = percent (^ unary)?`, `percent = atom %*`.

use super::{ExpressionError, function, function::MathFunction, number::Number};
use crate::ToolsError;

/// Limits recursion, so that no expression overflows the stack.
const MAX_DEPTH: usize = 100;
const MAX_BYTES: usize = 10_000;
const HUNDRED: Number = Number::integer(100);

/// Evaluates an expression.
pub(super) fn evaluate(expression: &str) -> Result<Number, ToolsError> {
    let mut parser = ExpressionParser { text: expression, at: 0, depth: 0, in_arguments: false };
    parser
        .expression()
        .map_err(|(at, reason)| ToolsError::Expression { column: column(expression, at), reason })
}

/// The column of a byte offset, counted in characters from 1.
fn column(text: &str, at: usize) -> usize {
    text[..at].chars().count() + 1
}

struct ExpressionParser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    /// Inside the parentheses of a function a comma separates arguments; elsewhere it groups digits.
    in_arguments: bool,
}

/// A number and whether it was written as a percentage, because `200 + 10%` means 220.
#[derive(Clone, Copy)]
struct Operand {
    value: Number,
    percent: bool,
}

/// An error has the byte offset at which it occurred.
type ParseResult<T> = Result<T, (usize, ExpressionError)>;

impl<'a> ExpressionParser<'a> {
    fn expression(&mut self) -> ParseResult<Number> {
        if self.text.len() > MAX_BYTES {
            return Err((0, ExpressionError::TooLong(MAX_BYTES)));
        }
        if self.text.trim().is_empty() {
            return Err((0, ExpressionError::Empty));
        }
        let value = self.sum()?;
        self.skip_space();
        if self.rest().is_empty() { Ok(value) } else { Err(self.unexpected()) }
    }

    fn sum(&mut self) -> ParseResult<Number> {
        let mut left = self.product()?;
        loop {
            let at = self.next_token_at();
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
            let value = amount.and_then(|amount| compute(left.value, amount)).map_err(|error| (at, error))?;
            left = Operand { value, percent: left.percent && right.percent };
        }
    }

    fn product(&mut self) -> ParseResult<Operand> {
        let mut left = self.unary()?;
        loop {
            let at = self.next_token_at();
            let compute =
                if self.eat("*") || self.eat("×") || self.eat("·") || (left.percent && self.eat_word("of"))
                {
                    Number::times
                } else if self.eat("/") || self.eat("÷") {
                    Number::divided_by
                } else if self.eat("%") || self.eat_word("mod") {
                    Number::modulo
                } else {
                    return Ok(left);
                };
            let right = self.unary()?;
            let value = compute(left.value, right.value).map_err(|error| (at, error))?;
            left = Operand { value, percent: false };
        }
    }

    fn unary(&mut self) -> ParseResult<Operand> {
        let at = self.next_token_at();
        if self.eat("+") {
            return self.nested(at, Self::unary);
        }
        if self.eat("-") || self.eat("−") {
            let term = self.nested(at, Self::unary)?;
            return Ok(Operand { value: term.value.negate().map_err(|error| (at, error))?, ..term });
        }
        self.power()
    }

    fn power(&mut self) -> ParseResult<Operand> {
        let base = self.percent()?;
        let at = self.next_token_at();
        if !(self.eat("^") || self.eat("**")) {
            return Ok(base);
        }
        let exponent = self.nested(at, Self::unary)?;
        let value = base.value.power(exponent.value).map_err(|error| (at, error))?;
        Ok(Operand { value, percent: false })
    }

    fn percent(&mut self) -> ParseResult<Operand> {
        let mut term = Operand { value: self.atom()?, percent: false };
        while self.percent_sign_follows() {
            let at = self.next_token_at();
            self.eat("%");
            let value = term.value.divided_by(HUNDRED).map_err(|error| (at, error))?;
            term = Operand { value, percent: true };
        }
        Ok(term)
    }

    /// `%` is the remainder operator if an operand follows it, and a percent sign otherwise.
    fn percent_sign_follows(&mut self) -> bool {
        self.skip_space();
        let Some(after) = self.rest().strip_prefix('%') else { return false };
        let after = after.trim_start();
        let word = after.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
        let operand = after.starts_with(|c: char| c.is_alphanumeric() || c == '(' || c == '.');
        !operand || word == "of" || word == "mod"
    }

    fn atom(&mut self) -> ParseResult<Number> {
        let at = self.next_token_at();
        if self.eat("(") {
            let value = self.nested(at, |parser| parser.within(false, Self::sum))?;
            return if self.eat(")") { Ok(value) } else { Err(self.unclosed(at)) };
        }
        if self.eat("√") {
            let term = self.nested(at, Self::unary)?;
            return MathFunction::Sqrt.apply(&[term.value]).map_err(|error| (at, error));
        }
        match self.rest().chars().next() {
            Some(c) if c.is_ascii_digit() || c == '.' => self.number(),
            Some(c) if c.is_alphabetic() => self.name(),
            Some(_) => Err(self.unexpected()),
            None => Err((at, ExpressionError::EndsEarly)),
        }
    }

    fn number(&mut self) -> ParseResult<Number> {
        let at = self.at;
        let length = number_length(self.rest(), !self.in_arguments);
        self.at += length;
        let digits: String = self.text[at..self.at].chars().filter(|c| !matches!(c, ',' | '_')).collect();
        Number::parse(&digits).map_err(|error| (at, error))
    }

    fn name(&mut self) -> ParseResult<Number> {
        let at = self.at;
        let rest = self.rest();
        let name = &rest[..rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len())];
        self.at += name.len();
        let lower = name.to_lowercase();
        if let Some(value) = function::constant(&lower) {
            return Ok(value);
        }
        let function =
            MathFunction::find(&lower).ok_or_else(|| (at, ExpressionError::Unknown(name.to_owned())))?;
        let open = self.next_token_at();
        if !self.eat("(") {
            return Err(if self.rest().is_empty() {
                (open, ExpressionError::EndsEarly)
            } else {
                self.unexpected()
            });
        }
        let args = self.nested(at, |parser| parser.within(true, Self::arguments))?;
        if !self.eat(")") {
            return Err(self.unclosed(open));
        }
        function.apply(&args).map_err(|error| (at, error))
    }

    fn arguments(&mut self) -> ParseResult<Vec<Number>> {
        self.skip_space();
        if self.rest().starts_with(')') {
            return Ok(Vec::new());
        }
        let mut args = vec![self.sum()?];
        while self.eat(",") || self.eat(";") {
            args.push(self.sum()?);
        }
        Ok(args)
    }

    fn within<T>(
        &mut self,
        in_arguments: bool,
        read: impl FnOnce(&mut Self) -> ParseResult<T>,
    ) -> ParseResult<T> {
        let outside = std::mem::replace(&mut self.in_arguments, in_arguments);
        let read = read(self);
        self.in_arguments = outside;
        read
    }

    fn nested<T>(&mut self, at: usize, read: impl FnOnce(&mut Self) -> ParseResult<T>) -> ParseResult<T> {
        if self.depth == MAX_DEPTH {
            return Err((at, ExpressionError::TooDeep(MAX_DEPTH)));
        }
        self.depth += 1;
        let read = read(self);
        self.depth -= 1;
        read
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn skip_space(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    fn next_token_at(&mut self) -> usize {
        self.skip_space();
        self.at
    }

    fn eat(&mut self, token: &str) -> bool {
        self.skip_space();
        // `**` is the power operator, not two multiplications.
        let found = self.rest().starts_with(token) && !(token == "*" && self.rest().starts_with("**"));
        self.at += if found { token.len() } else { 0 };
        found
    }

    fn eat_word(&mut self, word: &str) -> bool {
        self.skip_space();
        let found =
            self.rest().strip_prefix(word).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric));
        self.at += if found { word.len() } else { 0 };
        found
    }

    fn unclosed(&self, open: usize) -> (usize, ExpressionError) {
        if self.rest().is_empty() { (open, ExpressionError::Unclosed) } else { self.unexpected() }
    }

    fn unexpected(&self) -> (usize, ExpressionError) {
        let found = self.rest().chars().next().map_or_else(String::new, String::from);
        (self.at, ExpressionError::Unexpected(found))
    }
}

/// Length in bytes of the number that `text` begins with: `1,234.5e-6`, `1_000`, `.5`.
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

/// Length of the last group of digits.
fn group(digits: &[u8]) -> usize {
    digits.iter().rev().take_while(|b| **b != b',').count()
}
