//! Errors of the expression evaluator.

/// Why an expression cannot be evaluated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExpressionError {
    #[error("the expression is empty")]
    Empty,
    #[error("the expression is longer than {0} bytes")]
    TooLong(usize),
    #[error("nested more than {0} levels deep; compute it in parts")]
    TooDeep(usize),
    #[error("unexpected `{0}`")]
    Unexpected(String),
    /// The hint completes the sentence.
    #[error("unexpected `{found}`; {hint}")]
    UnexpectedWithHint { found: String, hint: &'static str },
    #[error("the expression ends too early")]
    EndsEarly,
    #[error("this parenthesis is never closed")]
    Unclosed,
    #[error("`{0}` is not a number")]
    NotANumber(String),
    #[error("`{name}` is unknown; use a number, an operator, pi, e, tau or one of: {known}")]
    Unknown { name: String, known: String },
    #[error("{name} takes {takes}, not {given}{hint}")]
    ArgumentCount { name: &'static str, takes: &'static str, given: usize, hint: &'static str },
    #[error("{name} needs {needs}")]
    Argument { name: &'static str, needs: &'static str },
    #[error("a list is the only argument of sum, prod, mean, median, min, max, gcd, lcm or hypot")]
    List,
    #[error("the expression mixes the currencies {0} and {1}; convert one of them first")]
    Currencies(char, char),
    #[error("infinite and undefined values are not numbers of the calculator")]
    NotFinite,
    #[error("division by zero")]
    DivisionByZero,
    #[error("the result is too large to compute")]
    Overflow,
    #[error("the numbers are too large to compute this in reasonable time; compute it in parts")]
    TooExpensive,
    #[error("{0} has no real value here")]
    Undefined(&'static str),
}
