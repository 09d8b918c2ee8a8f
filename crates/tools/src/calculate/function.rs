//! Functions and constants of the calculator, in one table.

use num_traits::{One as _, Signed};
use std::f64::consts::{E, PI, TAU};

use super::{
    ExpressionError,
    aggregate::{gcd, hypot, lcm, max, mean, median, min, prod, sum},
    combinatorics::{comb, factorial_of, perm, power_modulo},
    effort::Effort,
    logarithm::{ln, log, log2, log10},
    number::{Number, NumberResult},
};

pub(super) fn constant(name: &str) -> Option<Result<Number, ExpressionError>> {
    match name {
        "pi" | "π" => Some(Ok(Number::Real(PI))),
        "e" => Some(Ok(Number::Real(E))),
        "tau" | "τ" => Some(Ok(Number::Real(TAU))),
        "inf" | "infinity" | "nan" => Some(Err(ExpressionError::NotFinite)),
        _ => None,
    }
}

/// How a function is computed.
#[derive(Clone, Copy)]
enum Computation {
    /// Defined for every number.
    Total(fn(&Number) -> Number),
    One(fn(&Number) -> NumberResult),
    Two(fn(&Number, &Number) -> NumberResult),
    /// A function of real numbers that is not a number outside its domain.
    Real(fn(f64) -> f64),
    Many(fn(&[Number], &mut Effort) -> NumberResult),
}

use Computation::{Many, One, Real, Total, Two};

/// A function with its names and the number of its arguments.
pub(super) struct MathFunction {
    /// The first is the usual one.
    names: &'static [&'static str],
    arguments: (usize, usize),
    computation: Computation,
}

const ANY: usize = usize::MAX;

const fn function(
    names: &'static [&'static str],
    arguments: (usize, usize),
    computation: Computation,
) -> MathFunction {
    MathFunction { names, arguments, computation }
}

static FUNCTIONS: [MathFunction; 50] = [
    function(&["sqrt"], (1, 1), One(sqrt)),
    function(&["cbrt"], (1, 1), One(cbrt)),
    function(&["isqrt"], (1, 1), One(isqrt)),
    function(&["pow", "power"], (2, 3), Many(pow)),
    function(&["exp"], (1, 1), Real(f64::exp)),
    function(&["expm1"], (1, 1), Real(f64::exp_m1)),
    function(&["ln"], (1, 1), One(ln)),
    function(&["log"], (1, 2), Many(|args, _| log(args))),
    function(&["log2"], (1, 1), One(log2)),
    function(&["log10", "lg"], (1, 1), One(log10)),
    function(&["log1p"], (1, 1), Real(f64::ln_1p)),
    function(&["abs", "fabs"], (1, 1), Total(abs)),
    function(&["sign", "sgn"], (1, 1), Total(sign)),
    function(&["round"], (1, 2), Many(|args, _| round(args))),
    function(&["floor"], (1, 1), Total(Number::floor)),
    function(&["ceil", "ceiling"], (1, 1), Total(ceil)),
    function(&["trunc", "int", "fix"], (1, 1), Total(trunc)),
    function(&["float"], (1, 1), Total(Number::clone)),
    function(&["min"], (1, ANY), Many(min)),
    function(&["max"], (1, ANY), Many(max)),
    function(&["sum", "fsum"], (1, ANY), Many(sum)),
    function(&["prod", "product"], (1, ANY), Many(prod)),
    function(&["mean", "avg", "average", "fmean"], (1, ANY), Many(mean)),
    function(&["median"], (1, ANY), Many(median)),
    function(&["gcd"], (1, ANY), Many(gcd)),
    function(&["lcm"], (1, ANY), Many(lcm)),
    function(&["hypot"], (1, ANY), Many(hypot)),
    function(&["factorial", "fact"], (1, 1), Many(|args, effort| factorial_of(&args[0], effort))),
    function(&["comb", "binom", "ncr", "choose"], (2, 2), Many(comb)),
    function(&["perm", "npr"], (1, 2), Many(perm)),
    function(&["mod"], (2, 2), Two(Number::modulo)),
    function(&["fmod"], (2, 2), Two(fmod)),
    function(&["sin"], (1, 1), One(|x| trigonometric(x, f64::sin))),
    function(&["cos"], (1, 1), One(|x| trigonometric(x, f64::cos))),
    function(&["tan"], (1, 1), One(tan)),
    function(&["asin", "arcsin"], (1, 1), Real(f64::asin)),
    function(&["acos", "arccos"], (1, 1), Real(f64::acos)),
    function(&["atan", "arctan"], (1, 1), Real(f64::atan)),
    function(&["atan2", "arctan2"], (2, 2), Two(|y, x| Number::real(y.to_f64().atan2(x.to_f64())))),
    function(&["sinh"], (1, 1), Real(f64::sinh)),
    function(&["cosh"], (1, 1), Real(f64::cosh)),
    function(&["tanh"], (1, 1), Real(f64::tanh)),
    function(&["asinh", "arcsinh", "arsinh"], (1, 1), Real(f64::asinh)),
    function(&["acosh", "arccosh", "arcosh"], (1, 1), Real(f64::acosh)),
    function(&["atanh", "arctanh", "artanh"], (1, 1), Real(f64::atanh)),
    function(&["degrees", "deg", "rad2deg"], (1, 1), Real(f64::to_degrees)),
    function(&["radians", "rad", "deg2rad"], (1, 1), One(radians)),
    function(&["copysign"], (2, 2), Two(|x, y| Ok(if y.is_negative() { abs(x).negate() } else { abs(x) }))),
    function(&["remainder"], (2, 2), Two(remainder)),
    function(&["dist"], (2, 2), Two(|a, b| Ok(abs(&a.minus(b)?)))),
];

