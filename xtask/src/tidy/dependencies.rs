//! Dependencies between crates: `server → bridge → {adk, session, provider, tools}`. The allowed edges are in [`RULES`].

use super::Problem;
use crate::workspace::{Dependency, Kind, Package};

struct Rule {
    from: &'static str,
    to: To,
    reason: &'static str,
}

enum To {
    Anything,
    Only(&'static [&'static str]),
}

const LEAF: &str = "adk, session, provider and tools do not depend on each other; bridge connects them";
const SHARED_TEXT: &str = "shared-text is one type and depends on no other crate";
const SESSION_KEY: &str = "session-key is one type and depends on no other crate";
const FILE_STAMP: &str = "file-stamp is one type and depends on no other crate";
const VISIBLE_TEXT: &str = "visible-text decides about characters and depends on no other crate";
const BOUNDED_CACHE: &str = "bounded-cache is one type and depends on no other crate of the workspace";
const LOCK: &str = "lock is one extension trait, and depends on no other crate of the workspace";
const FAILPOINT: &str = "failpoint is empty in release builds and depends on lock alone";
const ENABLED: &str = "fail points are enabled in tests only: enable the feature in [dev-dependencies]";
const DEV_ONLY: &str = "it is for tests and benches only and is not part of the product";

const RULES: &[Rule] = &[
    Rule { from: "lock", to: To::Only(&[]), reason: LOCK },
    Rule { from: "shared-text", to: To::Only(&[]), reason: SHARED_TEXT },
    Rule { from: "session-key", to: To::Only(&[]), reason: SESSION_KEY },
    Rule { from: "visible-text", to: To::Only(&[]), reason: VISIBLE_TEXT },
    Rule { from: "bounded-cache", to: To::Only(&[]), reason: BOUNDED_CACHE },
    Rule { from: "file-stamp", to: To::Only(&[]), reason: FILE_STAMP },
    Rule { from: "failpoint", to: To::Only(&["lock"]), reason: FAILPOINT },
    Rule { from: "adk", to: To::Only(&["shared-text", "session-key", "failpoint", "lock"]), reason: LEAF },
    Rule { from: "session", to: To::Only(&["session-key", "failpoint", "lock"]), reason: LEAF },
    Rule { from: "provider", to: To::Only(&["shared-text", "bounded-cache", "lock"]), reason: LEAF },
    Rule { from: "tools", to: To::Only(&["bounded-cache", "file-stamp", "lock"]), reason: LEAF },
    Rule {
        from: "demo",
        to: To::Only(&["provider"]),
        reason: "demo implements the provider port and depends on nothing else",
    },
    Rule {
        from: "bridge",
        to: To::Only(&[
            "shared-text",
            "bounded-cache",
            "failpoint",
            "lock",
            "adk",
            "session",
            "provider",
            "tools",
        ]),
        reason: "bridge connects adk, session, provider and tools and depends on nothing above it",
    },
    Rule {
        from: "telemetry",
        to: To::Only(&["adk", "provider", "bounded-cache", "lock"]),
        reason: "telemetry exports adk's spans with provider's HTTP client and does not depend on sessions or tools",
    },
    Rule {
        from: "server",
        to: To::Only(&["bridge", "adk", "telemetry", "file-stamp", "visible-text", "lock"]),
        reason: "server decides nothing: it calls bridge with adk's types",
    },
    Rule {
        from: "lango",
        to: To::Only(&[
            "adk",
            "session",
            "provider",
            "demo",
            "tools",
            "bridge",
            "server",
            "telemetry",
            "file-stamp",
            "visible-text",
            "lock",
        ]),
        reason: "the binary wires the crates of the product, and no others",
    },
    Rule {
        from: "testkit",
        to: To::Only(&["adk", "session", "provider", "lock"]),
        reason: "testkit replaces models, providers and stores, and tests bridge and server from outside",
    },
    Rule { from: "bench", to: To::Anything, reason: "" },
    Rule { from: "xtask", to: To::Anything, reason: "" },
];

