//! What CI asks, cheapest first, so that a slip is told within seconds; the tests come last.

use crate::{Result, Workspace, conformance, peers, schema, tidy, verdict, visitors};
use std::{
    process::{ExitCode, Stdio},
    time::{Duration, Instant},
};

struct Step {
    name: &'static str,
    about: &'static str,
    run: fn(&Workspace) -> Result<bool>,
}

const STEPS: [Step; 10] = [
    Step { name: "fmt", about: "cargo fmt --all --check", run: fmt },
    Step { name: "tidy", about: "cargo xtask tidy", run: tidy::run },
    Step { name: "clippy", about: "cargo clippy on all targets, warnings denied", run: clippy },
    Step {
        name: "docs",
        about: "cargo doc of our crates with their private items, warnings denied",
        run: docs,
    },
    Step { name: "doctests", about: "cargo test --doc", run: doctests },
    Step {
        name: "tests",
        about: "cargo nextest run, or cargo test where nextest is not installed",
        run: tests,
    },
    Step {
        name: "conformance",
        about: "ADK's recorded exchanges against the real binary",
        run: conformance::check,
    },
    Step { name: "page", about: "ADK's own web page in Chromium, with the real binary", run: visitors::page },
    Step {
        name: "clients",
        about: "Python's HTTP clients and google-adk's types, with the real binary",
        run: visitors::clients,
    },
    Step { name: "schema", about: "schemathesis against our own OpenAPI, as two users", run: schema::check },
];

pub(crate) fn run(workspace: &Workspace, args: &[&str]) -> Result<ExitCode> {
    if args == ["--list"] {
        for step in &STEPS {
            println!("{:<11} {}", step.name, step.about);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let steps = chosen(args)?;
    let mut done = Vec::new();
    for step in &steps {
        println!("check: {} ({})", step.name, step.about);
        let start = Instant::now();
        let good = (step.run)(workspace).unwrap_or_else(|error| {
            println!("{}: {error}", step.name);
            false
        });
        let took = start.elapsed();
        println!("check: {} {}, {:.1} s", step.name, word(good), took.as_secs_f64());
        done.push((good, took));
        if !good {
            break;
        }
    }
    println!("\n{}", summary(&steps, &done));
    Ok(verdict(done.iter().all(|(good, _)| *good)))
}

/// `--only STEP`, any number of times; all steps without it. Always in our order.
fn chosen(args: &[&str]) -> Result<Vec<&'static Step>> {
    let mut only = Vec::new();
    let mut rest = args;
    while let [first, after @ ..] = rest {
        let ("--only", [name, after @ ..]) = (*first, after) else {
            return Err(format!("check takes `--only STEP` and `--list`, not `{first}`").into());
        };
        if !STEPS.iter().any(|step| step.name == *name) {
            let names = STEPS.map(|step| step.name).join(", ");
            return Err(format!("check has no step `{name}`; it has {names}").into());
        }
        only.push(*name);
        rest = after;
    }
    Ok(STEPS.iter().filter(|step| only.is_empty() || only.contains(&step.name)).collect())
}

/// A table of the steps, and a last line that a person and a program can read.
fn summary(steps: &[&Step], done: &[(bool, Duration)]) -> String {
    let mut lines = Vec::new();
    for (place, step) in steps.iter().enumerate() {
        lines.push(match done.get(place) {
            Some((good, took)) => {
                format!("{:<11} {:<7} {:>7.1} s", step.name, word(*good), took.as_secs_f64())
            }
            None => format!("{:<11} not run", step.name),
        });
    }
    let passed = done.iter().filter(|(good, _)| *good).count();
    let failed = done.len() - passed;
    let bad = steps.iter().zip(done).find(|(_, (good, _))| !good);
    let advice = bad.map_or_else(String::new, |(step, _)| {
        format!(": {0}, see above; `cargo xtask check --only {0}` repeats it", step.name)
    });
    lines.push(format!("check: {passed} passed, {failed} failed{advice}"));
    lines.join("\n")
}

fn word(good: bool) -> &'static str {
    if good { "ok" } else { "FAILED" }
}

fn fmt(workspace: &Workspace) -> Result<bool> {
    Ok(workspace.cargo(&["fmt", "--all", "--check"]).status()?.success())
}

fn clippy(workspace: &Workspace) -> Result<bool> {
    let args = ["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];
    Ok(workspace.cargo(&args).status()?.success())
}

/// With private items, because the readers of these pages are those who work here, and every link is checked.
fn docs(workspace: &Workspace) -> Result<bool> {
    let args = ["doc", "--workspace", "--no-deps", "--document-private-items", "--locked"];
    Ok(workspace.cargo(&args).env("RUSTDOCFLAGS", "-D warnings").status()?.success())
}

fn doctests(workspace: &Workspace) -> Result<bool> {
    Ok(workspace.cargo(&["test", "--doc", "--workspace", "--locked"]).status()?.success())
}

fn tests(workspace: &Workspace) -> Result<bool> {
    let nextest = ["nextest", "run", "--workspace", "--locked", "--no-fail-fast"];
    let plain = ["test", "--workspace", "--all-targets", "--locked", "--no-fail-fast"];
    let args = if has_nextest(workspace)? { &nextest } else { &plain };
    let mut command = workspace.cargo(args);
    if let Some(llama) = peers::llama(workspace)? {
        command.env("LANGO_TEST_LLAMA", llama);
    }
    if let Some(servers) = peers::mcp(workspace)? {
        command.env("LANGO_TEST_MCP", servers);
    }
    Ok(command.status()?.success())
}

fn has_nextest(workspace: &Workspace) -> Result<bool> {
    let mut command = workspace.cargo(&["nextest", "--version"]);
    Ok(command.stdout(Stdio::null()).stderr(Stdio::null()).status()?.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(args: &[&str]) -> Result<Vec<&'static str>> {
        Ok(chosen(args)?.iter().map(|step| step.name).collect())
    }

    #[test]
    fn all_steps_run_unless_some_are_named() {
        assert_eq!(
            names(&[]).unwrap(),
            [
                "fmt",
                "tidy",
                "clippy",
                "docs",
                "doctests",
                "tests",
                "conformance",
                "page",
                "clients",
                "schema"
            ]
        );
        assert_eq!(names(&["--only", "tests", "--only", "fmt"]).unwrap(), ["fmt", "tests"]);
    }

    #[test]
    fn a_step_that_does_not_exist_is_refused_with_those_that_do() {
        let error = names(&["--only", "lint"]).unwrap_err().to_string();
        assert_eq!(
            error,
            "check has no step `lint`; it has fmt, tidy, clippy, docs, doctests, tests, conformance, page, clients, schema"
        );
        assert!(names(&["--only"]).is_err());
        assert!(names(&["fmt"]).is_err());
    }

    #[test]
    fn the_last_line_counts_the_steps_and_names_the_one_that_failed() {
        let steps = chosen(&[]).unwrap();
        let second = Duration::from_secs(1);
        let good = summary(&steps[..2], &[(true, second), (true, second)]);
        assert_eq!(good.lines().last(), Some("check: 2 passed, 0 failed"));
        let bad = summary(&steps[..3], &[(true, second), (false, second)]);
        assert!(bad.contains("clippy      not run"), "{bad}");
        assert!(bad.lines().last().unwrap().starts_with("check: 1 passed, 1 failed: tidy"), "{bad}");
    }
}
