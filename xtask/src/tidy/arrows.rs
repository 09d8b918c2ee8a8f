//! Who may know whom: `server → bridge → {adk, session, provider, tools}`, and nothing else.

use super::Problem;
use crate::workspace::{Dependency, Kind, Package};

struct Rule {
    from: &'static str,
    to: To,
    law: &'static str,
}

enum To {
    Anything,
    Only(&'static [&'static str]),
}

const LEAF: &str = "adk, session, provider and tools know none of the others; they meet in bridge";
const SHARED_TEXT: &str = "shared-text is one type and depends on no other crate";
const LOCK: &str = "lock is one extension trait, and depends on no other crate of the workspace";
const FAILPOINT: &str = "failpoint is empty in what ships, and knows nobody";
const ENABLED: &str = "fail points are enabled in tests only: ask for the feature in [dev-dependencies]";
const DEV_ONLY: &str = "it is there for tests and measurements, and never ships";

const RULES: &[Rule] = &[
    Rule { from: "lock", to: To::Only(&[]), law: LOCK },
    Rule { from: "shared-text", to: To::Only(&[]), law: SHARED_TEXT },
    Rule { from: "failpoint", to: To::Only(&["lock"]), law: FAILPOINT },
    Rule { from: "adk", to: To::Only(&["shared-text", "failpoint", "lock"]), law: LEAF },
    Rule { from: "session", to: To::Only(&["failpoint", "lock"]), law: LEAF },
    Rule { from: "provider", to: To::Only(&["shared-text", "lock"]), law: LEAF },
    Rule { from: "tools", to: To::Only(&["lock"]), law: LEAF },
    Rule {
        from: "demo",
        to: To::Only(&["provider"]),
        law: "demo implements the provider port and depends on nothing else",
    },
    Rule {
        from: "bridge",
        to: To::Only(&["shared-text", "failpoint", "lock", "adk", "session", "provider", "tools"]),
        law: "bridge is where adk, session, provider and tools meet, and knows nothing above it",
    },
    Rule {
        from: "telemetry",
        to: To::Only(&["adk", "provider"]),
        law: "telemetry exports adk's spans with provider's HTTP client, and knows nothing of sessions and tools",
    },
    Rule {
        from: "server",
        to: To::Only(&["bridge", "adk", "telemetry", "lock"]),
        law: "server decides nothing: it speaks to bridge, in adk's words",
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
            "lock",
        ]),
        law: "the binary wires all that ships, and nothing else",
    },
    Rule {
        from: "testkit",
        to: To::Only(&["adk", "session", "provider", "lock"]),
        law: "testkit stands in for a model, a provider or a store, and tests bridge and server from outside",
    },
    Rule { from: "bench", to: To::Anything, law: "" },
    Rule { from: "xtask", to: To::Anything, law: "" },
];

pub(super) fn check(packages: &[Package]) -> Vec<Problem> {
    packages.iter().flat_map(check_package).collect()
}

fn check_package(package: &Package) -> Vec<Problem> {
    let Some(rule) = RULES.iter().find(|rule| rule.from == package.name) else {
        let what =
            format!("`{}` is not on the map; say in xtask/src/tidy/arrows.rs whom it may know", package.name);
        return vec![Problem::new(&package.manifest, what)];
    };
    let broken = |dependency: &Dependency| {
        let law = broken_law(rule, dependency)?;
        let what = format!("`{}` may not depend on `{}`: {law}", package.name, dependency.name);
        Some(Problem::new(&package.manifest, what))
    };
    package.dependencies.iter().filter_map(broken).collect()
}

fn broken_law(rule: &Rule, dependency: &Dependency) -> Option<&'static str> {
    let name = dependency.name.as_str();
    if name == "failpoint" && dependency.kind == Kind::Shipped && !dependency.features.is_empty() {
        return Some(ENABLED);
    }
    let To::Only(allowed) = rule.to else { return None };
    match dependency.kind {
        Kind::Dev => ["bench", "xtask"].contains(&name).then_some(DEV_ONLY),
        Kind::Shipped if allowed.contains(&name) => None,
        Kind::Shipped if ["testkit", "bench", "xtask"].contains(&name) => Some(DEV_ONLY),
        Kind::Shipped => Some(rule.law),
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
    fn the_arrows_of_the_design_are_free() {
        let arrows = [
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
        for (from, to) in arrows {
            assert!(problems(from, to, Kind::Shipped).is_empty(), "{from} → {to}");
        }
        assert!(problems("adk", "testkit", Kind::Dev).is_empty());
    }

    #[test]
    fn any_other_arrow_is_told_with_both_ends_and_its_law() {
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
    fn a_crate_that_nobody_drew_is_told() {
        let told = problems("utils", "adk", Kind::Shipped);
        assert!(told[0].contains("`utils` is not on the map"), "{told:?}");
    }
}
