//! Recursive descent parser that evaluates while it parses.
//!
//! ```text
//! comparison = sum ((== | != | < | <= | > | >=) sum)*
//! sum        = product ((+ | -) product)*
//! product    = unary ((* | / | // | % | mod | of | nothing) unary)*
//! unary      = (+ | -) unary | power
//! power      = postfix ((^ | **) unary)?
//! postfix    = atom (! | superscript | ° | % that no operand follows)*
//! atom       = number | constant | function (arguments) | (sum) | √ postfix
//! ```

use super::{
    ExpressionError,
    arguments::{Commas, List},
    combinatorics::factorial_of,
    cursor::{self, Cursor, ParseResult, is_currency, superscript},
    effort::{BinaryOperation, Effort},
    function::{self, MathFunction},
    literal,
    number::Number,
    result::{Evaluated, is_equal},
};
use crate::ToolsError;

/// Limits recursion, so that no expression overflows the stack.
const MAX_DEPTH: usize = 100;
const MAX_BYTES: usize = 10_000;
/// Modules whose functions may be written with the module's name.
const MODULES: [&str; 4] = ["math", "np", "numpy", "statistics"];

/// Evaluates an expression.
pub(super) fn evaluate(expression: &str) -> Result<Evaluated, ToolsError> {
    if expression.len() > MAX_BYTES {
        let reason = ExpressionError::TooLong(MAX_BYTES);
        return Err(ToolsError::Expression { column: 1, reason });
    }
    let normal = cursor::normalize(expression);
    let text = cursor::without_question(&normal);
    let mut parser = ExpressionParser {
        cursor: Cursor::new(text),
        effort: Effort::new(),
        depth: 0,
        in_arguments: false,
        list: None,
        currency: None,
    };
    parser.expression().map_err(|(at, reason)| ToolsError::Expression { column: column(text, at), reason })
}

/// The column of a byte offset, counted in characters from 1.
fn column(text: &str, at: usize) -> usize {
    text[..at].chars().count() + 1
}

struct ExpressionParser<'a> {
    cursor: Cursor<'a>,
    effort: Effort,
    depth: usize,
    /// Inside the parentheses of a function a comma separates arguments; elsewhere it groups digits.
    in_arguments: bool,
    /// The list that was read last; only a function may take it.
    list: Option<List>,
    currency: Option<char>,
}

/// A number and whether it was written as a percentage, because `200 + 10%` means 220.
struct Operand {
    value: Number,
    percent: bool,
}

