//! The table of common commands through the binary: those that run give the same result as without a sandbox.

use crate::{
    common::{TestEnv, fixtures},
    tools::{exec, one_by_one, tool_results},
};
use serde::Deserialize;
use serde_json::Value;
use std::{
    ffi::OsString,
    fs,
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    process::{Command, Stdio},
};

/// How many commands one run of the binary executes.
const BATCH: usize = 30;

#[derive(Deserialize)]
struct CommandTable {
    read_only: Vec<String>,
    build: Vec<String>,
    dangerous: Vec<String>,
}

/// The outcome of one command.
#[derive(Debug, PartialEq, Eq)]
enum Comparison {
    /// Literally.
    SameText,
    /// Up to what differs from run to run.
    Same,
    /// It asked or was refused, or its result differs.
    Different(String),
    /// A program that it needs is not installed.
    Skipped,
}

/// A small project in several languages, with two commits.
const FILES: [(&str, &str); 22] = [
    ("README.md", "# Sample\n\nTODO: write more\n"),
    ("names.txt", "ann 1\nbob 2\nann 3\n"),
    ("build.log", "one\ntwo\n"),
    (
        "src/main.rs",
        "fn main() {\n    // TODO\n    let _ = Config;\n    println!(\"{}\", Some(1).unwrap());\n}\n\nmod parser;\n\nstruct Config;\n",
    ),
    ("src/parser.rs", "#[cfg(test)]\nmod tests {\n    #[test]\n    fn works() {}\n}\n"),
    ("src/a.txt", "one\n"),
    ("src/b.txt", "two\n"),
    ("Cargo.toml", "[package]\nname = \"sample\"\nversion = \"0.1.0\"\nedition = \"2021\"\n"),
    ("Cargo.lock", "version = 4\n\n[[package]]\nname = \"sample\"\nversion = \"0.1.0\"\n"),
    (
        "Makefile",
        "all:\n\t@echo built > made.txt\n\t@echo built\ntest:\n\t@echo tested\nclean:\n\t@rm -f made.txt\n",
    ),
    (
        "package.json",
        r#"{"name": "sample", "version": "1.0.0", "scripts": {"test": "echo tested", "build": "echo built", "lint": "echo linted"}}"#,
    ),
    ("scripts/check.js", "console.log('checked')\n"),
    ("node_modules/.bin/tsc", "#!/bin/sh\necho types\n"),
    ("tests/__init__.py", ""),
    (
        "tests/test_parser.py",
        "import unittest\n\nclass ParserTest(unittest.TestCase):\n    def test_parser(self):\n        pass\n",
    ),
    ("build.sh", "#!/bin/sh\necho built > out.txt && cat out.txt\n"),
    ("gradlew", "#!/bin/sh\necho \"BUILD SUCCESSFUL: $1\"\n"),
    (
        "CMakeLists.txt",
        "cmake_minimum_required(VERSION 3.10)\nproject(sample C)\nenable_testing()\nadd_executable(app main.c)\nadd_test(NAME runs COMMAND app)\n",
    ),
    ("go.mod", "module example.com/sample\n\ngo 1.18\n"),
    ("sample.go", "package sample\n\n// One is one.\nfunc One() int { return 1 }\n"),
    ("main.c", "#include <stdio.h>\nint main(void) { puts(\"hello\"); return 0; }\n"),
    (".gitignore", "target/\nnode_modules/\n"),
];

/// The commands run as the person who runs the tests, whose toolchains they need.
fn home() -> String {
    std::env::var("HOME").unwrap_or_else(|_| "/".to_owned())
}

/// `PATH`, with the programs that `cargo xtask check` installs for this test.
fn search_path() -> OsString {
    let programs = std::env::var_os("LANGO_TEST_PROGRAMS").map(PathBuf::from);
    let installed =
        programs.into_iter().flat_map(|dir| [dir.join("venv/bin"), dir.join("node_modules/.bin")]);
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::join_paths(installed.chain(std::env::split_paths(&path))).unwrap()
}

/// Writes the project anew.
fn reset(env: &TestEnv) {
    fs::remove_dir_all(env.workdir()).unwrap();
    for (path, text) in FILES {
        env.file(path, text);
    }
    for path in ["build.sh", "gradlew", "node_modules/.bin/tsc"] {
        fs::set_permissions(env.workdir().join(path), PermissionsExt::from_mode(0o755)).unwrap();
    }
    env.file("lango.toml", "model = \"scripted/script.yaml\"\n");
    env.file("script.yaml", "rules: []\n");
    let script = "git init -q -b main && git add -A && git commit -qm one && echo more >> README.md && git commit -qam two";
    let mut git = Command::new("sh");
    git.args(["-c", script]).current_dir(env.workdir());
    for who in ["AUTHOR", "COMMITTER"] {
        git.env(format!("GIT_{who}_NAME"), "Ann").env(format!("GIT_{who}_EMAIL"), "ann@example.com");
        git.env(format!("GIT_{who}_DATE"), "2024-05-01T12:00:00Z");
    }
    assert!(git.status().unwrap().success());
}

/// The results of the commands in the sandbox, in a mode.
fn confined(env: &TestEnv, mode: &str, commands: &[String]) -> Vec<Value> {
    let mut results = Vec::new();
    for batch in commands.chunks(BATCH) {
        let calls: Vec<Value> = batch.iter().map(|command| exec(command)).collect();
        let script = env.workdir().parent().unwrap().join("script.yaml");
        fs::write(&script, one_by_one(&calls)).unwrap();
        let model = format!("scripted/{}", script.display());
        let mut command = env.command(["run", "--json", "--mode", mode, "--model", &model, "go"]);
        results
            .extend(tool_results(&env.run(command.env("HOME", home()).env("PATH", search_path())).success()));
    }
    assert_eq!(results.len(), commands.len());
    results
}

