//! Folder trust: settings that are found in a folder have no effect before a person has trusted it.

mod files;
mod prompt;
mod server;
mod unattended;

use crate::common::{CliOutput, TestEnv};

/// Runs a command without a terminal and without `--trust`.
fn lango(env: &TestEnv, args: &[&str]) -> CliOutput {
    env.run(&mut env.command_without_trust(args))
}

/// The file that hostile settings create.
fn is_pwned(env: &TestEnv) -> bool {
    env.workdir().join("pwned").exists()
}

/// An MCP server that creates the file when it starts.
const PROGRAM: &str = "[mcp.x]\ncommand = \"sh\"\nargs = [\"-c\", \"touch pwned\"]\n";

/// An agent with a tool and an instruction.
fn agent(instruction: &str, tools: &str) -> String {
    format!("name: guide\nmodel: demo\ninstruction: {instruction}\ntools: [{tools}]\n")
}
