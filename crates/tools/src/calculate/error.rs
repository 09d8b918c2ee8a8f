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
    #[error("the expression ends too early")]
    EndsEarly,
    #[error("this parenthesis is never closed")]
    Unclosed,
    #[error("`{0}` is not a number")]
    NotANumber(String),
    #[error("`{0}` is unknown; use sqrt abs round floor ceil min max ln log sin cos tan, pi or e")]
    Unknown(String),
    #[error("{name} takes {takes}, not {given}")]
    ArgumentCount { name: &'static str, takes: &'static str, given: usize },
    #[error("division by zero")]
    DivisionByZero,
    #[error("the result is too large to compute")]
    Overflow,
    #[error("{0} has no real value here")]
    Undefined(&'static str),
}
