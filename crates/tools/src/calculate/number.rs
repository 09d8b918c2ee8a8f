//! Numbers of the calculator: exact 128-bit fractions that fall back to floating point on overflow.

use serde_json::Value;

use super::ExpressionError;

/// A number of the calculator.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Number {
    /// In lowest terms; the denominator is positive.
    Exact { numerator: i128, denominator: i128 },
    /// Finite.
    Real(f64),
}

use Number::{Exact, Real};

impl Number {
    pub(super) const fn integer(value: i128) -> Self {
        Exact { numerator: value, denominator: 1 }
    }

    /// A fraction in lowest terms, or `None` on overflow.
    fn exact(numerator: i128, denominator: i128) -> Option<Self> {
        let divisor = i128::try_from(gcd(numerator.unsigned_abs(), denominator.unsigned_abs())).ok()?;
        let (numerator, denominator) = (numerator / divisor, denominator / divisor);
        let sign = denominator.signum();
        Some(Exact { numerator: numerator.checked_mul(sign)?, denominator: denominator.checked_mul(sign)? })
    }

    /// A floating point result, or [`ExpressionError::Overflow`] if it is not finite.
    pub(super) fn real(value: f64) -> Result<Self, ExpressionError> {
        if value.is_finite() { Ok(Real(value)) } else { Err(ExpressionError::Overflow) }
    }

    /// Parses digits with an optional fraction and exponent. The caller has removed group separators.
    pub(super) fn parse(digits: &str) -> Result<Self, ExpressionError> {
        let value: f64 = digits.parse().map_err(|_| ExpressionError::NotANumber(digits.to_owned()))?;
        parse_exact(digits).map_or_else(|| Self::real(value), Ok)
    }

    #[expect(clippy::cast_precision_loss, reason = "the conversion to floating point is meant to be inexact")]
    pub(super) fn to_f64(self) -> f64 {
        match self {
            Exact { numerator, denominator } => numerator as f64 / denominator as f64,
            Real(value) => value,
        }
    }

    pub(super) fn is_zero(self) -> bool {
        match self {
            Exact { numerator, .. } => numerator == 0,
            Real(value) => value == 0.0,
        }
    }

    pub(super) fn negate(self) -> Result<Self, ExpressionError> {
        Self::integer(0).minus(self)
    }

    pub(super) fn plus(self, other: Self) -> Result<Self, ExpressionError> {
        compute_exact(self, other, |a, b, c, d| {
            Self::exact(a.checked_mul(d)?.checked_add(c.checked_mul(b)?)?, b.checked_mul(d)?)
        })
        .map_or_else(|| Self::real(self.to_f64() + other.to_f64()), Ok)
    }

    pub(super) fn minus(self, other: Self) -> Result<Self, ExpressionError> {
        compute_exact(self, other, |a, b, c, d| {
            Self::exact(a.checked_mul(d)?.checked_sub(c.checked_mul(b)?)?, b.checked_mul(d)?)
        })
        .map_or_else(|| Self::real(self.to_f64() - other.to_f64()), Ok)
    }

    pub(super) fn times(self, other: Self) -> Result<Self, ExpressionError> {
        compute_exact(self, other, |a, b, c, d| Self::exact(a.checked_mul(c)?, b.checked_mul(d)?))
            .map_or_else(|| Self::real(self.to_f64() * other.to_f64()), Ok)
    }

    pub(super) fn divided_by(self, other: Self) -> Result<Self, ExpressionError> {
        if other.is_zero() {
            return Err(ExpressionError::DivisionByZero);
        }
        compute_exact(self, other, |a, b, c, d| Self::exact(a.checked_mul(d)?, b.checked_mul(c)?))
            .map_or_else(|| Self::real(self.to_f64() / other.to_f64()), Ok)
    }

    /// The remainder with the sign of the divisor (floored division): `-1 % 12` is 11.
    pub(super) fn modulo(self, other: Self) -> Result<Self, ExpressionError> {
        self.minus(other.times(self.divided_by(other)?.floor()?)?)
    }

