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
use std::process::ExitCode;

fn main() -> ExitCode {
    let args = Args::parse();
    match start(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => screen::report(&error),
    }
}

fn start(args: Args) -> anyhow::Result<()> {
    let settings = config::load(&args.place, &config::Env::capture());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        match args.command {
            Command::Chat(chat) => commands::chat::chat(&settings?, chat).await,
            Command::Run(run) => commands::run::run(&settings?, run).await,
            Command::Sessions(sessions) => commands::sessions::sessions(&settings?, sessions).await,
            Command::Serve(serve) => commands::serve::serve(&settings?, serve).await,
            Command::Token(token) => commands::token::token(&settings?, token.command),
            Command::Models(models) => commands::models::models(&settings?, &models).await,
            Command::Doctor(doctor) => commands::doctor::doctor(settings, &doctor).await,
        }
    })
}
