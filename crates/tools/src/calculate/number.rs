//! Numbers of the calculator: exact fractions of any size up to a limit, and floating point numbers beyond it.

use num_bigint::{BigInt, Sign};
use num_integer::Integer;
use num_rational::BigRational;
use num_traits::{One, Pow, Signed, ToPrimitive, Zero};

use super::ExpressionError;

/// Integers are exact up to this size, about 10,000 digits.
pub(super) const MAX_INTEGER_BITS: u64 = 33_220;
/// Numerators and denominators of fractions are exact up to this size. Reducing a fraction takes quadratic time.
const MAX_FRACTION_BITS: u64 = 4096;
/// Roots up to this degree are tried exactly.
const MAX_ROOT: u32 = 64;

/// A number of the calculator.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Number {
    Exact(BigRational),
    /// Finite.
    Real(f64),
}

use Number::{Exact, Real};

pub(super) type NumberResult = Result<Number, ExpressionError>;

impl Number {
    pub(super) fn integer(value: impl Into<BigInt>) -> Self {
        Exact(BigRational::from_integer(value.into()))
    }

    /// An exact number if it is within the limits, otherwise the nearest floating point number.
    pub(super) fn bounded(value: BigRational) -> NumberResult {
        let bits = value.numer().bits().max(value.denom().bits());
        let limit = if value.is_integer() { MAX_INTEGER_BITS } else { MAX_FRACTION_BITS };
        if bits <= limit { Ok(Exact(value)) } else { Self::real(ratio_to_f64(&value)) }
    }

    /// A floating point result, or [`ExpressionError::Overflow`] if it is not finite.
    pub(super) fn real(value: f64) -> NumberResult {
        if value.is_finite() { Ok(Real(value)) } else { Err(ExpressionError::Overflow) }
    }

    pub(super) fn to_f64(&self) -> f64 {
        match self {
            Exact(value) => ratio_to_f64(value),
            Real(value) => *value,
        }
    }

    /// The exact value; that of a floating point number is its binary fraction.
    pub(super) fn to_exact(&self) -> BigRational {
        match self {
            Exact(value) => value.clone(),
            Real(value) => BigRational::from_float(*value).unwrap_or_else(BigRational::zero),
        }
    }

    /// The integer that this number is. A floating point number counts if it has no fraction.
    pub(super) fn to_integer(&self) -> Option<BigInt> {
        Some(self.to_exact()).filter(BigRational::is_integer).map(|value| value.to_integer())
    }

    pub(super) fn is_zero(&self) -> bool {
        match self {
            Exact(value) => value.is_zero(),
            Real(value) => *value == 0.0,
        }
    }

    pub(super) fn is_negative(&self) -> bool {
        match self {
            Exact(value) => value.is_negative(),
            Real(value) => *value < 0.0,
        }
    }

    /// The size in machine words, for the estimate of effort.
    pub(super) fn words(&self) -> u64 {
        match self {
            Exact(value) => (value.numer().bits() + value.denom().bits()) / 64 + 1,
            Real(_) => 1,
        }
    }

    pub(super) fn is_fraction(&self) -> bool {
        matches!(self, Exact(value) if !value.is_integer())
    }

    pub(super) fn negate(&self) -> Self {
        match self {
            Exact(value) => Exact(-value),
            Real(value) => Real(-value),
        }
    }

    pub(super) fn plus(&self, other: &Self) -> NumberResult {
        compute(self, other, |a, b| a + b, |a, b| a + b)
    }

    pub(super) fn minus(&self, other: &Self) -> NumberResult {
        compute(self, other, |a, b| a - b, |a, b| a - b)
    }

    pub(super) fn times(&self, other: &Self) -> NumberResult {
        compute(self, other, |a, b| a * b, |a, b| a * b)
    }

    pub(super) fn divided_by(&self, other: &Self) -> NumberResult {
        if other.is_zero() {
            return Err(ExpressionError::DivisionByZero);
        }
        compute(self, other, |a, b| a / b, |a, b| a / b)
    }

    /// The quotient rounded down: `-7 // 2` is -4.
    pub(super) fn floor_divided_by(&self, other: &Self) -> NumberResult {
        Ok(self.divided_by(other)?.floor())
    }

