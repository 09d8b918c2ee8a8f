//! Approvals through the binary: answers on a terminal, scopes of rules, modes, and a server.

mod answers;
mod modes;
mod rules;
mod server;
mod table;

use crate::{
    common::{QUESTION, Terminal, TestEnv},
    tools::call,
};
use serde_json::{Value, json};

fn write(path: &str, content: &str) -> Value {
    call("write_file", json!({"path": path, "content": content}))
}

/// A chat in which the first call of the script asks.
fn asked(env: &TestEnv) -> Terminal {
    let mut terminal = Terminal::open(env, &["chat", "--session", "k"]);
    terminal.wait_for("› ");
    terminal.type_line("go");
    terminal.wait_for(QUESTION);
    terminal
}

/// The request that a provider would get if the session continued now.
fn request(env: &TestEnv) -> String {
    env.lango(&["sessions", "show", "k", "--as", "openai"]).success().out
}