pub(super) fn check(packages: &[Package]) -> Vec<Problem> {
    packages.iter().flat_map(check_package).collect()
}

fn check_package(package: &Package) -> Vec<Problem> {
    let Some(rule) = RULES.iter().find(|rule| rule.from == package.name) else {
        let what =
            format!("`{}` has no rule; add its dependencies to xtask/src/tidy/dependencies.rs", package.name);
        return vec![Problem::new(&package.manifest, what)];
    };
    let broken = |dependency: &Dependency| {
        let reason = broken_rule(rule, dependency)?;
        let what = format!("`{}` may not depend on `{}`: {reason}", package.name, dependency.name);
        Some(Problem::new(&package.manifest, what))
    };
    package.dependencies.iter().filter_map(broken).collect()
}

fn broken_rule(rule: &Rule, dependency: &Dependency) -> Option<&'static str> {
    let name = dependency.name.as_str();
    if name == "failpoint" && dependency.kind == Kind::Shipped && !dependency.features.is_empty() {
        return Some(ENABLED);
    }
    let To::Only(allowed) = rule.to else { return None };
    match dependency.kind {
        Kind::Dev => ["bench", "xtask"].contains(&name).then_some(DEV_ONLY),
        Kind::Shipped if allowed.contains(&name) => None,
        Kind::Shipped if ["testkit", "bench", "xtask"].contains(&name) => Some(DEV_ONLY),
        Kind::Shipped => Some(rule.reason),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(from: &str, to: &str, kind: Kind) -> Vec<String> {
        problems_with(from, (to, &[]), kind)
    }

    fn problems_with(from: &str, (to, features): (&str, &[&str]), kind: Kind) -> Vec<String> {
        let features = features.iter().map(|name| (*name).to_owned()).collect();
        let dependencies = vec![Dependency { name: to.to_owned(), kind, features }];
        let package = Package { name: from.to_owned(), manifest: "x/Cargo.toml".to_owned(), dependencies };
        check(&[package]).iter().map(Problem::to_string).collect()
    }

    #[test]
    fn edges_of_the_design_are_allowed() {
        let edges = [
            ("bridge", "adk"),
            ("bridge", "session"),
            ("bridge", "provider"),
            ("bridge", "tools"),
            ("server", "bridge"),
            ("lango", "session"),
            ("lango", "demo"),
            ("demo", "provider"),
            ("testkit", "session"),
            ("bench", "testkit"),
        ];
        for (from, to) in edges {
            assert!(problems(from, to, Kind::Shipped).is_empty(), "{from} → {to}");
        }
        assert!(problems("adk", "testkit", Kind::Dev).is_empty());
    }

    #[test]
    fn any_other_edge_is_reported_with_both_crates_and_the_rule() {
        assert_eq!(
            problems("session", "adk", Kind::Shipped),
            [format!("x/Cargo.toml: `session` may not depend on `adk`: {LEAF}")]
        );
        for (from, to) in [
            ("bridge", "server"),
            ("server", "session"),
            ("bridge", "testkit"),
            ("testkit", "bridge"),
            ("demo", "tools"),
            ("provider", "demo"),
        ] {
            assert_eq!(problems(from, to, Kind::Shipped).len(), 1, "{from} → {to}");
        }
        assert_eq!(problems("adk", "xtask", Kind::Dev).len(), 1);
    }

    #[test]
    fn fail_points_are_enabled_in_tests_only() {
        let enabled = ("failpoint", &["enabled"][..]);
        assert!(problems("session", "failpoint", Kind::Shipped).is_empty());
        assert!(problems_with("bridge", enabled, Kind::Dev).is_empty());
        for from in ["bridge", "lango", "bench"] {
            assert_eq!(problems_with(from, enabled, Kind::Shipped).len(), 1, "{from}");
        }
    }

    #[test]
    fn crate_without_a_rule_is_reported() {
        let reported = problems("utils", "adk", Kind::Shipped);
        assert!(reported[0].contains("`utils` has no rule"), "{reported:?}");
    }
}
