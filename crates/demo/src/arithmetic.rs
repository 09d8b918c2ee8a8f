//! Arithmetic as people write and say it, turned into the expression that a calculator takes.
//!
//! `lexer` makes tokens of words, this parses them; what it cannot parse is not arithmetic.

use crate::{lexer, words::Word};

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Token {
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
    Form(Form),
    Link(Link),
    /// «that», «it», «the result»: what came out before.
    Previous,
    Other,
}

/// Words that come before what they are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
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
pub(crate) enum Link {
    Of,
    And,
    To,
    From,
    By,
    Off,
    Is,
}

/// An expression, and how tightly it holds together: 0 a sum, 1 a product, 2 a unit.
#[derive(Clone, Debug)]
struct Term {
    text: String,
    level: u8,
    percent: bool,
}

impl Term {
    fn unit(text: impl Into<String>) -> Self {
        Self { text: text.into(), level: 2, percent: false }
    }

    fn wrapped(&self, level: u8) -> String {
        if self.level < level { format!("({})", self.text) } else { self.text.clone() }
    }

    fn join(self, sign: char, right: &Self) -> Self {
        if let (true, '+' | '-') = (right.percent && !self.percent, sign) {
            // «100 minus 10%» is 90.
            let share = &right.text;
            return Self {
                text: format!("{} * (1 {sign} {share})", self.wrapped(1)),
                level: 1,
                percent: false,
            };
        }
        let (level, left, right) = match sign {
            '+' => (0, self.wrapped(0), right.wrapped(0)),
            '-' => (0, self.wrapped(0), right.wrapped(1)),
            '*' => (1, self.wrapped(1), right.wrapped(1)),
            '^' => (2, self.wrapped(2), right.wrapped(2)),
            _ => (1, self.wrapped(1), right.wrapped(2)),
        };
        Self { text: format!("{left} {sign} {right}"), level, percent: false }
    }
}

/// The longest clause that is looked at, in tokens.
const LONGEST: usize = 300;

/// All expressions in a clause, in order, and the words that belong to none of them.
/// `previous` is what «that» stands for.
pub(crate) fn find(words: &[Word], previous: Option<&str>) -> (Vec<String>, Vec<Word>) {
    let tokens = lexer::tokens(words);
    // Nobody computes that much by hand; nesting without end would exhaust the stack.
    if tokens.len() > LONGEST {
        return (Vec::new(), words.to_vec());
    }
    let (mut found, mut left) = (Vec::new(), Vec::new());
    let mut at = 0;
    while at < tokens.len() {
        let mut parser = Parser { tokens: &tokens, at, previous, operations: 0 };
        let term =
            parser.start(at == 0 || tokens[..at].iter().all(|(token, _)| *token == Token::Link(Link::And)));
        if let Some(term) = term.filter(|_| parser.operations > 0) {
            found.push(term.text);
            at = parser.at;
        } else {
            let word = tokens[at].1;
            at += tokens[at..].iter().take_while(|(_, other)| *other == word).count();
            left.push(words[word].clone());
        }
    }
    (found, left)
}

