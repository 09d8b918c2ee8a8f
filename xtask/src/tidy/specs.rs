//! Every line of the spec has a test that carries its id: `spec_g1_unknown_agent_is_corrected_and_retried_once`.

use super::{Problem, Source, source::words};

const IDS: &str = "a1 b1 b2 c1 c2 c3 d1 d2 d3 e1 f1 f2 f3 f4 f5 f6 f7 g1 g2 g3 g4 g5 h1 h2 h3 h4 \
                   i1 i2 j1 j2 k1 l1 m1 n1 n2 o1 o2 o3 p1 p2";

pub(super) fn check(sources: &[Source]) -> Vec<Problem> {
    let proven: Vec<&str> = sources.iter().flat_map(|source| proven_ids(&source.code)).collect();
    let open: Vec<&str> = IDS.split_whitespace().filter(|id| !proven.contains(id)).collect();
    let Some(first) = open.first() else { return Vec::new() };
    let what = format!(
        "no test has the name of {}; a test named `spec_{first}_…` proves the first",
        open.join(", ")
    );
    vec![Problem::new("spec", what)]
}

/// The ids that test functions of this file carry.
fn proven_ids(code: &str) -> impl Iterator<Item = &str> {
    let tests = words(code, "fn spec_").filter(|at| is_test(&code[..*at]));
    tests.filter_map(|at| code[at + "fn spec_".len()..].split_once('_')).map(|(id, _)| id)
}

/// Whether `before` a function stands an attribute such as `#[test]` or `#[tokio::test(…)]`.
fn is_test(before: &str) -> bool {
    let own = before.rfind([';', '}', '{']).map_or(before, |end| &before[end..]);
    own.contains("test]") || own.contains("test(")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(code: &str) -> String {
        check(&[Source::new("crates/x/tests/y.rs", code)])[0].to_string()
    }

    #[test]
    fn an_id_without_a_test_is_told() {
        let told = open("#[test]\nfn spec_a1_an_agent_exists() {}\n");
        assert!(told.contains("no test has the name of b1, b2,"), "{told}");
    }

    #[test]
    fn only_a_test_function_proves_an_id() {
        let helper = "#[test]\nfn other() {}\nfn spec_a1_helper() {}\n// #[test] fn spec_b1_comment() {}\n";
        assert!(open(helper).contains("name of a1, b1, b2,"));
        let tokio = "#[tokio::test]\nasync fn spec_a1_x() {}\nproptest! {\n    #[test]\n    fn spec_b1_x(a in 0..1) {}\n}\n";
        assert!(open(tokio).contains("name of b2, c1,"));
    }
}
