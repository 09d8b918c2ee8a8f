//! The specification page: its ids, and under each scenario the tests with its id.
//!
//! A scenario is a heading `### G1: …`, a group a heading `## G: …`. A test has ids in its name:
//! `spec_g1_…`, `spec_n1_n2_…`, `spec_f3_to_f5_…`; `spec_g_…` belongs to the whole group.

/// The page, relative to the root of the repository.
pub(crate) const PAGE: &str = "docs/src/spec.md";

/// A heading with an id.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// In lower case, as in the names of tests.
    pub(crate) id: String,
    pub(crate) line: usize,
    /// Whether it needs its own test.
    pub(crate) is_scenario: bool,
}

/// The ids of a page, in order.
pub(crate) fn entries(page: &str) -> Vec<Entry> {
    let lines = page.lines().enumerate();
    lines
        .filter_map(|(at, line)| {
            heading(line).map(|(id, is_scenario)| Entry { id, line: at + 1, is_scenario })
        })
        .collect()
}

fn heading(line: &str) -> Option<(String, bool)> {
    let (text, is_scenario) = match line.strip_prefix("### ") {
        Some(text) => (text, true),
        None => (line.strip_prefix("## ")?, false),
    };
    let id = text.split_once(':')?.0.to_lowercase();
    (if is_scenario { is_id(&id) } else { is_group(&id) }).then_some((id, is_scenario))
}

/// Whether a text is a letter and a number.
fn is_id(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(|c| c.is_ascii_lowercase())
        && !chars.as_str().is_empty()
        && chars.as_str().chars().all(|c| c.is_ascii_digit())
}

fn is_group(text: &str) -> bool {
    text.len() == 1 && text.chars().all(|c| c.is_ascii_lowercase())
}

/// The ids in the name of a test.
pub(crate) fn ids(name: &str) -> Vec<String> {
    let mut ids: Vec<String> = Vec::new();
    let mut words = name.trim_start_matches("spec_").split('_').peekable();
    if let Some(group) = words.next_if(|word| is_group(word)) {
        return vec![group.to_owned()];
    }
    while let Some(word) = words.next() {
        match ids.last().cloned() {
            Some(from) if word == "to" => {
                ids.extend(words.next_if(|to| is_id(to)).into_iter().flat_map(|to| between(&from, to)));
            }
            _ if is_id(word) => ids.push(word.to_owned()),
            _ => break,
        }
    }
    ids
}

/// The ids after `from` up to and including `to`, in one group.
fn between(from: &str, to: &str) -> Vec<String> {
    let number = |id: &str| id[1..].parse::<u32>().unwrap_or_default();
    if from[..1] != to[..1] {
        return vec![to.to_owned()];
    }
    (number(from) + 1..=number(to)).map(|next| format!("{}{next}", &to[..1])).collect()
}

/// The page with an up-to-date list of tests under each line `Tests:`. `tests` are names.
pub(crate) fn with_tests(page: &str, tests: &[String]) -> String {
    let mut written = Vec::new();
    let mut current = String::new();
    let mut lines = page.lines().peekable();
    while let Some(line) = lines.next() {
        if line.starts_with('#') {
            current = heading(line).map(|(id, _)| id).unwrap_or_default();
        }
        written.push(line.to_owned());
        if line == "Tests:" {
            while lines.next_if(|line| line.is_empty() || line.starts_with("- `spec_")).is_some() {}
            let own = tests.iter().filter(|name| ids(name).contains(&current));
            written.push(String::new());
            written.extend(own.map(|name| format!("- `{name}`")));
            written.push(String::new());
        }
    }
    while written.last().is_some_and(String::is_empty) {
        written.pop();
    }
    written.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEC: &str = "# Spec\n\n## G: Agents\n\nText.\n\nTests:\n\n### G1: Unknown agent\n\nWhen.\n\nTests:\n\n- `spec_g1_gone`\n\n### G2: More\n\nTests:\n\n## Not a group\n";

    #[test]
    fn ids_are_read_from_headings() {
        let found: Vec<(String, usize, bool)> =
            entries(SPEC).into_iter().map(|entry| (entry.id, entry.line, entry.is_scenario)).collect();
        assert_eq!(
            found,
            [("g".to_owned(), 3, false), ("g1".to_owned(), 9, true), ("g2".to_owned(), 17, true)]
        );
    }

    #[test]
    fn name_has_one_id_or_several() {
        for (name, expected) in [
            ("spec_g1_a_name_is_corrected", "g1"),
            ("spec_n1_n2_f3_to_f5_hold", "n1 n2 f3 f4 f5"),
            ("spec_f3_f4_f5_rows", "f3 f4 f5"),
            ("spec_i_is_decided_for_each_call", "i"),
            ("spec_a1_an_agent", "a1"),
            ("spec_strange", ""),
        ] {
            assert_eq!(ids(name).join(" "), expected, "{name}");
        }
    }

    #[test]
    fn tests_are_listed_under_their_scenario() {
        let tests = ["spec_g1_a", "spec_g1_g2_b", "spec_g_c"].map(str::to_owned);
        let written = with_tests(SPEC, &tests);
        assert!(written.contains("## G: Agents\n\nText.\n\nTests:\n\n- `spec_g_c`\n\n### G1"), "{written}");
        assert!(written.contains("Tests:\n\n- `spec_g1_a`\n- `spec_g1_g2_b`\n\n### G2"), "{written}");
        assert!(written.contains("Tests:\n\n- `spec_g1_g2_b`\n\n## Not"), "{written}");
        assert!(!written.contains("gone"), "{written}");
        assert_eq!(with_tests(&written, &tests), written);
    }
}
