//! The result of an expression as JSON: a number if it can be exact, otherwise a string of digits.

use num_bigint::BigInt;
use num_integer::Integer;
use num_rational::BigRational;
use num_traits::{Signed, ToPrimitive, Zero};
use serde_json::Value;

use super::number::Number;

/// Significant digits that every floating point number keeps; further ones are noise.
const REAL_DIGITS: usize = 15;
/// Decimal fractions with more significant digits are rounded.
const MAX_DECIMAL_DIGITS: usize = 34;
/// Integers with more digits are written with an exponent if few of their digits are not zero.
const MAX_PLAIN_DIGITS: usize = 40;

/// What an expression evaluates to.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Evaluated {
    Number(Number),
    /// Of a comparison.
    Truth(bool),
}

impl Evaluated {
    pub(super) fn to_json(&self) -> Value {
        match self {
            Self::Truth(truth) => (*truth).into(),
            Self::Number(Number::Exact(value)) if value.is_integer() => integer_to_json(value.numer()),
            Self::Number(Number::Exact(value)) => decimal_to_json(value),
            Self::Number(Number::Real(value)) => real_to_json(*value),
        }
    }
}

/// Compares two numbers. Floating point numbers that agree in 15 digits are equal.
pub(super) fn is_equal(left: &Number, right: &Number) -> bool {
    match (left, right) {
        (Number::Exact(a), Number::Exact(b)) => a == b,
        (Number::Real(_), _) | (_, Number::Real(_)) => {
            let (a, b) = (rounded(left.to_f64()), rounded(right.to_f64()));
            (a - b).abs() <= a.abs().max(b.abs()) * f64::EPSILON
        }
    }
}

fn integer_to_json(value: &BigInt) -> Value {
    if let Some(small) = value.to_i64() {
        return small.into();
    }
    let digits = value.to_string();
    let significant = digits.trim_start_matches('-').trim_end_matches('0').len();
    if digits.len() > MAX_PLAIN_DIGITS
        && significant <= REAL_DIGITS
        && let Some(real) = value.to_f64().filter(|real| real.is_finite())
    {
        return real_to_json(real);
    }
    digits.into()
}

/// A fraction: as a number if 15 digits are enough, as a string if its decimal expansion ends, otherwise rounded.
fn decimal_to_json(value: &BigRational) -> Value {
    let real = value.to_f64().unwrap_or_default();
    match decimal_expansion(value) {
        Some((digits, places)) if digits.trim_start_matches('0').len() > REAL_DIGITS => {
            let (whole, fraction) = digits.split_at(digits.len() - places);
            let sign = if value.is_negative() { "-" } else { "" };
            format!("{sign}{whole}.{fraction}").into()
        }
        Some(_) | None => real_to_json(real),
    }
}

/// The digits of a fraction whose decimal expansion ends soon, and how many of them are after the point.
fn decimal_expansion(value: &BigRational) -> Option<(String, usize)> {
    let mut denominator = value.denom().clone();
    let (mut twos, mut fives) = (0_usize, 0_usize);
    for (prime, count) in [(2, &mut twos), (5, &mut fives)] {
        let prime = BigInt::from(prime);
        // More places than this have more significant digits than are shown, or are zeros of a tiny number.
        while *count <= MAX_DECIMAL_DIGITS && denominator.is_multiple_of(&prime) {
            denominator /= &prime;
            *count += 1;
        }
    }
    let places = twos.max(fives);
    if places > MAX_DECIMAL_DIGITS || denominator != BigInt::from(1) {
        return None;
    }
    let scale = BigInt::from(10).pow(u32::try_from(places).ok()?);
    let scaled = value.numer() * scale / value.denom();
    let digits = format!("{:0>width$}", scaled.magnitude().to_string(), width = places + 1);
    (!scaled.is_zero() && digits.trim_start_matches('0').len() <= MAX_DECIMAL_DIGITS)
        .then_some((digits, places))
}

fn real_to_json(value: f64) -> Value {
    const EXACT_UP_TO: f64 = 9_007_199_254_740_992.0;
    let rounded = rounded(value);
    if rounded.fract() == 0.0 && rounded.abs() < EXACT_UP_TO {
        #[expect(clippy::cast_possible_truncation, reason = "it has no fraction and is below 2^53")]
        return Value::from(rounded as i64);
    }
    rounded.into()
}

/// Rounds to 15 significant digits, which removes floating point noise.
fn rounded(value: f64) -> f64 {
    format!("{value:.14e}").parse().unwrap_or(value)
}
