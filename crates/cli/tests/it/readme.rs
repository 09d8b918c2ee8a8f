//! The commands of README.md, run as they are written there. Building and installing with cargo takes minutes: CI runs
//! `cargo xtask check`, and of `cargo run` only the arguments of the program are run here.

use crate::common::{CANARY, LANGO, Place, Running, Said};
use std::{ffi::OsString, os::unix::fs::symlink, process::Command};
use testkit::fakeprov::Fake;

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
fn shell(place: &Place, script: &str, environment: &[(&str, &str)]) -> Said {
    let bin = place.home().with_file_name("bin");
    if !bin.exists() {
        std::fs::create_dir_all(&bin).unwrap();
        symlink(LANGO, bin.join("lango")).unwrap();
    }
    let mut path = OsString::from(&bin);
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let mut command = Command::new("sh");
    command.args(["-ec", script]).current_dir(place.here()).env_clear().envs(place.variables());
    command.env("PATH", path).envs(environment.iter().copied());
    place.said(command.stdin(std::process::Stdio::null()))
}

#[test]
fn the_tests_of_this_file_know_every_command() {
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
            "lango tools",
            "lango run \"call weather with city=Rome\"",
            "lango serve",
            "lango token add laptop --user ann",
            "lango chat --server",
        ]
    );
}

#[test]
fn the_first_command_begins_a_conversation_with_the_demo_model() {
    let block = blocks("Two commands").concat();
    let (_, args) = commands(&block)[0].split_once(" -- ").unwrap();
    let place = Place::new();
    let said = place.fed(&[args], b"what is 15% of 240?\n").well();
    assert!(said.out.contains("36"), "{said:?}");
}

#[test]
fn doctor_works_on_a_fresh_machine() {
    let block = blocks("Install").concat();
    let said = shell(&Place::new(), commands(&block)[1], &[]);
    assert!(said.out.contains("demo") && !said.err.contains("panicked"), "{said:?}");
}

#[test]
fn a_key_in_the_environment_selects_its_provider() {
    let fake = Fake::start_blocking();
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
    let place = Place::new();
    place.file("README.md", "a file\n");
    let commands = commands(rest);
    assert_eq!(commands.len(), 4);
    // A chat whose input ends at once says nothing and ends well.
    for (command, requests) in commands.into_iter().zip([0, 1, 2, 3]) {
        let said = shell(&place, command, &environment).well();
        assert_eq!(fake.requests().len(), requests, "{command}: {said:?}");
        assert_eq!(said.out.is_empty(), requests == 0, "{command}: {said:?}");
    }
}

#[test]
fn an_empty_folder_becomes_an_agent_with_a_tool_of_its_own() {
    let place = Place::new();
    let said = shell(&place, &blocks("An agent of your own, with a tool of your own").concat(), &[]).well();
    assert!(said.out.contains("weather"), "{said:?}");
    assert!(said.err.contains("→ weather") && said.err.contains("\"sky\":\"clear\""), "{said:?}");
}

#[test]
fn a_server_gives_tokens_and_talks_to_the_terminal() {
    let block = blocks("As a server").concat();
    let commands = commands(&block);
    let [serve, token, chat] = commands[..] else { panic!("{commands:?}") };
    let place = Place::new();
    assert_eq!(serve, "lango serve");
    let server = Running::start(&place, &[]);
    let said = shell(&place, token, &[]).well();
    assert!(!said.out.trim().is_empty(), "the token: {said:?}");
    // The address is the default one; tests have a port of their own.
    let args: Vec<String> = chat.split(' ').skip(1).map(str::to_owned).collect();
    let args: Vec<String> = args.into_iter().chain([format!("http://{}", server.address)]).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let said = place.fed(&args, b"what is 15% of 240?\n").well();
    assert!(said.out.contains("36"), "{said:?}");
}
