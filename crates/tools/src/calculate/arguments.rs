//! Lists and commas between the arguments of a function.

use super::{ExpressionError, number::Number};

/// Numbers in brackets, with their extent in the text.
pub(super) struct List {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) numbers: Vec<Number>,
}

/// The commas between arguments. Those of `sum(1,200, 2,300)` are of two kinds, so some of them group digits.
#[derive(Default)]
pub(super) struct Commas {
    spaced: bool,
    grouping: bool,
}

impl Commas {
    pub(super) fn add(&mut self, after: &str) -> Result<(), ExpressionError> {
        let digits = after.bytes().take_while(u8::is_ascii_digit).count();
        self.spaced |= after.starts_with(char::is_whitespace);
        self.grouping |= digits == 3;
        let has_leading_zero = digits > 1 && after.starts_with('0');
        if has_leading_zero || (self.spaced && self.grouping) {
            let hint = "between arguments a comma separates; write 1200 or 1_200 for 1,200";
            return Err(ExpressionError::UnexpectedWithHint { found: ",".to_owned(), hint });
        }
        Ok(())
    }
}
