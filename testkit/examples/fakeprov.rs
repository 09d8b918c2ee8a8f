//! Runs the fake providers from the command line: `cargo run -p testkit --example fakeprov -- [--port 8080]`.
//!
//! Prints `LISTENING <port>` and serves until it is killed. `GET /log` returns the received requests, `POST /reset` clears them.

use std::{
    env,
    io::{self, Write as _},
    thread,
};
use testkit::fakeprov::{FakeProvider, SCENARIOS};

fn main() -> io::Result<()> {
    let args: Vec<String> = env::args().skip(1).collect();
    let port = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => Some(0),
        ["--port", port] => port.parse().ok(),
        _ => None,
    };
    let Some(port) = port else {
        writeln!(io::stdout(), "usage: fakeprov [--port PORT]\nscenarios: {}", SCENARIOS.join(" "))?;
        return Ok(());
    };
    let fake = FakeProvider::on_port(port)?;
    writeln!(io::stdout(), "LISTENING {}", fake.port())?;
    loop {
        thread::park();
    }
}