impl MathFunction {
    pub(super) fn find(name: &str) -> Option<&'static Self> {
        FUNCTIONS.iter().find(|function| function.names.contains(&name))
    }

    /// The usual names of all functions.
    pub(super) fn known() -> String {
        FUNCTIONS.iter().map(|function| function.names[0]).collect::<Vec<_>>().join(" ")
    }

    /// Whether the arguments may be written as one list.
    pub(super) fn takes_list(&self) -> bool {
        self.arguments.1 == ANY
    }

    pub(super) fn apply(&self, args: &[Number], effort: &mut Effort) -> NumberResult {
        let (least, most) = self.arguments;
        let name = self.names[0];
        if args.len() < least || args.len() > most {
            return Err(self.argument_count_error(args.len()));
        }
        for arg in args {
            effort.spend(arg.words() * arg.words())?;
        }
        match (self.computation, args) {
            (Total(compute), [x]) => Ok(compute(x)),
            (One(compute), [x]) => compute(x),
            (Two(compute), [x, y]) => effort.compute(compute, x, y),
            (Real(compute), [x]) => match compute(x.to_f64()) {
                value if value.is_nan() => Err(ExpressionError::Undefined(name)),
                value => Number::real(value),
            },
            (Many(compute), args) => compute(args, effort),
            (Total(_) | One(_) | Two(_) | Real(_), args) => Err(self.argument_count_error(args.len())),
        }
    }

    fn argument_count_error(&self, given: usize) -> ExpressionError {
        let takes = match self.arguments {
            (1, 1) => "one argument",
            (2, 2) => "two arguments",
            (1, 2) => "one or two arguments",
            (2, 3) => "two or three arguments",
            _ => "at least one argument",
        };
        let too_many = given > self.arguments.1;
        let hint =
            if too_many { "; a comma separates arguments, so write 1000 or 1_000 for 1,000" } else { "" };
        ExpressionError::ArgumentCount { name: self.names[0], takes, given, hint }
    }
}

