//! Factorials, permutations, combinations and powers modulo a number.

use num_bigint::BigInt;
use num_traits::{One, Signed, ToPrimitive, Zero};

use super::{
    ExpressionError,
    effort::Effort,
    number::{MAX_INTEGER_BITS, Number, NumberResult},
};

/// Errors name `factorial` for both `n!` and `factorial(n)`.
pub(super) fn factorial_of(n: &Number, effort: &mut Effort) -> NumberResult {
    let n = natural("factorial", n)?;
    falling_product(&n, &n, effort).map(Number::integer)
}

/// The number of ordered selections of `k` from `n`; of all if `k` is missing.
pub(super) fn perm(args: &[Number], effort: &mut Effort) -> NumberResult {
    let n = natural("perm", &args[0])?;
    let k = args.get(1).map_or_else(|| Ok(n.clone()), |k| natural("perm", k))?;
    if k > n {
        return Ok(Number::integer(0));
    }
    falling_product(&n, &k, effort).map(Number::integer)
}

/// The number of selections of `k` from `n`.
pub(super) fn comb(args: &[Number], effort: &mut Effort) -> NumberResult {
    let (n, k) = (natural("comb", &args[0])?, natural("comb", &args[1])?);
    if k > n {
        return Ok(Number::integer(0));
    }
    let k = (&n - &k).min(k);
    let mut product = BigInt::one();
    let (mut index, mut factor) = (BigInt::zero(), &n - &k);
    while index < k {
        index += 1;
        factor += 1;
        // Each product of this sequence is a binomial coefficient, so the division is exact.
        product = bounded(product * &factor, effort)? / &index;
    }
    Ok(Number::integer(product))
}

/// `base^exponent mod modulus` of integers, as Python's `pow` with three arguments.
pub(super) fn power_modulo([base, exponent, modulus]: [&Number; 3], effort: &mut Effort) -> NumberResult {
    let needs = "whole numbers, and a positive exponent, if it has three arguments";
    let invalid = ExpressionError::Argument { name: "pow", needs };
    let integer = |number: &Number| number.to_integer().ok_or_else(|| invalid.clone());
    let (base, exponent, modulus) = (integer(base)?, integer(exponent)?, integer(modulus)?);
    if modulus.is_zero() {
        return Err(ExpressionError::DivisionByZero);
    }
    if exponent.is_negative() {
        return Err(invalid);
    }
    let words = (base.bits().max(modulus.bits())) / 64 + 1;
    effort.spend(exponent.bits().saturating_mul(4 * words * words))?;
    Ok(Number::integer(base.modpow(&exponent, &modulus)))
}

/// The product of the `count` factors `n`, `n - 1`, …
fn falling_product(n: &BigInt, count: &BigInt, effort: &mut Effort) -> Result<BigInt, ExpressionError> {
    let count = count.to_u64().ok_or(ExpressionError::Overflow)?;
    let mut product = BigInt::one();
    for step in 0..count {
        product = bounded(product * (n - step), effort)?;
    }
    Ok(product)
}

fn bounded(product: BigInt, effort: &mut Effort) -> Result<BigInt, ExpressionError> {
    effort.spend(4 * (product.bits() / 64 + 1))?;
    if product.bits() > MAX_INTEGER_BITS { Err(ExpressionError::Overflow) } else { Ok(product) }
}

fn natural(name: &'static str, number: &Number) -> Result<BigInt, ExpressionError> {
    let needs = "whole numbers that are not negative";
    let integer = number.to_integer().filter(|integer| !integer.is_negative());
    integer.ok_or(ExpressionError::Argument { name, needs })
}