    pub(super) fn power(self, exponent: Self) -> Result<Self, ExpressionError> {
        if let Exact { numerator, denominator: 1 } = exponent {
            let base = if numerator < 0 { Self::integer(1).divided_by(self)? } else { self };
            if let Some(power) = base.exact_power(numerator.unsigned_abs()) {
                return Ok(power);
            }
        }
        let value = self.to_f64().powf(exponent.to_f64());
        if value.is_nan() {
            Err(ExpressionError::Undefined("a fractional power of a negative number"))
        } else {
            Self::real(value)
        }
    }

    fn exact_power(self, exponent: u128) -> Option<Self> {
        let Exact { numerator, denominator } = self else { return None };
        // Powers of 0, 1 and -1 depend only on the parity of the exponent, so a huge exponent is reduced instead of failing.
        let is_unit = numerator.unsigned_abs() <= 1 && denominator == 1;
        let exponent = if is_unit && exponent > 2 { 2 + exponent % 2 } else { exponent };
        let exponent = u32::try_from(exponent).ok()?;
        let (numerator, denominator) = (numerator.checked_pow(exponent)?, denominator.checked_pow(exponent)?);
        Some(Exact { numerator, denominator })
    }

    pub(super) fn floor(self) -> Result<Self, ExpressionError> {
        match self {
            Exact { numerator, denominator } => Ok(Self::integer(numerator.div_euclid(denominator))),
            Real(value) => Self::integral(value.floor()),
        }
    }

    /// Converts a floating point number without a fraction to an exact one if it is below 2^53.
    fn integral(value: f64) -> Result<Self, ExpressionError> {
        const EXACT_UP_TO: f64 = 9_007_199_254_740_992.0;
        if value.abs() > EXACT_UP_TO {
            return Self::real(value);
        }
        #[expect(clippy::cast_possible_truncation, reason = "it has no fraction and is below 2^53")]
        Ok(Self::integer(value as i128))
    }

    pub(super) fn is_less_than(self, other: Self) -> bool {
        self.minus(other)
            .map_or_else(|_| self.to_f64() < other.to_f64(), |difference| difference.to_f64() < 0.0)
    }

    /// A JSON number, or a string of digits for an integer that does not fit into 64 bits.
    pub(super) fn to_json(self) -> Value {
        if let Exact { numerator, denominator: 1 } = self {
            return i64::try_from(numerator).map_or_else(|_| numerator.to_string().into(), Value::from);
        }
        let value = self.to_f64();
        // Rounding to 15 significant digits removes floating point noise.
        let rounded = format!("{value:.14e}").parse().unwrap_or(value);
        Value::from(rounded)
    }
}

/// Computes with two fractions. `None` if one of them is a floating point number or `compute` overflows.
fn compute_exact(
    left: Number,
    right: Number,
    compute: impl Fn(i128, i128, i128, i128) -> Option<Number>,
) -> Option<Number> {
    match (left, right) {
        (Exact { numerator: a, denominator: b }, Exact { numerator: c, denominator: d }) => {
            compute(a, b, c, d)
        }
        (Real(_), _) | (_, Real(_)) => None,
    }
}

fn parse_exact(digits: &str) -> Option<Number> {
    let (mantissa, exponent) = digits.split_once(['e', 'E']).unwrap_or((digits, "0"));
    let (before, after) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let numerator: i128 = format!("{before}{after}").parse().ok()?;
    let shift = exponent.parse::<i32>().ok()?.checked_sub(i32::try_from(after.len()).ok()?)?;
    let scale = 10_i128.checked_pow(shift.unsigned_abs())?;
    if shift < 0 {
        Number::exact(numerator, scale)
    } else {
        Some(Number::integer(numerator.checked_mul(scale)?))
    }
}

fn gcd(a: u128, b: u128) -> u128 {
    let (mut a, mut b) = (a, b);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a.max(1)
}
