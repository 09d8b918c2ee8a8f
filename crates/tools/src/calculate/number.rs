//! Numbers that stay exact fractions as long as 128 bits hold them, and become floating point then.

use serde_json::Value;

use super::Fault;

/// A value of the calculator.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Number {
    /// In lowest terms; the denominator is positive.
    Exact { over: i128, under: i128 },
    /// Finite.
    Real(f64),
}

use Number::{Exact, Real};

impl Number {
    pub(super) const fn whole(value: i128) -> Self {
        Exact { over: value, under: 1 }
    }

    fn exact(over: i128, under: i128) -> Option<Self> {
        let divisor = i128::try_from(gcd(over.unsigned_abs(), under.unsigned_abs())).ok()?;
        let (over, under) = (over / divisor, under / divisor);
        let sign = under.signum();
        Some(Exact { over: over.checked_mul(sign)?, under: under.checked_mul(sign)? })
    }

    /// A floating point result; one that is not finite has left what can be computed.
    pub(super) fn real(value: f64) -> Result<Self, Fault> {
        if value.is_finite() { Ok(Real(value)) } else { Err(Fault::Overflow) }
    }

    /// Reads digits with an optional fraction and exponent; separators are already gone.
    pub(super) fn read(digits: &str) -> Result<Self, Fault> {
        let value: f64 = digits.parse().map_err(|_| Fault::NotANumber(digits.to_owned()))?;
        read_exact(digits).map_or_else(|| Self::real(value), Ok)
    }

    #[expect(clippy::cast_precision_loss, reason = "this is where exactness is given up on purpose")]
    pub(super) fn to_f64(self) -> f64 {
        match self {
            Exact { over, under } => over as f64 / under as f64,
            Real(value) => value,
        }
    }

    pub(super) fn is_zero(self) -> bool {
        match self {
            Exact { over, .. } => over == 0,
            Real(value) => value == 0.0,
        }
    }

    pub(super) fn negate(self) -> Result<Self, Fault> {
        Self::whole(0).minus(self)
    }

    pub(super) fn plus(self, other: Self) -> Result<Self, Fault> {
        exactly(self, other, |a, b, c, d| {
            Self::exact(a.checked_mul(d)?.checked_add(c.checked_mul(b)?)?, b.checked_mul(d)?)
        })
        .map_or_else(|| Self::real(self.to_f64() + other.to_f64()), Ok)
    }

    pub(super) fn minus(self, other: Self) -> Result<Self, Fault> {
        exactly(self, other, |a, b, c, d| {
            Self::exact(a.checked_mul(d)?.checked_sub(c.checked_mul(b)?)?, b.checked_mul(d)?)
        })
        .map_or_else(|| Self::real(self.to_f64() - other.to_f64()), Ok)
    }

    pub(super) fn times(self, other: Self) -> Result<Self, Fault> {
        exactly(self, other, |a, b, c, d| Self::exact(a.checked_mul(c)?, b.checked_mul(d)?))
            .map_or_else(|| Self::real(self.to_f64() * other.to_f64()), Ok)
    }

    pub(super) fn divided_by(self, other: Self) -> Result<Self, Fault> {
        if other.is_zero() {
            return Err(Fault::DivisionByZero);
        }
        exactly(self, other, |a, b, c, d| Self::exact(a.checked_mul(d)?, b.checked_mul(c)?))
            .map_or_else(|| Self::real(self.to_f64() / other.to_f64()), Ok)
    }

    /// What is left after a division; it has the sign of the divisor, so that `-1 % 12` is 11.
    pub(super) fn modulo(self, other: Self) -> Result<Self, Fault> {
        self.minus(other.times(self.divided_by(other)?.floor()?)?)
    }

    pub(super) fn power(self, exponent: Self) -> Result<Self, Fault> {
        if let Exact { over, under: 1 } = exponent {
            let base = if over < 0 { Self::whole(1).divided_by(self)? } else { self };
            if let Some(power) = base.exact_power(over.unsigned_abs()) {
                return Ok(power);
            }
        }
        let value = self.to_f64().powf(exponent.to_f64());
        if value.is_nan() {
            Err(Fault::Undefined("a fractional power of a negative number"))
        } else {
            Self::real(value)
        }
    }

    fn exact_power(self, exponent: u128) -> Option<Self> {
        let Exact { over, under } = self else { return None };
        // Powers of 0, 1 and -1 are exact for any exponent, so that a huge one must not be refused here.
        let exponent =
            if over.unsigned_abs() <= 1 && under == 1 && exponent > 2 { 2 + exponent % 2 } else { exponent };
        let exponent = u32::try_from(exponent).ok()?;
        Some(Exact { over: over.checked_pow(exponent)?, under: under.checked_pow(exponent)? })
    }

    pub(super) fn floor(self) -> Result<Self, Fault> {
        match self {
            Exact { over, under } => Ok(Self::whole(over.div_euclid(under))),
            Real(value) => Self::integral(value.floor()),
        }
    }

    /// A floating point number without a fraction is an exact one, if it is small enough to be that.
    fn integral(value: f64) -> Result<Self, Fault> {
        const EXACT_UP_TO: f64 = 9_007_199_254_740_992.0;
        if value.abs() > EXACT_UP_TO {
            return Self::real(value);
        }
        #[expect(clippy::cast_possible_truncation, reason = "it has no fraction and is below 2^53")]
        Ok(Self::whole(value as i128))
    }

    pub(super) fn is_less_than(self, other: Self) -> bool {
        self.minus(other)
            .map_or_else(|_| self.to_f64() < other.to_f64(), |difference| difference.to_f64() < 0.0)
    }

    /// A JSON number where it can hold the value, digits in a string where it cannot.
    pub(super) fn to_json(self) -> Value {
        if let Exact { over, under: 1 } = self {
            return i64::try_from(over).map_or_else(|_| over.to_string().into(), Value::from);
        }
        let value = self.to_f64();
        // The last digits of a floating point number are noise: 15 significant ones are not.
        let rounded = format!("{value:.14e}").parse().unwrap_or(value);
        Value::from(rounded)
    }
}

/// Computes with two fractions, or gives up when one is no fraction or a product leaves 128 bits.
fn exactly(
    left: Number,
    right: Number,
    compute: impl Fn(i128, i128, i128, i128) -> Option<Number>,
) -> Option<Number> {
    match (left, right) {
        (Exact { over: a, under: b }, Exact { over: c, under: d }) => compute(a, b, c, d),
        (Real(_), _) | (_, Real(_)) => None,
    }
}

fn read_exact(digits: &str) -> Option<Number> {
    let (mantissa, exponent) = digits.split_once(['e', 'E']).unwrap_or((digits, "0"));
    let (before, after) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let over: i128 = format!("{before}{after}").parse().ok()?;
    let shift = exponent.parse::<i32>().ok()?.checked_sub(i32::try_from(after.len()).ok()?)?;
    let scale = 10_i128.checked_pow(shift.unsigned_abs())?;
    if shift < 0 { Number::exact(over, scale) } else { Some(Number::whole(over.checked_mul(scale)?)) }
}

fn gcd(a: u128, b: u128) -> u128 {
    let (mut a, mut b) = (a, b);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a.max(1)
}
