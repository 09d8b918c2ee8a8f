//! Logarithms: exact if the result is an integer, and defined for numbers that are too large for floating point.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{One, Signed, ToPrimitive, Zero};
use std::f64::consts::LN_2;

use super::{
    ExpressionError,
    number::{Number, NumberResult},
};

pub(super) fn ln(x: &Number) -> NumberResult {
    Number::real(natural_logarithm(x)?)
}

/// The natural logarithm, or that of the base in the second argument.
pub(super) fn log(args: &[Number]) -> NumberResult {
    match args {
        [x, base] => to_base(x, base, |_| None),
        _ => args.first().map_or(Err(ExpressionError::EndsEarly), ln),
    }
}

pub(super) fn log2(x: &Number) -> NumberResult {
    to_base(x, &Number::integer(2), |x| Some(x.log2()))
}

pub(super) fn log10(x: &Number) -> NumberResult {
    to_base(x, &Number::integer(10), |x| Some(x.log10()))
}

fn to_base(x: &Number, base: &Number, direct: fn(f64) -> Option<f64>) -> NumberResult {
    let (top, bottom) = (natural_logarithm(x)?, natural_logarithm(base)?);
    if bottom.is_zero() {
        return Err(ExpressionError::DivisionByZero);
    }
    let quotient = top / bottom;
    let exponent = quotient.round();
    // The test needs the power, so only a result near an integer is tested.
    if (quotient - exponent).abs() < 1e-9
        && let Some(exponent) = exponent.to_i64().map(Number::integer)
        && matches!((x, base), (Number::Exact(_), Number::Exact(_)))
        && base.power(&exponent).is_ok_and(|power| power == *x)
    {
        return Ok(exponent);
    }
    let value = x.to_f64();
    let direct = if value.is_normal() { direct(value) } else { None };
    Number::real(direct.unwrap_or(quotient))
}

fn natural_logarithm(x: &Number) -> Result<f64, ExpressionError> {
    if x.is_negative() || x.is_zero() {
        return Err(ExpressionError::Undefined("the logarithm of zero or less"));
    }
    let value = x.to_f64();
    match x {
        Number::Exact(exact) if !value.is_normal() => {
            Ok(integer_logarithm(exact.numer()) - integer_logarithm(exact.denom()))
        }
        // Near 1, the difference to 1 has the digits that count.
        Number::Exact(exact) if (0.5..2.0).contains(&value) => {
            let difference = exact - BigRational::one();
            Ok(difference.to_f64().unwrap_or_default().ln_1p())
        }
        Number::Exact(_) | Number::Real(_) => Ok(value.ln()),
    }
}

/// The natural logarithm of a positive integer of any size.
fn integer_logarithm(integer: &BigInt) -> f64 {
    let shift = integer.abs().bits().saturating_sub(64);
    let top = (integer >> shift).to_f64().unwrap_or(1.0);
    #[expect(clippy::cast_precision_loss, reason = "the shift is below 2^53")]
    let shift = shift as f64;
    top.ln() + shift * LN_2
}
