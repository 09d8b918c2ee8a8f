//! Parses arithmetic in digits or English words into an expression for the `calculate` tool.
//!
//! `lexer` splits words into tokens; this module parses them. Text that does not parse is not arithmetic.

use crate::{input_words::InputWord, lexer};

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ArithmeticToken {
    Number(String),
    Sign(char),
    Open,
    Close,
    Percent,
    Squared,
    Cubed,
    /// «half», «thirds»: the denominator.
    Part(u64),
    /// «double», «triple»: the factor.
    Times(u64),
    Form(PrefixForm),
    Link(LinkWord),
    /// «that», «it», «the result»: the previous result.
    Previous,
    Other,
}

/// Operators in front of their operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PrefixForm {
    Root,
    Square,
    Cube,
    LessThan,
    Sum,
    Product,
    Average,
    Difference,
    Subtract,
    Multiply,
    Divide,
    Increase,
    Decrease,
    Remainder,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkWord {
    Of,
    And,
    To,
    From,
    By,
    Off,
    Is,
}

/// An expression with its precedence: 0 for sums, 1 for products, 2 for atoms.
#[derive(Clone, Debug)]
struct ExpressionTerm {
    text: String,
    level: u8,
    percent: bool,
}

impl ExpressionTerm {
    fn atom(text: impl Into<String>) -> Self {
        Self { text: text.into(), level: 2, percent: false }
    }

    fn parenthesized(&self, level: u8) -> String {
        if self.level < level { format!("({})", self.text) } else { self.text.clone() }
    }

    fn join(self, sign: char, right: &Self) -> Self {
        if let (true, '+' | '-') = (right.percent && !self.percent, sign) {
            // «100 minus 10%» is 90.
            let share = &right.text;
            return Self {
                text: format!("{} * (1 {sign} {share})", self.parenthesized(1)),
                level: 1,
                percent: false,
            };
        }
        let (level, left, right) = match sign {
            '+' => (0, self.parenthesized(0), right.parenthesized(0)),
            '-' => (0, self.parenthesized(0), right.parenthesized(1)),
            '*' => (1, self.parenthesized(1), right.parenthesized(1)),
            '^' => (2, self.parenthesized(2), right.parenthesized(2)),
            _ => (1, self.parenthesized(1), right.parenthesized(2)),
        };
        Self { text: format!("{left} {sign} {right}"), level, percent: false }
    }
}

/// The maximum length of a clause, in tokens.
const MAX_TOKENS: usize = 300;

/// Returns all expressions in a clause, in order, and the words outside of them. `previous` replaces «that».
pub(crate) fn find_expressions(words: &[InputWord], previous: Option<&str>) -> (Vec<String>, Vec<InputWord>) {
    let tokens = lexer::tokenize(words);
    // Deep nesting would exhaust the stack.
    if tokens.len() > MAX_TOKENS {
        return (Vec::new(), words.to_vec());
    }
    let (mut found, mut rest) = (Vec::new(), Vec::new());
    let mut at = 0;
    while at < tokens.len() {
        let mut parser = ArithmeticParser { tokens: &tokens, at, previous, operations: 0 };
        let term = parser.parse_clause(
            at == 0 || tokens[..at].iter().all(|(token, _)| *token == ArithmeticToken::Link(LinkWord::And)),
        );
        if let Some(term) = term.filter(|_| parser.operations > 0) {
            found.push(term.text);
            at = parser.at;
        } else {
            let word = tokens[at].1;
            at += tokens[at..].iter().take_while(|(_, other)| *other == word).count();
            rest.push(words[word].clone());
        }
    }
    (found, rest)
}

struct ArithmeticParser<'a> {
    /// Tokens, each with the index of its word.
    tokens: &'a [(ArithmeticToken, usize)],
    at: usize,
    previous: Option<&'a str>,
    operations: usize,
}

