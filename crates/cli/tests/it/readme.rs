//! The commands of README.md, run as written. Building and installing with cargo takes minutes: CI runs `cargo xtask check`, and
//! of `cargo run` only the arguments are run here.

use crate::common::{AuthServer, CANARY, CliOutput, LANGO, TestEnv};
use std::{ffi::OsString, os::unix::fs::symlink, process::Command};
use testkit::fakeprov::FakeProvider;

const README: &str = include_str!("../../../../README.md");

/// The shell blocks below a heading.
fn blocks(heading: &str) -> Vec<String> {
    let start = README.find(&format!("\n## {heading}\n")).unwrap_or_else(|| panic!("no heading {heading}"));
    let section = &README[start + 4..];
    let section = section.split("\n## ").next().unwrap_or_default();
    let blocks = section.split("```sh\n").skip(1);
    blocks.map(|block| block.split("```").next().unwrap_or_default().to_owned()).collect()
}

/// The commands of a block without its here-documents.
fn commands(block: &str) -> Vec<&str> {
    let mut inside = false;
    let mut commands = Vec::new();
    for line in block.lines() {
        if inside || line.contains("<<'EOF'") {
            inside = line != "EOF";
        } else if line.starts_with("lango ") || line.starts_with("cargo ") {
            commands.push(line);
        }
    }
    commands
}

/// A shell that finds the binary under test as `lango`.
fn shell(env: &TestEnv, script: &str, environment: &[(&str, &str)]) -> CliOutput {
    let bin = env.home().with_file_name("bin");
    if !bin.exists() {
        std::fs::create_dir_all(&bin).unwrap();
        symlink(LANGO, bin.join("lango")).unwrap();
    }
    let mut path = OsString::from(&bin);
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let mut command = Command::new("sh");
    command.args(["-ec", script]).current_dir(env.workdir()).env_clear().envs(env.variables());
    command.env("PATH", path).envs(environment.iter().copied());
    env.run(command.stdin(std::process::Stdio::null()))
}

#[test]
fn every_readme_command_is_covered() {
    let all = README.split("```sh\n").skip(1).map(|block| block.split("```").next().unwrap_or_default());
    let all: Vec<&str> = all.flat_map(commands).collect();
    assert_eq!(
        all,
        [
            "cargo run --release -- chat",
            "cargo xtask check",
            "cargo install --locked --path crates/cli",
            "lango doctor",
            "lango chat",
            "lango run \"what is in README.md?\"",
            "lango run --continue \"and in src?\"",
            "lango run --model anthropic/claude-sonnet-4-5 \"hello\"",
            "lango trust add",
            "lango tools",
            "lango run \"call weather with city=Rome\"",
            "lango serve",
            "lango token add laptop --user ann",
            "lango chat --server",
        ]
    );
}

#[test]
fn first_readme_command_starts_a_chat_with_the_demo_model() {
    let block = blocks("Quick start").concat();
    let (_, args) = commands(&block)[0].split_once(" -- ").unwrap();
    let env = TestEnv::new();
    let output = env.lango_with_stdin(&[args], b"what is 15% of 240?\n").success();
    assert!(output.out.contains("36"), "{output:?}");
}

#[test]
fn readme_doctor_command_works_without_configuration() {
    let block = blocks("Install").concat();
    let output = shell(&TestEnv::new(), commands(&block)[1], &[]);
    assert!(output.out.contains("demo") && !output.err.contains("panicked"), "{output:?}");
}

#[test]
fn readme_key_in_the_environment_selects_its_provider() {
    let fake = FakeProvider::start_blocking();
    let block = blocks("With a real model").concat();
    let (exported, rest) = block.split_once('\n').unwrap();
    assert_eq!(exported, "export OPENAI_API_KEY=...");
    let url = fake.url("text");
    let environment = [
        ("OPENAI_API_KEY", CANARY),
        ("OPENAI_BASE_URL", url.as_str()),
        ("ANTHROPIC_API_KEY", CANARY),
        ("ANTHROPIC_BASE_URL", url.as_str()),
    ];
    let env = TestEnv::new();
    env.file("README.md", "a file\n");
    let commands = commands(rest);
    assert_eq!(commands.len(), 4);
    // A chat without input prints nothing and succeeds.
    for (command, requests) in commands.into_iter().zip([0, 1, 2, 3]) {
        let output = shell(&env, command, &environment).success();
        assert_eq!(fake.requests().len(), requests, "{command}: {output:?}");
        assert_eq!(output.out.is_empty(), requests == 0, "{command}: {output:?}");
    }
}

#[test]
fn readme_commands_create_an_agent_with_its_own_tool() {
    let env = TestEnv::new();
    let output = shell(&env, &blocks("Custom agents and tools").concat(), &[]).success();
    assert!(output.out.contains("weather"), "{output:?}");
    assert!(output.err.contains("→ weather") && output.err.contains("\"sky\":\"clear\""), "{output:?}");
}

#[test]
fn readme_server_commands_work_together() {
    let block = blocks("As a server").concat();
    let commands = commands(&block);
    let [serve, token, chat] = commands[..] else { panic!("{commands:?}") };
    let env = TestEnv::new();
    assert_eq!(serve, "lango serve");
    let server = AuthServer::start(&env, &[]);
    let output = shell(&env, token, &[]).success();
    assert!(!output.out.trim().is_empty(), "the token: {output:?}");
    // The README uses the default address; the test adds that of its server.
    let args: Vec<String> = chat.split(' ').skip(1).map(str::to_owned).collect();
    let args: Vec<String> = args.into_iter().chain([format!("http://{}", server.address)]).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let output = env.lango_with_stdin(&args, b"what is 15% of 240?\n").success();
    assert!(output.out.contains("36"), "{output:?}");
}
