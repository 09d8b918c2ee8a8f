//! `cargo xtask check`: the steps of CI. The cheapest come first, so that simple mistakes are reported within seconds.

use crate::{
    Result, Workspace, adk_clients, book, conformance, peers, schema, tidy,
    torture::{self, power_cut},
    verdict,
};
use std::{
    process::{ExitCode, Stdio},
    time::{Duration, Instant},
};

struct Step {
    name: &'static str,
    about: &'static str,
    run: fn(&Workspace, Extent) -> Result<bool>,
}

/// How much the sampled steps run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    /// Fixed samples.
    Sample,
    /// Everything: `--long`.
    Long,
}

impl Extent {
    fn of(self, sample: u64, long: u64) -> u64 {
        match self {
            Self::Sample => sample,
            Self::Long => long,
        }
    }
}

const STEPS: [Step; 14] = [
    Step { name: "fmt", about: "cargo fmt --all --check", run: |workspace, _| fmt(workspace) },
    Step { name: "tidy", about: "cargo xtask tidy", run: |workspace, _| tidy::run(workspace) },
    Step {
        name: "clippy",
        about: "cargo clippy on all targets, warnings denied",
        run: |workspace, _| clippy(workspace),
    },
    Step {
        name: "docs",
        about: "cargo doc of our crates with their private items, warnings denied",
        run: |workspace, _| docs(workspace),
    },
    Step {
        name: "book",
        about: "links, commands, configurations and quotes in the documentation, checked with the real binary",
        run: |workspace, _| book::check(workspace),
    },
    Step { name: "doctests", about: "cargo test --doc", run: |workspace, _| doctests(workspace) },
    Step {
        name: "tests",
        about: "cargo nextest run, or cargo test where nextest is not installed",
        run: |workspace, _| tests(workspace),
    },
    Step {
        name: "crashes",
        about: "the crash matrix: every fail point with every fault; in all settings with --long",
        run: crashes,
    },
    Step {
        name: "conformance",
        about: "recorded exchanges of ADK, replayed against the real binary",
        run: |workspace, _| conformance::check(workspace),
    },
    Step {
        name: "page",
        about: "ADK's web page in Chromium against the real binary",
        run: |workspace, _| adk_clients::page(workspace),
    },
    Step {
        name: "clients",
        about: "Python HTTP clients, google-adk's types and Google's own clients against the real binary",
        run: |workspace, _| adk_clients::clients(workspace),
    },
    Step {
        name: "schema",
        about: "schemathesis against our own OpenAPI, as two users",
        run: |workspace, _| schema::check(workspace),
    },
    Step {
        name: "power-cut",
        about: "the database after 40 simulated power cuts, opened by the real binary; 400 with --long",
        run: |workspace, extent| power_cut::check(workspace, extent.of(40, 400)),
    },
    Step {
        name: "torture",
        about: "60 kills of servers under load: nothing acknowledged is lost; 600 with --long",
        run: |workspace, extent| torture::check(workspace, extent.of(60, 600)),
    },
];