struct Parser<'a> {
    /// Tokens, each with the index of its word.
    tokens: &'a [(Token, usize)],
    at: usize,
    previous: Option<&'a str>,
    operations: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|(token, _)| token)
    }

    fn take(&mut self, token: &Token) -> bool {
        let found = self.peek() == Some(token);
        self.at += usize::from(found);
        found
    }

    fn link(&mut self, links: &[Link]) -> bool {
        links.iter().any(|link| self.take(&Token::Link(*link)))
    }

    /// An expression; at the beginning of a clause an operator may stand first: «times three».
    fn start(&mut self, first: bool) -> Option<Term> {
        if let (Some(Token::Sign('+' | '*' | '/' | '^')), true, Some(previous)) =
            (self.peek(), first, self.previous)
        {
            return self.sum_after(Term::unit(previous));
        }
        let term = self.sum()?;
        // «20 is what percent of 80»
        let back = self.at;
        if self.take(&Token::Link(Link::Is)) {
            while self.take(&Token::Other) {}
            if self.take(&Token::Percent) && self.take(&Token::Link(Link::Of)) {
                let whole = self.sum()?;
                self.operations += 1;
                return Some(term.join('/', &whole).join('*', &Term::unit("100")));
            }
            self.at = back;
        }
        Some(term)
    }

    fn sum(&mut self) -> Option<Term> {
        let term = self.product()?;
        self.sum_after(term)
    }

    fn sum_after(&mut self, left: Term) -> Option<Term> {
        let mut term = self.product_after(left)?;
        loop {
            let (sign, swapped) = match self.peek() {
                Some(Token::Sign(sign @ ('+' | '-'))) => (*sign, false),
                // «5 less than 20»
                Some(Token::Form(Form::LessThan)) => ('-', true),
                _ => return Some(term),
            };
            let back = self.at;
            self.at += 1;
            let Some(right) = self.product() else {
                self.at = back;
                return Some(term);
            };
            self.operations += 1;
            term = if swapped { right.join(sign, &term) } else { term.join(sign, &right) };
        }
    }

    fn product(&mut self) -> Option<Term> {
        let term = self.power()?;
        self.product_after(term)
    }

    fn product_after(&mut self, mut term: Term) -> Option<Term> {
        loop {
            let back = self.at;
            let sign = match self.peek() {
                Some(Token::Sign(sign @ ('*' | '/' | '%' | '^'))) => *sign,
                Some(Token::Link(Link::Of)) if term.percent => '*',
                Some(Token::Link(Link::Off)) if term.percent => '-',
                _ => return Some(term),
            };
            self.at += 1;
            if sign == '-' {
                self.link(&[Link::Of]);
            }
            let Some(right) = self.power() else {
                self.at = back;
                return Some(term);
            };
            self.operations += 1;
            term = if sign == '-' { right.join('-', &term) } else { term.join(sign, &right) };
        }
    }

    fn power(&mut self) -> Option<Term> {
        let mut term = self.operand()?;
        loop {
            let exponent = match self.peek() {
                Some(Token::Squared) => Term::unit("2"),
                Some(Token::Cubed) => Term::unit("3"),
                Some(Token::Sign('^')) => {
                    self.at += 1;
                    let exponent = self.operand()?;
                    self.at -= 1;
                    exponent
                }
                Some(Token::Percent) => {
                    self.at += 1;
                    term = Term { text: format!("{} / 100", term.wrapped(1)), level: 1, percent: true };
                    continue;
                }
                _ => return Some(term),
            };
            self.at += 1;
            self.operations += 1;
            term = term.join('^', &exponent);
        }
    }

    fn operand(&mut self) -> Option<Term> {
        let token = self.peek()?.clone();
        self.at += 1;
        match token {
            Token::Number(digits) => Some(self.shares(digits)),
            Token::Part(denominator) => {
                self.link(&[Link::Of]);
                let whole = self.power()?;
                self.operations += 1;
                Some(whole.join('/', &Term::unit(denominator.to_string())))
            }
            Token::Times(factor) => {
                self.link(&[Link::Of]);
                let operand = self.power()?;
                self.operations += 1;
                Some(operand.join('*', &Term::unit(factor.to_string())))
            }
            Token::Sign('-') => self.operand().map(|term| Term::unit(format!("-{}", term.wrapped(2)))),
            Token::Open => {
                let inner = self.sum()?;
                self.take(&Token::Close).then(|| Term::unit(format!("({})", inner.text)))
            }
            Token::Previous => self.previous.map(Term::unit),
            Token::Form(form) => self.form(form),
            Token::Percent => self.percentage(),
            Token::Sign(_) | Token::Close | Token::Squared | Token::Cubed | Token::Link(_) | Token::Other => {
                None
            }
        }
    }

    /// «three quarters of 200»
    fn shares(&mut self, digits: String) -> Term {
        let number = Term::unit(digits);
        let Some(Token::Part(denominator)) = self.peek().cloned() else { return number };
        let back = self.at;
        self.at += 1;
        let whole = if self.link(&[Link::Of]) { self.power() } else { None };
        let Some(whole) = whole else {
            self.at = back;
            return number;
        };
        self.operations += 1;
        number.join('/', &Term::unit(denominator.to_string())).join('*', &whole)
    }

    /// «what percent of 80 is 20»
    fn percentage(&mut self) -> Option<Term> {
        if !self.link(&[Link::Of]) {
            return None;
        }
        let whole = self.sum()?;
        if !self.link(&[Link::Is]) {
            return None;
        }
        let part = self.sum()?;
        self.operations += 1;
        Some(part.join('/', &whole).join('*', &Term::unit("100")))
    }

    fn form(&mut self, form: Form) -> Option<Term> {
        self.link(&[Link::Of]);
        self.operations += 1;
        match form {
            Form::Root => {
                let grouped = self.take(&Token::Open);
                let inner = if grouped { self.sum() } else { self.operand() }?;
                let closed = !grouped || self.take(&Token::Close);
                closed.then(|| Term::unit(format!("sqrt({})", inner.text)))
            }
            Form::Square => self.operand().map(|term| term.join('^', &Term::unit("2"))),
            Form::Cube => self.operand().map(|term| term.join('^', &Term::unit("3"))),
            // It stands between its operands; `sum_after` reads it there.
            Form::LessThan => None,
            Form::Sum => self.list(&[Link::And, Link::To]).map(|terms| fold(terms, '+')),
            Form::Product => self.list(&[Link::And]).map(|terms| fold(terms, '*')),
            Form::Average => self.list(&[Link::And]).map(|terms| {
                let count = terms.len().to_string();
                fold(terms, '+').join('/', &Term::unit(count))
            }),
            Form::Difference => self.pair(&[Link::And, Link::From], |a, b| a.join('-', &b)),
            Form::Subtract => self.pair(&[Link::From], |a, b| b.join('-', &a)),
            Form::Multiply => self.pair(&[Link::By, Link::And, Link::To], |a, b| a.join('*', &b)),
            Form::Divide => self.pair(&[Link::By, Link::And], |a, b| a.join('/', &b)),
            Form::Increase => self.pair(&[Link::By], |a, b| a.join('+', &b)),
            Form::Decrease => self.pair(&[Link::By], |a, b| a.join('-', &b)),
            Form::Remainder => {
                let dividend = self.power()?;
                let _divided = self.take(&Token::Sign('/')) || self.link(&[Link::And, Link::By]);
                self.power().map(|divisor| dividend.join('%', &divisor))
            }
        }
    }

    fn pair(&mut self, links: &[Link], make: fn(Term, Term) -> Term) -> Option<Term> {
        let back = self.at;
        let first = self.product();
        let second = if first.is_some() && self.link(links) { self.product() } else { None };
        if second.is_none() {
            self.at = back;
        }
        Some(make(first?, second?))
    }

    fn list(&mut self, links: &[Link]) -> Option<Vec<Term>> {
        let mut terms = vec![self.product()?];
        loop {
            let back = self.at;
            self.link(links);
            let Some(term) = self.product() else {
                self.at = back;
                return (terms.len() > 1).then_some(terms);
            };
            terms.push(term);
        }
    }
}

fn fold(terms: Vec<Term>, sign: char) -> Term {
    let joined = terms.into_iter().reduce(|sum, term| sum.join(sign, &term));
    joined.unwrap_or_else(|| Term::unit("0"))
}
