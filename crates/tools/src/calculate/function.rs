//! Functions and constants of the calculator.

use super::{ExpressionError, number::Number};

pub(super) fn constant(name: &str) -> Option<Number> {
    match name {
        "pi" | "π" => Some(Number::Real(std::f64::consts::PI)),
        "e" => Some(Number::Real(std::f64::consts::E)),
        _ => None,
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) enum MathFunction {
    Sqrt,
    Abs,
    Round,
    Floor,
    Ceil,
    Min,
    Max,
    Ln,
    Log,
    Sin,
    Cos,
    Tan,
}

use MathFunction::{Abs, Ceil, Cos, Floor, Ln, Log, Max, Min, Round, Sin, Sqrt, Tan};

impl MathFunction {
    const ALL: [(&'static str, Self); 12] = [
        ("sqrt", Sqrt),
        ("abs", Abs),
        ("round", Round),
        ("floor", Floor),
        ("ceil", Ceil),
        ("min", Min),
        ("max", Max),
        ("ln", Ln),
        ("log", Log),
        ("sin", Sin),
        ("cos", Cos),
        ("tan", Tan),
    ];

    pub(super) fn find(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, function)| *function)
    }

    pub(super) fn apply(self, args: &[Number]) -> Result<Number, ExpressionError> {
        match (self, args) {
            (Sqrt, &[x]) => sqrt(x),
            (Abs, &[x]) => {
                if x.is_less_than(Number::integer(0)) {
                    x.negate()
                } else {
                    Ok(x)
                }
            }
            (Round, &[x]) => round(x, Number::integer(0)),
            (Round, &[x, places]) => round(x, places),
            (Floor, &[x]) => x.floor(),
            (Ceil, &[x]) => x.negate()?.floor()?.negate(),
            (Min, &[first, ref rest @ ..]) => {
                Ok(rest.iter().fold(first, |a, &b| if b.is_less_than(a) { b } else { a }))
            }
            (Max, &[first, ref rest @ ..]) => {
                Ok(rest.iter().fold(first, |a, &b| if a.is_less_than(b) { b } else { a }))
            }
            (Ln, &[x]) => logarithm(x, f64::ln),
            (Log, &[x]) => logarithm(x, f64::log10),
            (Log, &[x, base]) => {
                logarithm(x, f64::ln)?.divided_by(logarithm(base, f64::ln)?).map(snap_to_integer)
            }
            (Sin, &[x]) => Number::real(x.to_f64().sin()).map(snap_to_integer),
            (Cos, &[x]) => Number::real(x.to_f64().cos()).map(snap_to_integer),
            (Tan, &[x]) => Number::real(x.to_f64().tan()).map(snap_to_integer),
            (Sqrt | Abs | Floor | Ceil | Ln | Sin | Cos | Tan, _) => {
                Err(self.argument_count_error("one argument", args))
            }
            (Round | Log, _) => Err(self.argument_count_error("one or two arguments", args)),
            (Min | Max, _) => Err(self.argument_count_error("at least one argument", args)),
        }
    }

    fn argument_count_error(self, takes: &'static str, args: &[Number]) -> ExpressionError {
        let name = Self::ALL[self as usize].0;
        ExpressionError::ArgumentCount { name, takes, given: args.len() }
    }
}

fn sqrt(x: Number) -> Result<Number, ExpressionError> {
    if x.is_less_than(Number::integer(0)) {
        return Err(ExpressionError::Undefined("the square root of a negative number"));
    }
    if let Number::Exact { numerator, denominator } = x {
        let (top, bottom) = (numerator.isqrt(), denominator.isqrt());
        if top * top == numerator && bottom * bottom == denominator {
            return Ok(Number::Exact { numerator: top, denominator: bottom });
        }
    }
    Number::real(x.to_f64().sqrt())
}

/// Rounds half away from zero.
fn round(x: Number, places: Number) -> Result<Number, ExpressionError> {
    let scale = Number::integer(10).power(places.floor()?)?;
    let half = Number::Exact { numerator: 1, denominator: 2 };
    let scaled = x.times(scale)?;
    let rounded = if scaled.is_less_than(Number::integer(0)) {
        scaled.negate()?.plus(half)?.floor()?.negate()?
    } else {
        scaled.plus(half)?.floor()?
    };
    rounded.divided_by(scale)
}

fn logarithm(x: Number, log: fn(f64) -> f64) -> Result<Number, ExpressionError> {
    if x.is_less_than(Number::integer(0)) || x.is_zero() {
        return Err(ExpressionError::Undefined("the logarithm of zero or less"));
    }
    Number::real(log(x.to_f64()))
}

/// Rounds to an integer within floating point error, so that `sin(pi)` is 0 although `pi` is inexact.
fn snap_to_integer(number: Number) -> Number {
    let value = number.to_f64();
    let nearest = value.round();
    if (value - nearest).abs() < 1e-15 { Number::Real(nearest) } else { number }
}