pub(super) fn sqrt(x: &Number) -> NumberResult {
    if x.is_negative() {
        return Err(ExpressionError::Undefined("the square root of a negative number"));
    }
    x.exact_root(2).map_or_else(|| Number::real(x.to_f64().sqrt()), Ok)
}

pub(super) fn cbrt(x: &Number) -> NumberResult {
    x.exact_root(3).map_or_else(|| Number::real(x.to_f64().cbrt()), Ok)
}

fn isqrt(x: &Number) -> NumberResult {
    let integer = x.to_integer().filter(|integer| !integer.is_negative());
    let needs = "a whole number that is not negative";
    Ok(Number::integer(integer.ok_or(ExpressionError::Argument { name: "isqrt", needs })?.sqrt()))
}

fn pow(args: &[Number], effort: &mut Effort) -> NumberResult {
    match args {
        [base, exponent, modulus] => power_modulo([base, exponent, modulus], effort),
        [base, exponent] => effort.compute(Number::power, base, exponent),
        _ => Err(ExpressionError::EndsEarly),
    }
}

fn abs(x: &Number) -> Number {
    if x.is_negative() { x.negate() } else { x.clone() }
}

fn sign(x: &Number) -> Number {
    Number::integer(i32::from(!x.is_zero()) - 2 * i32::from(x.is_negative()))
}

/// Rounds half away from zero, as people do. The second argument is the number of decimal places.
fn round(args: &[Number]) -> NumberResult {
    let needs = "a whole number of decimal places between -10000 and 10000";
    let places = match args.get(1) {
        None => 0,
        Some(places) => {
            let places = places.to_integer().and_then(|places| i32::try_from(places).ok());
            places
                .filter(|places| places.abs() <= 10_000)
                .ok_or(ExpressionError::Argument { name: "round", needs })?
        }
    };
    let scale = num_rational::BigRational::from_integer(10.into()).pow(places);
    Number::bounded((args[0].to_exact() * &scale).round() / scale)
}

fn ceil(x: &Number) -> Number {
    x.negate().floor().negate()
}

fn trunc(x: &Number) -> Number {
    if x.is_negative() { ceil(x) } else { x.floor() }
}

/// The remainder with the sign of the dividend, as in C.
fn fmod(x: &Number, y: &Number) -> NumberResult {
    let remainder = abs(x).modulo(&abs(y))?;
    Ok(if x.is_negative() { remainder.negate() } else { remainder })
}

/// The difference to the nearest multiple of `y`; of two, to the even one.
fn remainder(x: &Number, y: &Number) -> NumberResult {
    let quotient = x.divided_by(y)?.to_exact();
    let floor = quotient.floor();
    let twice = (&quotient - &floor) + (&quotient - &floor);
    let is_even = num_integer::Integer::is_even(floor.numer());
    let one = num_rational::BigRational::one();
    let up = twice > one || (twice == one && !is_even);
    x.minus(&y.times(&Number::bounded(if up { floor + one } else { floor })?)?)
}

pub(super) fn radians(x: &Number) -> NumberResult {
    Number::real(x.to_f64().to_radians())
}

/// `pi` is inexact, so a result within floating point error of an integer is that integer: `sin(pi)` is 0.
fn trigonometric(x: &Number, function: fn(f64) -> f64) -> NumberResult {
    let argument = x.to_f64();
    let value = function(argument);
    let nearest = value.round();
    let is_noise = argument.abs() > 0.5 && (value - nearest).abs() < noise(argument);
    Number::real(if is_noise { nearest } else { value })
}

fn tan(x: &Number) -> NumberResult {
    let argument = x.to_f64();
    if argument.cos().abs() < noise(argument) {
        return Err(ExpressionError::Undefined("tan"));
    }
    trigonometric(x, f64::tan)
}

/// The error that rounding the argument can cause.
fn noise(argument: f64) -> f64 {
    argument.abs().max(1.0) * f64::EPSILON * 2.0
}
