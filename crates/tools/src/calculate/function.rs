//! The functions and constants of the calculator.

use super::{Fault, number::Number};

pub(super) fn constant(name: &str) -> Option<Number> {
    match name {
        "pi" | "π" => Some(Number::Real(std::f64::consts::PI)),
        "e" => Some(Number::Real(std::f64::consts::E)),
        _ => None,
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Function {
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

use Function::{Abs, Ceil, Cos, Floor, Ln, Log, Max, Min, Round, Sin, Sqrt, Tan};

impl Function {
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

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, function)| *function)
    }

    pub(super) fn apply(self, args: &[Number]) -> Result<Number, Fault> {
        match (self, args) {
            (Sqrt, &[x]) => sqrt(x),
            (Abs, &[x]) => {
                if x.is_less_than(Number::whole(0)) {
                    x.negate()
                } else {
                    Ok(x)
                }
            }
            (Round, &[x]) => round(x, Number::whole(0)),
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
            (Log, &[x, base]) => logarithm(x, f64::ln)?.divided_by(logarithm(base, f64::ln)?).map(tidy),
            (Sin, &[x]) => Number::real(x.to_f64().sin()).map(tidy),
            (Cos, &[x]) => Number::real(x.to_f64().cos()).map(tidy),
            (Tan, &[x]) => Number::real(x.to_f64().tan()).map(tidy),
            (Sqrt | Abs | Floor | Ceil | Ln | Sin | Cos | Tan, _) => Err(self.misfit("one argument", args)),
            (Round | Log, _) => Err(self.misfit("one or two arguments", args)),
            (Min | Max, _) => Err(self.misfit("at least one argument", args)),
        }
    }

    fn misfit(self, takes: &'static str, args: &[Number]) -> Fault {
        let name = Self::ALL[self as usize].0;
        Fault::ArgumentCount { name, takes, given: args.len() }
    }
}

fn sqrt(x: Number) -> Result<Number, Fault> {
    if x.is_less_than(Number::whole(0)) {
        return Err(Fault::Undefined("the square root of a negative number"));
    }
    if let Number::Exact { over, under } = x {
        let (root_over, root_under) = (over.isqrt(), under.isqrt());
        if root_over * root_over == over && root_under * root_under == under {
            return Ok(Number::Exact { over: root_over, under: root_under });
        }
    }
    Number::real(x.to_f64().sqrt())
}

/// Half goes away from zero, as at school.
fn round(x: Number, places: Number) -> Result<Number, Fault> {
    let scale = Number::whole(10).power(places.floor()?)?;
    let half = Number::Exact { over: 1, under: 2 };
    let scaled = x.times(scale)?;
    let rounded = if scaled.is_less_than(Number::whole(0)) {
        scaled.negate()?.plus(half)?.floor()?.negate()?
    } else {
        scaled.plus(half)?.floor()?
    };
    rounded.divided_by(scale)
}

fn logarithm(x: Number, of: fn(f64) -> f64) -> Result<Number, Fault> {
    if x.is_less_than(Number::whole(0)) || x.is_zero() {
        return Err(Fault::Undefined("the logarithm of zero or less"));
    }
    Number::real(of(x.to_f64()))
}

/// `sin(pi)` is 0 to the reader: the rest is what `pi` lacks in 64 bits.
fn tidy(number: Number) -> Number {
    let value = number.to_f64();
    let nearest = value.round();
    if (value - nearest).abs() < 1e-15 { Number::Real(nearest) } else { number }
}
