//! The token budget of a request's history.

use session::TailBudget;

/// Default budget in tokens.
pub const DEFAULT_TOKENS: u32 = 32_000;
/// Minimum budget: less cannot hold a question and a tool result.
pub const LEAST_TOKENS: u32 = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    tokens: u32,
    max_messages: Option<usize>,
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum BudgetError {
    #[error("maxMessageTokenBudget is {0}; it must be at least {LEAST_TOKENS}, or 0 for {DEFAULT_TOKENS}")]
    TooSmall(u32),
    #[error("history.maxMessages is 0; leave it out for no limit")]
    NoMessages,
}

impl Budget {
    /// A `tokens` value of 0 selects the default. `max_messages` is an additional hard cap, unset by default.
    pub fn new(tokens: u32, max_messages: Option<usize>) -> Result<Self, BudgetError> {
        match (tokens, max_messages) {
            (_, Some(0)) => Err(BudgetError::NoMessages),
            (0, _) => Ok(Self { tokens: DEFAULT_TOKENS, max_messages }),
            (1..LEAST_TOKENS, _) => Err(BudgetError::TooSmall(tokens)),
            (_, _) => Ok(Self { tokens, max_messages }),
        }
    }

    /// Restores the budget of a recipe without validation.
    pub(crate) fn restored(tokens: u32, max_messages: Option<usize>) -> Self {
        Self { tokens, max_messages }
    }

    pub fn tokens(self) -> u32 {
        self.tokens
    }

    pub fn max_messages(self) -> Option<usize> {
        self.max_messages
    }

    /// The budget of a tail read from the store.
    pub(crate) fn tail(self) -> TailBudget {
        TailBudget { tokens: self.tokens.into(), rows: self.max_messages.unwrap_or(usize::MAX) }
    }
}

impl Default for Budget {
    fn default() -> Self {
        Self { tokens: DEFAULT_TOKENS, max_messages: None }
    }
}
