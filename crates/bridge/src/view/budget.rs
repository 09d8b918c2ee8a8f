//! The token budget of a request's history, and the part of it that an advance of the window retains.

use adk::window::{LoadBudget, WindowShare};
use session::TailBudget;

/// Default budget in tokens.
pub const DEFAULT_TOKENS: u32 = 32_000;
/// Minimum budget: less cannot hold a question and a tool result.
pub const LEAST_TOKENS: u32 = 256;
/// Default of what an advance of the window retains, in percent.
pub const DEFAULT_RETAINED: u8 = 50;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    tokens: u32,
    max_messages: Option<usize>,
    /// How much of the budget an advance of the window retains, in percent.
    retained: u8,
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum BudgetError {
    #[error("maxMessageTokenBudget is {0}; it must be at least {LEAST_TOKENS}, or 0 for {DEFAULT_TOKENS}")]
    TooSmall(u32),
    #[error("history.maxMessages is 0; leave it out for no limit")]
    NoMessages,
    #[error("history.retain is {0}; it must be a percentage from 10 to 90")]
    Retained(u8),
}

impl Budget {
    /// A `tokens` value of 0 selects the default. `max_messages` is an additional hard cap, unset by default.
    pub fn new(tokens: u32, max_messages: Option<usize>) -> Result<Self, BudgetError> {
        match (tokens, max_messages) {
            (_, Some(0)) => Err(BudgetError::NoMessages),
            (0, _) => Ok(Self { max_messages, ..Self::default() }),
            (1..LEAST_TOKENS, _) => Err(BudgetError::TooSmall(tokens)),
            (_, _) => Ok(Self { tokens, max_messages, ..Self::default() }),
        }
    }

    /// Sets how much an advance of the window retains, in percent.
    pub fn with_retained(self, percent: u8) -> Result<Self, BudgetError> {
        match percent {
            10..=90 => Ok(Self { retained: percent, ..self }),
            _ => Err(BudgetError::Retained(percent)),
        }
    }

    /// Restores the budget of a recipe without validation.
    pub(crate) fn restored(tokens: u32, max_messages: Option<usize>, retained: u8) -> Self {
        Self { tokens, max_messages, retained }
    }

    /// Limits the tokens, without a lower bound.
    pub(crate) fn limited(self, tokens: u32) -> Self {
        Self { tokens: self.tokens.min(tokens), ..self }
    }

    /// A share of the budget.
    pub(crate) fn share(self, share: WindowShare) -> Self {
        let part = |whole: u64| whole * u64::from(self.retained) / 100;
        match share {
            WindowShare::Whole => self,
            WindowShare::Retained => Self {
                tokens: u32::try_from(part(self.tokens.into())).unwrap_or(self.tokens),
                max_messages: self.max_messages.map(|most| (most * usize::from(self.retained) / 100).max(1)),
                ..self
            },
        }
    }

    pub(crate) fn retained_percent(self) -> u8 {
        self.retained
    }

    /// What is loaded of a log.
    pub(crate) fn load(self) -> LoadBudget {
        LoadBudget { tokens: self.tokens.into(), rows: self.max_messages.unwrap_or(usize::MAX) }
    }

    pub fn tokens(self) -> u32 {
        self.tokens
    }

    pub fn max_messages(self) -> Option<usize> {
        self.max_messages
    }

    /// The budget of a tail read from the store.
    pub(crate) fn tail(self) -> TailBudget {
        let LoadBudget { tokens, rows } = self.load();
        TailBudget { tokens, rows }
    }
}

impl Default for Budget {
    fn default() -> Self {
        Self { tokens: DEFAULT_TOKENS, max_messages: None, retained: DEFAULT_RETAINED }
    }
}
