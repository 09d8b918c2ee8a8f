//! The binary `lango`: reads the configuration once, wires the crates together, and shows what happens.

mod apps;
mod args;
mod commands;
mod config;
mod remote;
mod screen;
mod wiring;

use args::{Args, Command};
use clap::Parser;
use std::{process::ExitCode, time::Duration};
use tools::exec::sandbox::{CONFINE, confined_main};

/// How long threads that are still at work may take when the program ends.
const LAST_WAIT: Duration = Duration::from_secs(3);

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    // We are our own helper: a process that gives up its rights and becomes a command.
    if words.next().is_some_and(|word| word == CONFINE) {
        return confined_main(words);
    }
    let args = Args::parse();
    match start(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => screen::report(&error),
    }
}

fn start(args: Args) -> anyhow::Result<()> {
    let settings = config::load(&args.place, &config::Env::capture());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let done = runtime.block_on(async {
        match args.command {
            Command::Chat(chat) => commands::chat::chat(&settings?, chat).await,
            Command::Run(run) => commands::run::run(&settings?, run).await,
            Command::Sessions(sessions) => commands::sessions::sessions(&settings?, sessions).await,
            Command::Serve(serve) => commands::serve::serve(&settings?, serve).await,
            Command::Token(token) => commands::token::token(&settings?, token.command),
            Command::Tools(tools) => commands::tools::tools(&settings?, &tools).await,
            Command::Rules(rules) => commands::rules::rules(&settings?, rules.command),
            Command::Models(models) => commands::models::models(&settings?, &models).await,
            Command::Doctor(doctor) => commands::doctor::doctor(settings, &doctor).await,
        }
    });
    // A thread that waits for a locked file is not waited for.
    runtime.shutdown_timeout(LAST_WAIT);
    done
}
