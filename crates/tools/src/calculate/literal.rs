//! Number literals: `1_000`, `1,000`, `1 000`, `.5`, `1.5e-3`, `0xff`.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::Num;

use super::{ExpressionError, number::Number};

/// Exponents up to this are exact.
const MAX_EXPONENT: i32 = 5_000;

/// Reads the literal that `text` begins with. Returns its value and its length in bytes.
///
/// A comma groups digits only if `commas` is set: between the arguments of a function it separates them.
pub(super) fn read(text: &str, commas: bool) -> Result<(Number, usize), ExpressionError> {
    if let Some(radix) = radix(text) {
        return read_radix(text, radix);
    }
    let length = decimal_length(text, commas);
    let literal = &text[..length];
    let digits: String = literal.chars().filter(|c| c.is_ascii_digit() || ".eE+-".contains(*c)).collect();
    let value = parse_decimal(&digits).ok_or_else(|| ExpressionError::NotANumber(literal.to_owned()))??;
    Ok((value, length))
}

fn radix(text: &str) -> Option<u32> {
    let mut chars = text.chars();
    let (zero, letter) = (chars.next()?, chars.next()?.to_ascii_lowercase());
    let next_is_digit = chars.next().is_some_and(|c| c.is_ascii_alphanumeric() || c == '_');
    match (zero, letter) {
        ('0', 'x') if next_is_digit => Some(16),
        ('0', 'o') if next_is_digit => Some(8),
        ('0', 'b') if next_is_digit => Some(2),
        _ => None,
    }
}

fn read_radix(text: &str, radix: u32) -> Result<(Number, usize), ExpressionError> {
    let length = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    let literal = &text[..length];
    let digits: String = literal[2..].chars().filter(|c| *c != '_').collect();
    let value = BigInt::from_str_radix(&digits, radix);
    let value = value.map_err(|_| ExpressionError::NotANumber(literal.to_owned()))?;
    Ok((Number::bounded(value.into())?, length))
}

/// Length in bytes of a decimal literal.
fn decimal_length(text: &str, commas: bool) -> usize {
    let bytes = text.as_bytes();
    let mut end = digits_end(bytes, 0);
    let separator = bytes.get(end).copied().filter(|byte| match byte {
        b',' => commas,
        b' ' | b'\'' => true,
        _ => false,
    });
    // Groups have three digits, and the first one has one to three.
    if let Some(separator) = separator
        && (1..=3).contains(&end)
        && bytes[0] != b'0'
    {
        end = groups_end(bytes, end, separator);
    }
    if bytes.get(end) == Some(&b'.') {
        end = digits_end(bytes, end + 1);
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let after = digits_end(bytes, end + 1 + sign);
        end = if after > end + 1 + sign { after } else { end };
    }
    end
}

/// The end of the digits from `start`. Single underscores between digits belong to them.
fn digits_end(bytes: &[u8], start: usize) -> usize {
    let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let mut end = start;
    while is_digit(end) || (end > start && bytes.get(end) == Some(&b'_') && is_digit(end + 1)) {
        end += 1;
    }
    end
}

/// The end of groups of three digits, or `start` if what follows is something else.
fn groups_end(bytes: &[u8], start: usize, separator: u8) -> usize {
    let mut end = start;
    while bytes.get(end) == Some(&separator) {
        let group = bytes[end + 1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        match group {
            3 => end += 4,
            // A space ends a number, too.
            0 if separator == b' ' => return end,
            _ => return start,
        }
    }
    end
}

/// `None` if the digits are not a number.
fn parse_decimal(digits: &str) -> Option<Result<Number, ExpressionError>> {
    let value: f64 = digits.parse().ok()?;
    let exact = parse_exact(digits);
    Some(exact.map_or_else(|| Number::real(value), Number::bounded))
}

fn parse_exact(digits: &str) -> Option<BigRational> {
    let (mantissa, exponent) = digits.split_once(['e', 'E']).unwrap_or((digits, "0"));
    let (before, after) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let numerator: BigInt = format!("{before}{after}").parse().ok()?;
    let shift = exponent.parse::<i32>().ok()?.checked_sub(i32::try_from(after.len()).ok()?)?;
    if shift.abs() > MAX_EXPONENT {
        return None;
    }
    let scale = BigRational::from_integer(10.into()).pow(shift);
    Some(BigRational::from_integer(numerator) * scale)
}