impl ArithmeticParser<'_> {
    fn peek(&self) -> Option<&ArithmeticToken> {
        self.tokens.get(self.at).map(|(token, _)| token)
    }

    fn accept(&mut self, token: &ArithmeticToken) -> bool {
        let found = self.peek() == Some(token);
        self.at += usize::from(found);
        found
    }

    fn accept_link(&mut self, links: &[LinkWord]) -> bool {
        links.iter().any(|link| self.accept(&ArithmeticToken::Link(*link)))
    }

    /// Parses an expression. At the start of a clause the first operand may be implicit: «times three».
    fn parse_clause(&mut self, first: bool) -> Option<ExpressionTerm> {
        if let (Some(ArithmeticToken::Sign('+' | '*' | '/' | '^')), true, Some(previous)) =
            (self.peek(), first, self.previous)
        {
            return self.sum_after(ExpressionTerm::atom(previous));
        }
        let term = self.sum()?;
        // «20 is what percent of 80»
        let checkpoint = self.at;
        if self.accept(&ArithmeticToken::Link(LinkWord::Is)) {
            while self.accept(&ArithmeticToken::Other) {}
            if self.accept(&ArithmeticToken::Percent) && self.accept(&ArithmeticToken::Link(LinkWord::Of)) {
                let whole = self.sum()?;
                self.operations += 1;
                return Some(term.join('/', &whole).join('*', &ExpressionTerm::atom("100")));
            }
            self.at = checkpoint;
        }
        Some(term)
    }

    fn sum(&mut self) -> Option<ExpressionTerm> {
        let term = self.product()?;
        self.sum_after(term)
    }

    fn sum_after(&mut self, left: ExpressionTerm) -> Option<ExpressionTerm> {
        let mut term = self.product_after(left)?;
        loop {
            let (sign, swapped) = match self.peek() {
                Some(ArithmeticToken::Sign(sign @ ('+' | '-'))) => (*sign, false),
                // «5 less than 20»
                Some(ArithmeticToken::Form(PrefixForm::LessThan)) => ('-', true),
                _ => return Some(term),
            };
            let checkpoint = self.at;
            self.at += 1;
            let Some(right) = self.product() else {
                self.at = checkpoint;
                return Some(term);
            };
            self.operations += 1;
            term = if swapped { right.join(sign, &term) } else { term.join(sign, &right) };
        }
    }

    fn product(&mut self) -> Option<ExpressionTerm> {
        let term = self.power()?;
        self.product_after(term)
    }

    fn product_after(&mut self, mut term: ExpressionTerm) -> Option<ExpressionTerm> {
        loop {
            let checkpoint = self.at;
            let sign = match self.peek() {
                Some(ArithmeticToken::Sign(sign @ ('*' | '/' | '%' | '^'))) => *sign,
                Some(ArithmeticToken::Link(LinkWord::Of)) if term.percent => '*',
                Some(ArithmeticToken::Link(LinkWord::Off)) if term.percent => '-',
                _ => return Some(term),
            };
            self.at += 1;
            if sign == '-' {
                self.accept_link(&[LinkWord::Of]);
            }
            let Some(right) = self.power() else {
                self.at = checkpoint;
                return Some(term);
            };
            self.operations += 1;
            term = if sign == '-' { right.join('-', &term) } else { term.join(sign, &right) };
        }
    }

    fn power(&mut self) -> Option<ExpressionTerm> {
        let mut term = self.operand()?;
        loop {
            let exponent = match self.peek() {
                Some(ArithmeticToken::Squared) => ExpressionTerm::atom("2"),
                Some(ArithmeticToken::Cubed) => ExpressionTerm::atom("3"),
                Some(ArithmeticToken::Sign('^')) => {
                    self.at += 1;
                    let exponent = self.operand()?;
                    self.at -= 1;
                    exponent
                }
                Some(ArithmeticToken::Percent) => {
                    self.at += 1;
                    term = ExpressionTerm {
                        text: format!("{} / 100", term.parenthesized(1)),
                        level: 1,
                        percent: true,
                    };
                    continue;
                }
                _ => return Some(term),
            };
            self.at += 1;
            self.operations += 1;
            term = term.join('^', &exponent);
        }
    }

    fn operand(&mut self) -> Option<ExpressionTerm> {
        let token = self.peek()?.clone();
        self.at += 1;
        match token {
            ArithmeticToken::Number(digits) => Some(self.fraction_of(digits)),
            ArithmeticToken::Part(denominator) => {
                self.accept_link(&[LinkWord::Of]);
                let whole = self.power()?;
                self.operations += 1;
                Some(whole.join('/', &ExpressionTerm::atom(denominator.to_string())))
            }
            ArithmeticToken::Times(factor) => {
                self.accept_link(&[LinkWord::Of]);
                let operand = self.power()?;
                self.operations += 1;
                Some(operand.join('*', &ExpressionTerm::atom(factor.to_string())))
            }
            ArithmeticToken::Sign('-') => {
                self.operand().map(|term| ExpressionTerm::atom(format!("-{}", term.parenthesized(2))))
            }
            ArithmeticToken::Open => {
                let inner = self.sum()?;
                self.accept(&ArithmeticToken::Close)
                    .then(|| ExpressionTerm::atom(format!("({})", inner.text)))
            }
            ArithmeticToken::Previous => self.previous.map(ExpressionTerm::atom),
            ArithmeticToken::Form(form) => self.prefix_form(form),
            ArithmeticToken::Percent => self.percentage_of(),
            ArithmeticToken::Sign(_)
            | ArithmeticToken::Close
            | ArithmeticToken::Squared
            | ArithmeticToken::Cubed
            | ArithmeticToken::Link(_)
            | ArithmeticToken::Other => None,
        }
    }

    /// «three quarters of 200»
    fn fraction_of(&mut self, digits: String) -> ExpressionTerm {
        let number = ExpressionTerm::atom(digits);
        let Some(ArithmeticToken::Part(denominator)) = self.peek().cloned() else { return number };
        let checkpoint = self.at;
        self.at += 1;
        let whole = if self.accept_link(&[LinkWord::Of]) { self.power() } else { None };
        let Some(whole) = whole else {
            self.at = checkpoint;
            return number;
        };
        self.operations += 1;
        number.join('/', &ExpressionTerm::atom(denominator.to_string())).join('*', &whole)
    }

    /// «what percent of 80 is 20»
    fn percentage_of(&mut self) -> Option<ExpressionTerm> {
        if !self.accept_link(&[LinkWord::Of]) {
            return None;
        }
        let whole = self.sum()?;
        if !self.accept_link(&[LinkWord::Is]) {
            return None;
        }
        let part = self.sum()?;
        self.operations += 1;
        Some(part.join('/', &whole).join('*', &ExpressionTerm::atom("100")))
    }

    fn prefix_form(&mut self, form: PrefixForm) -> Option<ExpressionTerm> {
        self.accept_link(&[LinkWord::Of]);
        self.operations += 1;
        match form {
            PrefixForm::Root => {
                let grouped = self.accept(&ArithmeticToken::Open);
                let inner = if grouped { self.sum() } else { self.operand() }?;
                let closed = !grouped || self.accept(&ArithmeticToken::Close);
                closed.then(|| ExpressionTerm::atom(format!("sqrt({})", inner.text)))
            }
            PrefixForm::Square => self.operand().map(|term| term.join('^', &ExpressionTerm::atom("2"))),
            PrefixForm::Cube => self.operand().map(|term| term.join('^', &ExpressionTerm::atom("3"))),
            // An infix form; `sum_after` parses it.
            PrefixForm::LessThan => None,
            PrefixForm::Sum => self.list(&[LinkWord::And, LinkWord::To]).map(|terms| fold(terms, '+')),
            PrefixForm::Product => self.list(&[LinkWord::And]).map(|terms| fold(terms, '*')),
            PrefixForm::Average => self.list(&[LinkWord::And]).map(|terms| {
                let count = terms.len().to_string();
                fold(terms, '+').join('/', &ExpressionTerm::atom(count))
            }),
            PrefixForm::Difference => self.pair(&[LinkWord::And, LinkWord::From], |a, b| a.join('-', &b)),
            PrefixForm::Subtract => self.pair(&[LinkWord::From], |a, b| b.join('-', &a)),
            PrefixForm::Multiply => {
                self.pair(&[LinkWord::By, LinkWord::And, LinkWord::To], |a, b| a.join('*', &b))
            }
            PrefixForm::Divide => self.pair(&[LinkWord::By, LinkWord::And], |a, b| a.join('/', &b)),
            PrefixForm::Increase => self.pair(&[LinkWord::By], |a, b| a.join('+', &b)),
            PrefixForm::Decrease => self.pair(&[LinkWord::By], |a, b| a.join('-', &b)),
            PrefixForm::Remainder => {
                let dividend = self.power()?;
                let _divided = self.accept(&ArithmeticToken::Sign('/'))
                    || self.accept_link(&[LinkWord::And, LinkWord::By]);
                self.power().map(|divisor| dividend.join('%', &divisor))
            }
        }
    }

    fn pair(
        &mut self,
        links: &[LinkWord],
        make: fn(ExpressionTerm, ExpressionTerm) -> ExpressionTerm,
    ) -> Option<ExpressionTerm> {
        let checkpoint = self.at;
        let first = self.product();
        let second = if first.is_some() && self.accept_link(links) { self.product() } else { None };
        if second.is_none() {
            self.at = checkpoint;
        }
        Some(make(first?, second?))
    }

    fn list(&mut self, links: &[LinkWord]) -> Option<Vec<ExpressionTerm>> {
        let mut terms = vec![self.product()?];
        loop {
            let checkpoint = self.at;
            self.accept_link(links);
            let Some(term) = self.product() else {
                self.at = checkpoint;
                return (terms.len() > 1).then_some(terms);
            };
            terms.push(term);
        }
    }
}

fn fold(terms: Vec<ExpressionTerm>, sign: char) -> ExpressionTerm {
    let joined = terms.into_iter().reduce(|sum, term| sum.join(sign, &term));
    joined.unwrap_or_else(|| ExpressionTerm::atom("0"))
}
