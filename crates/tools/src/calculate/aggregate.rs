//! Functions of any number of arguments.

use num_bigint::BigInt;
use num_integer::Integer;
use num_traits::{One, Signed, Zero};

use super::{
    ExpressionError,
    effort::Effort,
    function::sqrt,
    number::{Number, NumberResult},
};

pub(super) fn min(args: &[Number], effort: &mut Effort) -> NumberResult {
    select(args, effort, Number::is_less_than)
}

pub(super) fn max(args: &[Number], effort: &mut Effort) -> NumberResult {
    select(args, effort, |candidate, best| best.is_less_than(candidate))
}

fn select(args: &[Number], effort: &mut Effort, is_better: fn(&Number, &Number) -> bool) -> NumberResult {
    let (first, rest) = args.split_first().ok_or(ExpressionError::EndsEarly)?;
    let mut best = first;
    for candidate in rest {
        // Comparing fractions divides.
        effort.spend(64 * best.words() * candidate.words())?;
        best = if is_better(candidate, best) { candidate } else { best };
    }
    Ok(best.clone())
}

pub(super) fn sum(args: &[Number], effort: &mut Effort) -> NumberResult {
    args.iter().try_fold(Number::integer(0), |sum, x| effort.compute(Number::plus, &sum, x))
}

pub(super) fn prod(args: &[Number], effort: &mut Effort) -> NumberResult {
    args.iter().try_fold(Number::integer(1), |product, x| effort.compute(Number::times, &product, x))
}

pub(super) fn mean(args: &[Number], effort: &mut Effort) -> NumberResult {
    let sum = sum(args, effort)?;
    effort.compute(Number::divided_by, &sum, &Number::integer(args.len()))
}

pub(super) fn median(args: &[Number], effort: &mut Effort) -> NumberResult {
    let widest = args.iter().map(Number::words).max().unwrap_or(1);
    // 16 comparisons for each of 10,000 numbers sort them.
    effort.spend(16 * 64 * widest * widest * args.len() as u64)?;
    let mut sorted = args.to_vec();
    sorted.sort_by(|a, b| b.is_less_than(a).cmp(&a.is_less_than(b)));
    let middle = &sorted[(sorted.len() - 1) / 2..=sorted.len() / 2];
    mean(middle, effort)
}

pub(super) fn hypot(args: &[Number], effort: &mut Effort) -> NumberResult {
    let mut total = Number::integer(0);
    for x in args {
        let square = effort.compute(Number::times, x, x)?;
        total = effort.compute(Number::plus, &total, &square)?;
    }
    sqrt(&total)
}

pub(super) fn gcd(args: &[Number], effort: &mut Effort) -> NumberResult {
    fold_integers("gcd", args, effort, BigInt::zero(), Integer::gcd)
}

pub(super) fn lcm(args: &[Number], effort: &mut Effort) -> NumberResult {
    fold_integers("lcm", args, effort, BigInt::one(), Integer::lcm)
}

fn fold_integers(
    name: &'static str,
    args: &[Number],
    effort: &mut Effort,
    start: BigInt,
    operation: fn(&BigInt, &BigInt) -> BigInt,
) -> NumberResult {
    let mut folded = Number::integer(start);
    for x in args {
        let words = folded.words() + x.words();
        effort.spend(64 * words * words)?;
        let integer = x.to_integer().ok_or(ExpressionError::Argument { name, needs: "whole numbers" })?;
        let result = operation(folded.to_exact().numer(), &integer);
        folded = Number::bounded(result.abs().into())?;
    }
    Ok(folded)
}
