//! Style of files: a first line of documentation, no forbidden macros or attributes, no environment variables outside the binary,
//! no paths of one machine.

use super::{
    Problem, Source,
    source::{line_of, words},
};

/// Code that no Rust file may contain, tests included, each with the reason.
const FORBIDDEN: [(&str, &str); 4] = [
    (
        "[allow(",
        "`allow` hides a lint forever; the compiler reports `#[expect(…, reason = \"…\")]` when it is no longer needed",
    ),
    ("todo!", "unfinished: finish it, or open an issue"),
    ("unimplemented!", "unfinished: finish it, or open an issue"),
    ("dbg!", "left over from debugging"),
];

/// Packages that may read environment variables: the binary, which passes them on, and packages that are not part of the product.
const READS_ENVIRONMENT: [&str; 4] = ["crates/cli/", "testkit/", "xtask/", "bench/"];

/// In two parts, so that this file does not contain what it searches for.
const MACHINE_PATHS: [&str; 4] =
    [concat!("/ho", "me/"), concat!("/ro", "ot/"), concat!("/wo", "rk/"), concat!("/Us", "ers/")];

pub(super) fn check(source: &Source) -> Vec<Problem> {
    let mut problems = Vec::new();
    if !source.text.starts_with("//!") {
        problems.push(Problem::new(source.place(0), "the first line must be documentation: `//! …`"));
    }
    for (word, why) in FORBIDDEN {
        problems.extend(words(&source.code, word).map(|at| Problem::new(source.place(at), why)));
    }
    if !may_read_environment(&source.path) {
        let what = "configuration is read once, in crates/cli, and passed on";
        problems.extend(words(&source.shipped, "env::var").map(|at| Problem::new(source.place(at), what)));
    }
    problems
}

fn may_read_environment(path: &str) -> bool {
    // A build script has no other input.
    path.ends_with("/build.rs") || READS_ENVIRONMENT.iter().any(|prefix| path.starts_with(prefix))
}

/// Reports paths in any text file that exist on one machine only.
pub(super) fn machine_paths(path: &str, text: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    for start in MACHINE_PATHS {
        let begins_a_path =
            |at: &usize| !text[..*at].ends_with(|c: char| c.is_alphanumeric() || "./_-~}*".contains(c));
        let found = text.match_indices(start).map(|(at, _)| at).filter(begins_a_path);
        let problem = |at| {
            Problem::new(
                format!("{path}:{}", line_of(text, at)),
                format!("`{start}…` is a path of one machine"),
            )
        };
        problems.extend(found.map(problem));
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(path: &str, text: &str) -> Vec<String> {
        check(&Source::new(path, text)).iter().map(|problem| problem.place.clone()).collect()
    }

    #[test]
    fn file_without_leading_documentation_is_reported() {
        assert_eq!(reported("crates/x/src/y.rs", "use a::b;\n"), ["crates/x/src/y.rs:1"]);
        assert_eq!(reported("crates/x/build.rs", ""), ["crates/x/build.rs:1"]);
        assert!(reported("crates/x/src/y.rs", "//! One thing.\n").is_empty());
    }

    #[test]
    fn forbidden_code_is_reported_but_not_in_comments_and_strings() {
        let bad = "//! x\n#[allow(dead_code)]\n#![allow(dead_code)]\nfn a() { todo!(); unimplemented!(); dbg!(1); }\n";
        assert_eq!(reported("crates/x/tests/y.rs", bad).len(), 5);
        let good = "//! #[allow(x)]\n// todo!\nconst A: &str = \"dbg!\";\nmacro_rules! not_todo { () => {} }\nnot_todo!();\n";
        assert!(reported("crates/x/src/y.rs", good).is_empty());
    }

    #[test]
    fn only_the_binary_and_test_packages_may_read_the_environment() {
        let text = "//! x\nuse std::env;\nfn a() { env::var(\"A\"); }\n#[cfg(test)]\nmod tests { fn b() { env::var_os(\"B\"); } }\n";
        assert_eq!(reported("crates/bridge/src/y.rs", text), ["crates/bridge/src/y.rs:3"]);
        for path in
            ["crates/cli/src/config.rs", "crates/bridge/tests/y.rs", "xtask/src/y.rs", "crates/x/build.rs"]
        {
            assert!(reported(path, text).is_empty(), "{path}");
        }
    }

    #[test]
    fn path_of_one_machine_is_reported_in_any_text() {
        let home = concat!("/ho", "me/");
        let found = machine_paths("README.md", &format!("one\nlook in `{home}me`\n"));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].place, "README.md:2");
        assert!(
            machine_paths("README.md", &format!("https://example.com{home} and $HOME{home} and ..{home}"))
                .is_empty()
        );
    }
}
