//! Expressions with their values, and errors with their columns.

use serde_json::Value;

use super::*;

fn value(expression: &str) -> Value {
    match parser::evaluate(expression) {
        Ok(result) => result.to_json(),
        Err(error) => panic!("{expression}: {error}"),
    }
}

fn error(expression: &str) -> String {
    match parser::evaluate(expression) {
        Ok(result) => panic!("{expression} = {}", result.to_json()),
        Err(error) => error.to_string(),
    }
}

/// Equal as text, or as floating point numbers in 14 digits.
fn agrees(found: &Value, expected: &str) -> bool {
    let found = found.as_str().map_or_else(|| found.to_string(), str::to_owned);
    if found == expected {
        return true;
    }
    let is_real = |text: &str| text.contains(['.', 'e']) && text.len() < 25;
    let (Ok(a), Ok(b)) = (found.parse::<f64>(), expected.parse::<f64>()) else { return false };
    (is_real(&found) || is_real(expected)) && (a - b).abs() <= 2e-14 * b.abs().max(1e-9)
}

/// The values were computed by Python 3, with `fractions` and `decimal` where the calculator is exact.
#[test]
fn expressions_have_the_values_that_python_computes() {
    let table = include_str!("expressions.tsv");
    let mut wrong = Vec::new();
    for line in table.lines() {
        let (expression, expected) = line.split_once('\t').unwrap();
        match parser::evaluate(expression) {
            Ok(result) if agrees(&result.to_json(), expected) => {}
            Ok(result) => wrong.push(format!("{expression} = {}, not {expected}", result.to_json())),
            Err(error) => wrong.push(format!("{expression}: {error}")),
        }
    }
    assert!(table.lines().count() >= 150);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn results_are_numbers_if_15_digits_suffice_and_digits_in_a_string_otherwise() {
    for (expression, expected) in [
        ("0.1 + 0.2", json!(0.3)),
        ("2^62", json!(4_611_686_018_427_387_904_i64)),
        ("2^63", json!("9223372036854775808")),
        ("log10(1000)", json!(3)),
        ("sqrt(2)^2", json!(2)),
        ("10^50", json!(1e50)),
        ("10^30 + 1", json!("1000000000000000000000000000001")),
        ("12345678901234567.25", json!("12345678901234567.25")),
        ("-12345678901234567.25", json!("-12345678901234567.25")),
        ("0.00000000000000000001", json!(1e-20)),
        ("1/3", json!(0.333_333_333_333_333)),
        ("2 < 3", json!(true)),
        ("2^126 + 2^126 - 1 + 1 - 2^126 - 2^126", json!(0)),
    ] {
        assert_eq!(value(expression), expected, "{expression}");
    }
}

#[test]
fn error_gives_column_and_reason() {
    for (expression, expected) in [
        ("", "column 1: the expression is empty"),
        (" = ?", "column 1: the expression is empty"),
        ("1 / 0", "column 3: division by zero"),
        ("1 // 0", "column 3: division by zero"),
        ("5 % (2-2)", "column 3: division by zero"),
        ("0^-1", "column 2: division by zero"),
        ("9^9^9", "column 2: the result is too large to compute"),
        ("100000!", "column 7: the result is too large to compute"),
        ("exp(1000)", "column 1: the result is too large to compute"),
        ("2 +", "column 4: the expression ends too early"),
        ("(1 + 2", "column 1: this parenthesis is never closed"),
        ("sum([1, 2", "column 5: this parenthesis is never closed"),
        ("1 + 2)", "column 6: unexpected `)`"),
        ("2 3", "column 3: unexpected `3`; an operator is missing between two numbers"),
        ("1,23", "column 2: unexpected `,`; outside functions a comma groups three digits"),
        ("1.234,56", "column 6: unexpected `,`"),
        ("1.2.3", "column 4: unexpected `.`"),
        ("1__0", "column 2: unexpected `_`"),
        ("ö + 1", "column 1: `ö` is unknown; use a number"),
        ("2 × foo(1)", "column 5: `foo` is unknown; use a number"),
        ("sqrt 4", "column 6: unexpected `4`"),
        ("sqrt(1, 2)", "column 1: sqrt takes one argument, not 2"),
        ("round(1,234.5, 1)", "column 14: unexpected `,`; between arguments a comma separates"),
        ("sum(1,200, 2,300)", "column 10: unexpected `,`; between arguments a comma separates"),
        ("max(1,000)", "column 6: unexpected `,`; between arguments a comma separates"),
        ("max((1, 2), 3)", "column 5: a list is the only argument"),
        ("1 + sum(2 * (1, 2))", "column 13: a list is the only argument"),
        ("sqrt([4])", "column 6: a list is the only argument"),
        ("[1, 2]", "column 1: unexpected `[`; a list is allowed"),
        ("min()", "column 1: min takes at least one argument, not 0"),
        ("sqrt(-1)", "column 1: the square root of a negative number has no real value here"),
        ("(-8)^0.5", "column 5: a fractional power of a negative number has no real value here"),
        ("ln(0)", "column 1: the logarithm of zero or less has no real value here"),
        ("asin(2)", "column 1: asin has no real value here"),
        ("tan(pi/2)", "column 1: tan has no real value here"),
        ("2.5!", "column 4: factorial needs whole numbers that are not negative"),
        ("5!!", "column 2: unexpected `!!`; a double factorial is not supported"),
        ("gcd(1.5, 2)", "column 1: gcd needs whole numbers"),
        ("inf + 1", "column 1: infinite and undefined values are not numbers"),
        ("∞", "column 1: infinite and undefined values are not numbers"),
        ("$5 + €3", "column 6: the expression mixes the currencies $ and €"),
        ("x = 5", "column 1: `x` is unknown"),
        ("1 + 1 = 2", "column 7: unexpected `=`; use == to compare"),
        ("(1 < 2) + 1", "column 4: unexpected `<`; a comparison cannot be a part"),
        ("1 << 2", "column 3: unexpected `<<`; bit operations are not supported"),
        ("6 & 3", "column 3: unexpected `&`; bit operations are not supported"),
        ("2½", "column 2: unexpected `½`; write a fraction with /"),
        ("0xfg", "column 1: `0xfg` is not a number"),
        (".", "column 1: `.` is not a number"),
    ] {
        let error = error(expression);
        assert!(error.contains(expected), "{expression}: {error}");
    }
}

#[test]
fn nesting_and_length_are_limited() {
    for opener in ["(", "-", "2^", "sqrt(", "√", "max(1,", "+", "((", "-(", "sum([", "sum((", "$", "2("] {
        let deep = opener.repeat(9_000 / opener.len());
        assert!(error(&deep).contains("nested more than 100 levels deep"), "{opener}");
    }
    assert_eq!(value(&format!("{}7{}", "(".repeat(100), ")".repeat(100))), json!(7));
    assert!(error(&"1+".repeat(500_000)).contains("longer than 10000 bytes"));
    assert_eq!(value(&format!("1{}", "+1".repeat(4_000))), json!(4001));
    assert_eq!(value(&format!("sum({}1)", "1,".repeat(4_000))), json!(4001));
}

/// Each of these takes minutes without a limit of effort.
#[test]
fn expensive_expressions_are_refused() {
    for expression in [
        "9^9999/7^9999+".repeat(700) + "1",
        "3000!+".repeat(1_600) + "1",
        "comb(40000,16000)+".repeat(500) + "1",
        "gcd(3^9999,7^9999)+".repeat(500) + "1",
        "pow(3^9999,7^9999,5^9999)+".repeat(300) + "1",
        "comb(10^30, 10^29)".to_owned(),
        "factorial(10^18)".to_owned(),
        "2^(10^30)".to_owned(),
    ] {
        let error = error(&expression);
        assert!(error.contains("too large to compute"), "{}: {error}", &expression[..18]);
    }
}

#[test]
fn random_input_never_panics() {
    let alphabet = [
        "1", "0", ".", ",", "%", "^", "-", "(", ")", "e", "of", "max(", "9e307", " ", "/", "π", "_", "1,000",
        "!", "²", "sum([", "]", "0x", "°", "$", "√", "log(", "x", "=", "<", "math.", "⁻", "7^99", "//",
        "round(",
    ];
    let mut seed = 7_usize;
    for _ in 0..20_000 {
        let mut text = String::new();
        for _ in 0..8 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            text.push_str(alphabet[(seed >> 33) % alphabet.len()]);
        }
        let _ = parser::evaluate(&text);
    }
}
