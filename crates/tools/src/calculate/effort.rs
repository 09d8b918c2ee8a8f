//! The effort of an expression: an estimate of machine operations, with a limit that no expression exceeds.

use super::{ExpressionError, number::Number};

/// About half a second.
const LIMIT: u64 = 1_000_000_000;

/// An operation with two operands.
pub(super) type BinaryOperation = fn(&Number, &Number) -> Result<Number, ExpressionError>;

/// The operations that an expression may still use.
#[derive(Debug)]
pub(super) struct Effort {
    left: u64,
}

impl Effort {
    pub(super) const fn new() -> Self {
        Self { left: LIMIT }
    }

    pub(super) fn spend(&mut self, operations: u64) -> Result<(), ExpressionError> {
        self.left = self.left.checked_sub(operations).ok_or(ExpressionError::TooExpensive)?;
        Ok(())
    }

    /// Computes, if the effort allows. Reducing a fraction takes as many steps as its numbers have bits.
    pub(super) fn compute(
        &mut self,
        operation: BinaryOperation,
        left: &Number,
        right: &Number,
    ) -> Result<Number, ExpressionError> {
        let words = left.words() + right.words();
        self.spend(words * words)?;
        let result = operation(left, right)?;
        if result.is_fraction() || left.is_fraction() || right.is_fraction() {
            self.spend(64 * words * words)?;
        }
        self.spend(result.words() * result.words())?;
        Ok(result)
    }
}