    /// The remainder with the sign of the divisor (floored division): `-1 % 12` is 11.
    pub(super) fn modulo(&self, other: &Self) -> NumberResult {
        if other.is_zero() {
            return Err(ExpressionError::DivisionByZero);
        }
        if let (Some(left), Some(right)) = (self.to_integer(), other.to_integer()) {
            return Ok(Self::integer(left.mod_floor(&right)));
        }
        self.minus(&other.times(&self.floor_divided_by(other)?)?)
    }

    pub(super) fn power(&self, exponent: &Self) -> NumberResult {
        if self.is_zero() && exponent.is_negative() {
            return Err(ExpressionError::DivisionByZero);
        }
        if let (Exact(base), Exact(exponent)) = (self, exponent)
            && let Some(power) = exact_power(base, exponent)
        {
            return Self::bounded(power);
        }
        let value = match (self, exponent) {
            // The logarithm of 1 + x keeps the digits that a base near 1 loses as a floating point number.
            (Exact(base), Exact(_)) if is_near_one(base) => {
                (exponent.to_f64() * ratio_to_f64(&(base - BigRational::one())).ln_1p()).exp()
            }
            _ => self.to_f64().powf(exponent.to_f64()),
        };
        if value.is_nan() {
            return Err(ExpressionError::Undefined("a fractional power of a negative number"));
        }
        Self::real(value)
    }

    pub(super) fn floor(&self) -> Self {
        Self::integer(self.to_exact().floor().to_integer())
    }

    pub(super) fn is_less_than(&self, other: &Self) -> bool {
        match (self, other) {
            (Exact(a), Exact(b)) => a < b,
            _ => self.to_f64() < other.to_f64(),
        }
    }

    /// The exact root of this degree, if there is one.
    pub(super) fn exact_root(&self, degree: u32) -> Option<Self> {
        let Exact(value) = self else { return None };
        root_of_ratio(value, degree).map(Exact)
    }
}

/// Computes exactly if both numbers are exact.
fn compute(
    left: &Number,
    right: &Number,
    exact: impl Fn(&BigRational, &BigRational) -> BigRational,
    real: impl Fn(f64, f64) -> f64,
) -> NumberResult {
    match (left, right) {
        (Exact(a), Exact(b)) => Number::bounded(exact(a, b)),
        (Real(_), _) | (_, Real(_)) => Number::real(real(left.to_f64(), right.to_f64())),
    }
}

fn ratio_to_f64(value: &BigRational) -> f64 {
    value.to_f64().unwrap_or(f64::INFINITY)
}

/// Whether the base is between 1/2 and 2, without 1.
fn is_near_one(base: &BigRational) -> bool {
    let (two, one) = (BigRational::from_integer(2.into()), BigRational::one());
    *base > two.recip() && *base < two && *base != one
}

/// A power with a rational exponent, if it is exact and within the limits.
fn exact_power(base: &BigRational, exponent: &BigRational) -> Option<BigRational> {
    let degree = exponent.denom().to_u32().filter(|degree| *degree <= MAX_ROOT)?;
    let root = if degree == 1 {
        base.clone()
    } else {
        // An even root of a negative number is not real, and an odd one is not the principal value.
        Some(base).filter(|base| !base.is_negative()).and_then(|base| root_of_ratio(base, degree))?
    };
    let is_unit = root.is_integer() && root.numer().magnitude() <= &1_u8.into();
    let times = if is_unit {
        // Powers of 0, 1 and -1 depend only on the parity of the exponent, so a huge exponent is reduced.
        let is_odd = exponent.numer().is_odd();
        u32::from(!exponent.numer().is_zero()) * if is_odd { 1 } else { 2 }
    } else {
        exponent.numer().magnitude().to_u32()?
    };
    let limit = if root.is_integer() { MAX_INTEGER_BITS } else { MAX_FRACTION_BITS };
    let bits = root.numer().bits().max(root.denom().bits());
    if bits.checked_sub(1)?.checked_mul(times.into())? > limit {
        return None;
    }
    let power = Pow::pow(&root, times);
    let inverts = exponent.numer().sign() == Sign::Minus;
    Some(if inverts && !power.is_zero() { power.recip() } else { power })
}

fn root_of_ratio(value: &BigRational, degree: u32) -> Option<BigRational> {
    if value.is_negative() && degree.is_multiple_of(2) {
        return None;
    }
    let root = |integer: &BigInt| {
        let root = integer.nth_root(degree);
        (Pow::pow(&root, degree) == *integer).then_some(root)
    };
    Some(BigRational::new_raw(root(value.numer())?, root(value.denom())?))
}