impl ExpressionParser<'_> {
    fn expression(&mut self) -> ParseResult<Evaluated> {
        if self.cursor.peek().is_none() {
            return Err((0, ExpressionError::Empty));
        }
        let mut left = self.sum()?;
        let mut truth = None;
        while let Some(holds) = self.comparison_operator() {
            let right = self.sum()?;
            truth = Some(truth.unwrap_or(true) && holds(&left, &right));
            left = right;
        }
        if self.cursor.peek().is_some() {
            return Err(self.cursor.unexpected());
        }
        Ok(truth.map_or(Evaluated::Number(left), Evaluated::Truth))
    }

    fn comparison_operator(&mut self) -> Option<fn(&Number, &Number) -> bool> {
        let cursor = &mut self.cursor;
        if cursor.eat("==") {
            Some(is_equal)
        } else if cursor.eat("!=") || cursor.eat("≠") {
            Some(|a, b| !is_equal(a, b))
        } else if cursor.eat("<=") || cursor.eat("≤") {
            Some(|a, b| a.is_less_than(b) || is_equal(a, b))
        } else if cursor.eat(">=") || cursor.eat("≥") {
            Some(|a, b| b.is_less_than(a) || is_equal(a, b))
        } else if cursor.eat_but("<", "<") {
            Some(|a, b| a.is_less_than(b) && !is_equal(a, b))
        } else if cursor.eat_but(">", ">") {
            Some(|a, b| b.is_less_than(a) && !is_equal(a, b))
        } else {
            None
        }
    }

    fn sum(&mut self) -> ParseResult<Number> {
        let mut left = self.product()?;
        loop {
            let at = self.cursor.next_at();
            let operation: BinaryOperation = if self.cursor.eat("+") {
                Number::plus
            } else if self.cursor.eat("-") {
                Number::minus
            } else {
                return Ok(left.value);
            };
            let right = self.product()?;
            let amount = if right.percent && !left.percent {
                self.compute(at, Number::times, (&left.value, &right.value))?
            } else {
                right.value
            };
            let value = self.compute(at, operation, (&left.value, &amount))?;
            left = Operand { value, percent: left.percent && right.percent };
        }
    }

    fn product(&mut self) -> ParseResult<Operand> {
        let mut left = self.unary()?;
        loop {
            let at = self.cursor.next_at();
            let Some(operation) = self.product_operator() else { return Ok(left) };
            let right = self.unary()?;
            let value = self.compute(at, operation, (&left.value, &right.value))?;
            left = Operand { value, percent: false };
        }
    }

    fn product_operator(&mut self) -> Option<BinaryOperation> {
        let cursor = &mut self.cursor;
        if cursor.eat_but("*", "*") || cursor.eat("×") || cursor.eat_word("of") || cursor.eat_letter_x() {
            Some(Number::times)
        } else if cursor.eat("//") {
            Some(Number::floor_divided_by)
        } else if cursor.eat("/") || cursor.eat("÷") {
            Some(Number::divided_by)
        } else if cursor.eat("%") || cursor.eat_word("mod") {
            Some(Number::modulo)
        } else {
            self.is_implicit_product().then_some(Number::times)
        }
    }

    /// Whether an operand follows without an operator: `2(3 + 4)`, `2pi`, `(1)(2)`, `(1)2`.
    fn is_implicit_product(&mut self) -> bool {
        let before = self.cursor.at;
        match self.cursor.peek() {
            Some('(' | '√' | '∛') => true,
            Some(c) if c.is_ascii_digit() => before > 0 && self.cursor.follows(')'),
            Some(c) => c.is_alphabetic(),
            None => false,
        }
    }

    fn unary(&mut self) -> ParseResult<Operand> {
        let at = self.cursor.next_at();
        if self.cursor.eat("+") {
            return self.nested(at, Self::unary);
        }
        if self.cursor.eat("-") {
            let term = self.nested(at, Self::unary)?;
            return Ok(Operand { value: term.value.negate(), ..term });
        }
        self.power()
    }

    fn power(&mut self) -> ParseResult<Operand> {
        let base = self.postfix()?;
        let at = self.cursor.next_at();
        if !(self.cursor.eat("^") || self.cursor.eat("**")) {
            return Ok(base);
        }
        let exponent = self.nested(at, Self::unary)?;
        let value = self.compute(at, Number::power, (&base.value, &exponent.value))?;
        Ok(Operand { value, percent: false })
    }

    fn postfix(&mut self) -> ParseResult<Operand> {
        let mut term = Operand { value: self.atom()?, percent: false };
        loop {
            let at = self.cursor.next_at();
            let value = if self.percent_sign_follows() {
                self.cursor.eat("%");
                let value = self.compute(at, Number::divided_by, (&term.value, &Number::integer(100)))?;
                term = Operand { value, percent: true };
                continue;
            } else if self.cursor.eat_but("!", "=") {
                self.factorial(at, &term.value)?
            } else if let Some(exponent) = self.superscripts(at)? {
                self.compute(at, Number::power, (&term.value, &exponent))?
            } else if self.cursor.eat("°") {
                function::radians(&term.value).map_err(|error| (at, error))?
            } else {
                return Ok(term);
            };
            term = Operand { value, percent: false };
        }
    }

    fn factorial(&mut self, at: usize, n: &Number) -> ParseResult<Number> {
        if self.cursor.rest().starts_with('!') {
            let hint = "a double factorial is not supported; write (n!)! for the factorial of a factorial";
            return Err((at, ExpressionError::UnexpectedWithHint { found: "!!".to_owned(), hint }));
        }
        factorial_of(n, &mut self.effort).map_err(|error| (at, error))
    }

    fn superscripts(&mut self, at: usize) -> ParseResult<Option<Number>> {
        let rest = self.cursor.rest();
        let digits: String = rest.chars().map_while(superscript).collect();
        if digits.is_empty() {
            return Ok(None);
        }
        let (length, _) = rest.char_indices().nth(digits.chars().count()).unwrap_or((rest.len(), ' '));
        self.cursor.at += length;
        let unsigned = digits.strip_prefix('-').unwrap_or(&digits);
        let number = unsigned.parse::<u64>().map(Number::integer);
        let number = number.map_err(|_| (at, ExpressionError::NotANumber(rest[..length].to_owned())))?;
        Ok(Some(if digits.starts_with('-') { number.negate() } else { number }))
    }

    /// `%` is the remainder operator if an operand follows it, and a percent sign otherwise. A sign belongs to an operand
    /// if it is written as in `5 % -3`.
    fn percent_sign_follows(&mut self) -> bool {
        let before = self.cursor.at;
        let is_spaced = before > 0 && self.cursor.follows(' ');
        let Some(after) = self.cursor.rest().strip_prefix('%') else { return false };
        let next = after.trim_start();
        let word = next.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
        let operand = next.starts_with(|c: char| c.is_alphanumeric() || "(.√∛".contains(c) || is_currency(c));
        let signed = is_spaced
            && after.starts_with(' ')
            && next.strip_prefix('-').is_some_and(|number| number.starts_with(|c: char| !c.is_whitespace()));
        let is_operator_word = ["of", "mod", "x", "X"].contains(&word);
        !(operand && !is_operator_word || signed)
    }

    fn atom(&mut self) -> ParseResult<Number> {
        let at = self.cursor.next_at();
        if self.cursor.eat("(") {
            return self.parenthesized(at, ")");
        }
        if self.in_arguments && self.cursor.eat("[") {
            return self.parenthesized(at, "]");
        }
        for (sign, root) in [("√", function::sqrt as fn(&Number) -> _), ("∛", function::cbrt)] {
            if self.cursor.eat(sign) {
                let term = self.nested(at, Self::postfix)?;
                return root(&term.value).map_err(|error| (at, error));
            }
        }
        match self.cursor.peek() {
            Some(c) if c.is_ascii_digit() || c == '.' => self.number(),
            Some(c) if is_currency(c) => {
                self.currency_sign()?;
                self.nested(at, Self::atom)
            }
            Some('∞') => Err((at, ExpressionError::NotFinite)),
            Some(c) if c.is_alphabetic() => self.name(),
            Some(_) | None => Err(self.cursor.unexpected()),
        }
    }

    /// Reads up to the closing bracket. Between arguments, several numbers in brackets are a list.
    fn parenthesized(&mut self, open: usize, close: &str) -> ParseResult<Number> {
        let first = self.nested(open, Self::sum)?;
        let is_list = self.in_arguments && (close == "]" || self.cursor.peek() == Some(','));
        if is_list {
            let mut numbers = vec![first.clone()];
            while self.cursor.eat(",") && self.cursor.peek().is_none_or(|c| !close.contains(c)) {
                numbers.push(self.nested(open, Self::sum)?);
            }
            self.close(open, close)?;
            if self.list.is_some() {
                return Err((open, ExpressionError::List));
            }
            self.list = Some(List { start: open, end: self.cursor.at, numbers });
            return Ok(first);
        }
        self.close(open, close)?;
        Ok(first)
    }

    fn close(&mut self, open: usize, close: &str) -> ParseResult<()> {
        if self.cursor.eat(close) {
            return Ok(());
        }
        let is_end = self.cursor.rest().is_empty();
        Err(if is_end { (open, ExpressionError::Unclosed) } else { self.cursor.unexpected() })
    }

    fn number(&mut self) -> ParseResult<Number> {
        let at = self.cursor.at;
        let (value, length) =
            literal::read(self.cursor.rest(), !self.in_arguments).map_err(|error| (at, error))?;
        self.cursor.at += length;
        if self.cursor.peek().is_some_and(is_currency) {
            self.currency_sign()?;
        }
        Ok(value)
    }

    fn currency_sign(&mut self) -> ParseResult<()> {
        let at = self.cursor.next_at();
        let Some(sign) = self.cursor.peek() else { return Ok(()) };
        match self.currency.replace(sign) {
            Some(other) if other != sign => Err((at, ExpressionError::Currencies(other, sign))),
            Some(_) | None => {
                self.cursor.at += sign.len_utf8();
                Ok(())
            }
        }
    }

    fn name(&mut self) -> ParseResult<Number> {
        let at = self.cursor.at;
        let mut name = self.cursor.name();
        self.cursor.at += name.len();
        if MODULES.contains(&&*name.to_lowercase()) && self.cursor.rest().starts_with('.') {
            self.cursor.at += 1;
            name = self.cursor.name();
            self.cursor.at += name.len();
        }
        let lower = name.to_lowercase();
        if let Some(value) = function::constant(&lower) {
            return value.map_err(|error| (at, error));
        }
        let unknown = || ExpressionError::Unknown { name: name.to_owned(), known: MathFunction::known() };
        let function = MathFunction::find(&lower).ok_or_else(|| (at, unknown()))?;
        let open = self.cursor.next_at();
        if !self.cursor.eat("(") {
            return Err(self.cursor.unexpected());
        }
        let args = self.nested(at, |parser| parser.arguments(function))?;
        self.close(open, ")")?;
        function.apply(&args, &mut self.effort).map_err(|error| (at, error))
    }

    fn arguments(&mut self, function: &MathFunction) -> ParseResult<Vec<Number>> {
        let outside = std::mem::replace(&mut self.in_arguments, true);
        let mut args = Vec::new();
        let mut commas = Commas::default();
        while self.cursor.peek().is_some_and(|c| c != ')') {
            let start = self.cursor.next_at();
            let value = self.sum()?;
            match self.list.take() {
                None => args.push(value),
                Some(List { start: list_start, end, numbers }) => {
                    let is_whole = list_start == start && end == self.cursor.at && args.is_empty();
                    let is_only = self.cursor.peek() == Some(')');
                    if !(is_whole && is_only && function.takes_list()) {
                        return Err((list_start, ExpressionError::List));
                    }
                    args = numbers;
                }
            }
            let at = self.cursor.next_at();
            if self.cursor.eat(",") {
                commas.add(self.cursor.rest()).map_err(|error| (at, error))?;
            } else if !self.cursor.eat(";") {
                break;
            }
        }
        self.in_arguments = outside;
        Ok(args)
    }

    fn compute(
        &mut self,
        at: usize,
        operation: BinaryOperation,
        (left, right): (&Number, &Number),
    ) -> ParseResult<Number> {
        self.effort.compute(operation, left, right).map_err(|error| (at, error))
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
}
