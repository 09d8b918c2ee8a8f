//! What can be wrong with an expression.

/// Why an expression has no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("there is nothing to compute")]
    Empty,
    #[error("the expression is longer than {0} bytes")]
    TooLong(usize),
    #[error("more than {0} levels deep; compute it in parts")]
    TooDeep(usize),
    #[error("unexpected `{0}`")]
    Unexpected(String),
    #[error("the expression ends too early")]
    EndsEarly,
    #[error("this parenthesis is never closed")]
    Unclosed,
    #[error("`{0}` is not a number")]
    NotANumber(String),
    #[error("`{0}` is unknown; there are sqrt abs round floor ceil min max ln log sin cos tan, pi and e")]
    Unknown(String),
    #[error("{name} takes {takes}, not {given}")]
    ArgumentCount { name: &'static str, takes: &'static str, given: usize },
    #[error("division by zero")]
    DivisionByZero,
    #[error("the result is too large to be computed")]
    Overflow,
    #[error("{0} has no real value here")]
    Undefined(&'static str),
}
