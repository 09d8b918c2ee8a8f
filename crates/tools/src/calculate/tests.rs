//! Expressions with their values, and errors with their columns.

use serde_json::Value;

use super::*;

fn value(expression: &str) -> Value {
    match parser::evaluate(expression) {
        Ok(number) => number.to_json(),
        Err(error) => panic!("{expression}: {error}"),
    }
}

fn error(expression: &str) -> String {
    match parser::evaluate(expression) {
        Ok(number) => panic!("{expression} = {}", number.to_json()),
        Err(error) => error.to_string(),
    }
}

#[test]
fn operators_percentages_functions_and_number_formats_are_evaluated() {
    for (expression, expected) in [
        ("1 + 2 * 3", json!(7)),
        ("(1 + 2) * 3", json!(9)),
        ("2^3^2", json!(512)),
        ("2 ** 10", json!(1024)),
        ("-2^2", json!(-4)),
        ("2^-2", json!(0.25)),
        ("--3", json!(3)),
        ("7 / 2", json!(3.5)),
        ("1/3*3", json!(1)),
        ("0.1 + 0.2", json!(0.3)),
        ("10 % 3", json!(1)),
        ("-1 % 12", json!(11)),
        ("10 mod 4", json!(2)),
        ("15% of 240", json!(36)),
        ("15 % of 240", json!(36)),
        ("200 + 10%", json!(220)),
        ("200 - 10%", json!(180)),
        ("50% + 10%", json!(0.6)),
        ("50% * 8", json!(4)),
        ("1,234,567 + 1", json!(1_234_568)),
        ("1_000 * 2", json!(2000)),
        ("max(1,234)", json!(234)),
        ("max((1,234), 5)", json!(1234)),
        ("min(3; 2, 4)", json!(2)),
        ("round(2.5)", json!(3)),
        ("round(-2.5)", json!(-3)),
        ("round(2.71459, 2)", json!(2.71)),
        ("floor(-1.5) + ceil(1.2) + abs(-4)", json!(4)),
        ("sqrt(144)", json!(12)),
        ("√3", json!(1.732_050_807_568_88)),
        ("sin(pi)", json!(0.0)),
        ("cos(0) + tan(0)", json!(1.0)),
        ("ln(e)", json!(1.0)),
        ("log(1000)", json!(3.0)),
        ("log(8, 2)", json!(3.0)),
        ("1.5e3 + .5", json!(1500.5)),
        ("6 × 7 − 84 ÷ 2", json!(0)),
        ("PI > 3", json!(null)),
    ] {
        if expected.is_null() {
            assert!(error(expression).contains("unexpected `>`"));
        } else {
            assert_eq!(value(expression), expected, "{expression}");
        }
    }
}

#[test]
fn integers_are_exact_up_to_128_bits() {
    assert_eq!(value("2^63"), json!("9223372036854775808"));
    assert_eq!(value("2^126 + 2^126 - 1 + 1 - 2^126 - 2^126"), json!(0.0));
    assert_eq!(value("2^127 - 1"), json!(1.701_411_834_604_69e38));
    assert_eq!(
        value("170141183460469231731687303715884105727 - 1"),
        json!("170141183460469231731687303715884105726")
    );
    assert_eq!(value("(-1)^99999999999999999999"), json!(-1));
    assert_eq!(value("((-2)^127)^2"), json!(2.894_802_230_932_9e76));
    assert_eq!(value("abs((-2)^127) / (-2)^127"), json!(-1.0));
    assert_eq!(value("123456789 * 987654321"), json!(121_932_631_112_635_269_i64));
}

#[test]
fn error_gives_column_and_reason() {
    for (expression, expected) in [
        ("", "column 1: the expression is empty"),
        ("1 / 0", "column 3: division by zero"),
        ("5 % (2-2)", "column 3: division by zero"),
        ("0^-1", "column 2: division by zero"),
        ("9^9^9", "column 2: the result is too large to compute"),
        ("1e400", "column 1: the result is too large to compute"),
        ("2 +", "column 4: the expression ends too early"),
        ("(1 + 2", "column 1: this parenthesis is never closed"),
        ("1 + 2)", "column 6: unexpected `)`"),
        ("2 3", "column 3: unexpected `3`"),
        ("1,23", "column 2: unexpected `,`"),
        ("1.2.3", "column 4: unexpected `.`"),
        ("ö + 1", "column 1: `ö` is unknown; use sqrt"),
        ("2 × foo(1)", "column 5: `foo` is unknown; use sqrt"),
        ("sqrt 4", "column 6: unexpected `4`"),
        ("sqrt(1, 2)", "column 1: sqrt takes one argument, not 2"),
        ("min()", "column 1: min takes at least one argument, not 0"),
        ("sqrt(-1)", "column 1: the square root of a negative number has no real value here"),
        ("(-8)^0.5", "column 5: a fractional power of a negative number has no real value here"),
        ("ln(0)", "column 1: the logarithm of zero or less has no real value here"),
        (".", "column 1: `.` is not a number"),
    ] {
        let error = error(expression);
        assert!(error.contains(expected), "{expression}: {error}");
    }
}

#[test]
fn nesting_and_length_are_limited() {
    for opener in ["(", "-", "2^", "sqrt(", "√", "max(1,", "+", "((", "-("] {
        let deep = opener.repeat(9_000 / opener.len());
        assert!(error(&deep).contains("nested more than 100 levels deep"), "{opener}");
    }
    assert_eq!(value(&format!("{}7{}", "(".repeat(100), ")".repeat(100))), json!(7));
    assert!(error(&"1+".repeat(10_000)).contains("longer than 10000 bytes"));
    assert_eq!(value(&format!("1{}", "+1".repeat(4_000))), json!(4001));
}

#[test]
fn random_input_never_panics() {
    let alphabet =
        ["1", "0", ".", ",", "%", "^", "-", "(", ")", "e", "of", "max", "9e307", " ", "/", "π", "_", "1,000"];
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