/// The result of a command that runs without a sandbox.
struct Unconfined {
    code: Option<i32>,
    stdout: String,
    stderr: String,
    /// Two runs in a new project each printed the same, and nothing on standard error.
    is_stable: bool,
}

/// Runs a command without a sandbox, with the variables that commands have.
fn unconfined(env: &TestEnv, command: &str) -> Unconfined {
    let variables = [("LANG", "C.UTF-8"), ("TERM", "dumb"), ("GIT_OPTIONAL_LOCKS", "0"), ("TMPDIR", "/tmp")];
    let output = Command::new("/bin/sh")
        .args(["-c", command])
        .stdin(Stdio::null())
        .current_dir(env.workdir())
        .env_clear()
        .env("PATH", search_path())
        .env("HOME", home())
        .envs(variables)
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Unconfined {
        code: output.status.code(),
        stdout: text(&output.stdout),
        stderr: text(&output.stderr),
        is_stable: false,
    }
}

/// Numbers (times, sizes, process ids, hashes of builds) and the order of lines differ from run to run.
fn normalize(text: &str) -> Vec<String> {
    let line = |line: &str| {
        let digits = line.replace(|c: char| c.is_ascii_hexdigit() && !c.is_ascii_lowercase(), "#");
        let words: Vec<String> = digits
            .split_whitespace()
            .map(|word| {
                let mut short = word.replace(".#", "#");
                while short.contains("##") {
                    short = short.replace("##", "#");
                }
                short
            })
            .collect();
        words.join(" ")
    };
    let mut lines: Vec<String> = text.lines().map(line).collect();
    lines.sort();
    lines
}

/// The exit code and the standard output must be the same: literally if the command always prints the same, else up to
/// [`normalize`]. `exec` returns both streams as one, and warnings on standard error may be missing, such as those about a file in
/// the home directory.
fn compare(found: &Value, expected: &Unconfined) -> Comparison {
    let Unconfined { code, stdout, stderr, is_stable } = expected;
    if *code == Some(127) || stderr.contains("No module named") {
        return Comparison::Skipped;
    }
    let (exit, text) = (found["exit_code"].as_i64(), found["output"].as_str().unwrap_or_default());
    if *is_stable && exit == code.map(i64::from) && text == stdout {
        return Comparison::SameText;
    }
    let mut rest = normalize(text);
    let has_stdout = normalize(stdout).iter().all(|line| {
        let at = rest.iter().position(|found| found == line);
        at.map(|at| rest.swap_remove(at)).is_some()
    });
    let known = normalize(stderr);
    if !is_stable && exit == code.map(i64::from) && has_stdout && rest.iter().all(|line| known.contains(line))
    {
        return Comparison::Same;
    }
    Comparison::Different(format!("confined: {found}\nunconfined: {code:?} {stdout}{stderr}"))
}

#[test]
fn commands_that_run_give_the_same_result_as_without_a_sandbox() {
    let text = fs::read_to_string(fixtures().join("approvals/commands.toml")).unwrap();
    let table: CommandTable = toml::from_str(&text).unwrap();
    let env = TestEnv::new();
    let all: Vec<String> = table.read_only.iter().chain(&table.build).cloned().collect();
    let without_sandbox = || {
        reset(&env);
        all.iter().map(|command| unconfined(&env, command)).collect::<Vec<_>>()
    };
    // The runs in the sandbox are between the two, so that a time that both print is theirs, too.
    let first = without_sandbox();
    reset(&env);
    let in_ask = confined(&env, "ask", &table.read_only);
    let in_auto = confined(&env, "auto", &all);
    let is_stable = |one: &Unconfined, two: &Unconfined| {
        one.stdout == two.stdout && one.stderr.is_empty() && two.stderr.is_empty()
    };
    let expected: Vec<_> = first
        .into_iter()
        .zip(without_sandbox())
        .map(|(one, two)| Unconfined { is_stable: is_stable(&one, &two), ..one })
        .collect();
    let report = |mode: &str, results: &[Value]| {
        let compared: Vec<(&String, Comparison)> = results
            .iter()
            .zip(&expected)
            .zip(&all)
            .map(|((found, expected), command)| (command, compare(found, expected)))
            .collect();
        let skipped: Vec<&String> = compared
            .iter()
            .filter(|(_, outcome)| *outcome == Comparison::Skipped)
            .map(|(command, _)| *command)
            .collect();
        let different: Vec<String> = compared
            .iter()
            .filter_map(|(command, outcome)| match outcome {
                Comparison::Different(why) => Some(format!("{command}\n{why}")),
                Comparison::SameText | Comparison::Same | Comparison::Skipped => None,
            })
            .collect();
        let count = compared.len() - skipped.len();
        let succeed = expected.iter().take(results.len()).filter(|expected| expected.code == Some(0)).count();
        let literal = compared.iter().filter(|(_, outcome)| *outcome == Comparison::SameText).count();
        println!(
            "{mode}: {} of {count} compared commands give the same result, {literal} literally, {succeed} exit with 0; not installed: {skipped:?}",
            count - different.len()
        );
        println!("{}", different.join("\n\n"));
        different.len()
    };
    let (ask, auto) = (report("ask", &in_ask), report("auto", &in_auto));
    assert!(ask <= 2, "at least 48 of 50 in ask");
    assert!(auto <= 5, "at least 85 of 90 in auto");
    for mode in ["plan", "ask", "edits", "auto"] {
        for (result, command) in confined(&env, mode, &table.dangerous).iter().zip(&table.dangerous) {
            assert!(
                result["exit_code"].is_null() && !result["error"].is_null(),
                "{mode}, {command}: {result}"
            );
        }
    }
}