pub(crate) fn run(workspace: &Workspace, args: &[&str]) -> Result<ExitCode> {
    if args == ["--list"] {
        for step in &STEPS {
            println!("{:<11} {}", step.name, step.about);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let (steps, extent) = select(args)?;
    let mut done = Vec::new();
    for step in &steps {
        println!("check: {} ({})", step.name, step.about);
        let start = Instant::now();
        let good = (step.run)(workspace, extent).unwrap_or_else(|error| {
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

/// Parses `--only STEP`, any number of times, and `--long`. Without `--only` all steps run. The order is that of [`STEPS`].
fn select(args: &[&str]) -> Result<(Vec<&'static Step>, Extent)> {
    let (mut only, mut extent) = (Vec::new(), Extent::Sample);
    let mut rest = args;
    loop {
        rest = match rest {
            [] => break,
            ["--long", after @ ..] => {
                extent = Extent::Long;
                after
            }
            ["--only", name, after @ ..] => {
                only.push(known(name)?);
                after
            }
            [first, ..] => {
                return Err(format!("check takes `--only STEP`, `--long` and `--list`, not `{first}`").into());
            }
        };
    }
    Ok((STEPS.iter().filter(|step| only.is_empty() || only.contains(&step.name)).collect(), extent))
}

fn known(name: &str) -> Result<&'static str> {
    let names = || STEPS.map(|step| step.name).join(", ");
    let step = STEPS.iter().find(|step| step.name == name);
    Ok(step.ok_or_else(|| format!("check has no step `{name}`; it has {}", names()))?.name)
}

/// A table of the steps, and a last line with the counts.
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
        format!(": {0}, see above; repeat it with `cargo xtask check --only {0}`", step.name)
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

/// Documents private items too: the pages are for contributors, and all links are checked.
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
    // The crash matrix is a separate step, which prints its table.
    command.env(CRASH_MATRIX, "none");
    peers::postgres()?;
    if let Some(llama) = peers::llama(workspace)? {
        command.env("LANGO_TEST_LLAMA", llama);
    }
    if let Some(servers) = peers::mcp(workspace)? {
        command.env("LANGO_TEST_MCP", servers);
    }
    Ok(command.status()?.success())
}

/// The environment variable that selects how much of the crash matrix its test runs.
const CRASH_MATRIX: &str = "LANGO_CRASH_MATRIX";

fn crashes(workspace: &Workspace, extent: Extent) -> Result<bool> {
    let mut command = workspace.cargo(&["test", "--workspace", "--locked", "--test", "crash_matrix"]);
    if extent == Extent::Long {
        command.env(CRASH_MATRIX, "all");
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
        Ok(select(args)?.0.iter().map(|step| step.name).collect())
    }

    #[test]
    fn all_steps_run_without_only() {
        assert_eq!(
            names(&[]).unwrap(),
            [
                "fmt",
                "tidy",
                "clippy",
                "docs",
                "book",
                "doctests",
                "tests",
                "crashes",
                "conformance",
                "page",
                "clients",
                "schema",
                "power-cut",
                "torture"
            ]
        );
        assert_eq!(names(&["--only", "tests", "--only", "fmt"]).unwrap(), ["fmt", "tests"]);
    }

    #[test]
    fn long_is_accepted_with_and_without_only() {
        let extent = |args: &[&str]| select(args).map(|(steps, extent)| (steps.len(), extent)).unwrap();
        assert_eq!(extent(&[]), (STEPS.len(), Extent::Sample));
        assert_eq!(extent(&["--long"]), (STEPS.len(), Extent::Long));
        assert_eq!(extent(&["--only", "crashes", "--long"]), (1, Extent::Long));
    }

    #[test]
    fn unknown_step_is_refused_with_the_list_of_steps() {
        let error = names(&["--only", "lint"]).unwrap_err().to_string();
        assert_eq!(
            error,
            "check has no step `lint`; it has fmt, tidy, clippy, docs, book, doctests, tests, crashes, conformance, page, clients, schema, power-cut, torture"
        );
        assert!(names(&["--only"]).is_err());
        assert!(names(&["fmt"]).is_err());
    }

    #[test]
    fn summary_ends_with_counts_and_the_failed_step() {
        let (steps, _) = select(&[]).unwrap();
        let second = Duration::from_secs(1);
        let good = summary(&steps[..2], &[(true, second), (true, second)]);
        assert_eq!(good.lines().last(), Some("check: 2 passed, 0 failed"));
        let bad = summary(&steps[..3], &[(true, second), (false, second)]);
        assert!(bad.contains("clippy      not run"), "{bad}");
        assert!(bad.lines().last().unwrap().starts_with("check: 1 passed, 1 failed: tidy"), "{bad}");
    }
}
