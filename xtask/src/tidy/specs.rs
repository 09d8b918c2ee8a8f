//! Every scenario of `docs/src/spec.md` has a test with its id, and every id of a test is in the page.

use super::{Problem, Source, source::words};
use crate::book::spec::{self, Entry};

/// A test whose name begins with `spec_`.
pub(super) struct SpecTest {
    pub(super) name: String,
    place: String,
}

/// All tests with an id, in the order of the files.
pub(super) fn tests(sources: &[Source]) -> Vec<SpecTest> {
    sources.iter().flat_map(tests_of).collect()
}

fn tests_of(source: &Source) -> Vec<SpecTest> {
    let code = &source.code;
    let found = words(code, "fn spec_").filter(|at| is_test(&code[..*at]));
    let name = |at: usize| code[at + "fn ".len()..].split('(').next().unwrap_or_default().trim().to_owned();
    found.map(|at| SpecTest { name: name(at), place: source.place(at) }).collect()
}

/// Whether `before`, the code before a function, ends with an attribute such as `#[test]` or `#[tokio::test(…)]`.
fn is_test(before: &str) -> bool {
    let own = before.rfind([';', '}', '{']).map_or(before, |end| &before[end..]);
    own.contains("test]") || own.contains("test(")
}

pub(super) fn check(page: &str, tests: &[SpecTest]) -> Vec<Problem> {
    let entries = spec::entries(page);
    let is_known = |id: &String| entries.iter().any(|entry| entry.id == *id);
    let mut problems = Vec::new();
    for test in tests {
        let ids = spec::ids(&test.name);
        let what = match ids.iter().find(|id| !is_known(id)) {
            Some(id) => format!("`{}` has the id {id}, which is not in {}", test.name, spec::PAGE),
            None if ids.is_empty() => format!("`{}` has no id of {}", test.name, spec::PAGE),
            None => continue,
        };
        problems.push(Problem::new(&test.place, what));
    }
    let tested: Vec<String> = tests.iter().flat_map(|test| spec::ids(&test.name)).collect();
    for Entry { id, line, .. } in
        entries.iter().filter(|entry| entry.is_scenario && !tested.contains(&entry.id))
    {
        let what = format!("the scenario has no test; name one `spec_{id}_…`");
        problems.push(Problem::new(format!("{}:{line}", spec::PAGE), what));
    }
    if entries.is_empty() {
        problems.push(Problem::new(spec::PAGE, "the page has no scenarios"));
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "## A: One\n\n### A1: x\n\n### A2: y\n";

    fn reported(code: &str) -> Vec<String> {
        let source = Source::new("crates/x/tests/y.rs", code);
        check(PAGE, &tests(&[source])).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_scenario_without_a_test_is_reported() {
        let reported = reported("#[test]\nfn spec_a1_x() {}\n");
        assert_eq!(reported, ["docs/src/spec.md:5: the scenario has no test; name one `spec_a2_…`"]);
    }

    #[test]
    fn a_test_with_an_unknown_id_is_reported() {
        let reported = reported(
            "#[test]\nfn spec_a1_a2_x() {}\n#[test]\nfn spec_b1_y() {}\n#[test]\nfn spec_anything() {}\n",
        );
        assert_eq!(
            reported[0],
            "crates/x/tests/y.rs:4: `spec_b1_y` has the id b1, which is not in docs/src/spec.md"
        );
        assert_eq!(reported[1], "crates/x/tests/y.rs:6: `spec_anything` has no id of docs/src/spec.md");
        assert_eq!(reported.len(), 2);
    }

    #[test]
    fn only_test_functions_count_for_a_scenario() {
        let helper = "#[test]\nfn other() {}\nfn spec_a1_helper() {}\n// #[test] fn spec_a2_comment() {}\n";
        assert_eq!(reported(helper).len(), 2);
        let both = "#[tokio::test]\nasync fn spec_a1_x() {}\nproptest! {\n    #[test]\n    fn spec_a2_x(a in 0..1) {}\n}\n";
        assert!(reported(both).is_empty());
    }

    #[test]
    fn a_page_without_ids_is_reported() {
        assert_eq!(check("# Spec\n", &[]).len(), 1);
    }
}
