//! The binary `lango`: reads the configuration once, wires the crates together, and shows what happens.

mod apps;
mod args;
mod commands;
mod config;
mod remote;
mod screen;
mod wiring;

use args::{CliArgs, CliCommand};
use clap::Parser;
use rustix::process::Signal;
use std::{process::ExitCode, time::Duration};
use tokio::signal::unix::{SignalKind, signal};
use tools::exec::sandbox::{CONFINE, confined_main};

/// How long threads that are still at work may take when the program ends.
const LAST_WAIT: Duration = Duration::from_secs(3);

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    // We are our own helper: a process that gives up its rights and becomes a command.
    if words.next().is_some_and(|word| word == CONFINE) {
        return confined_main(words);
    }
    let args = CliArgs::parse();
    match start(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => screen::report(&error),
    }
}

/// Beyond the file size limit of the process, a write fails with `EFBIG` instead of ending the process with SIGXFSZ.
fn catch_file_size_limit() {
    // A handler stays installed when its stream is dropped. Without one, the process is as it was.
    drop(signal(SignalKind::from_raw(Signal::XFSZ.as_raw())));
}

fn start(args: CliArgs) -> anyhow::Result<()> {
    let settings = config::load(&args.place, &config::Env::capture());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let done = runtime.block_on(async {
        catch_file_size_limit();
        match args.command {
            CliCommand::Chat(chat) => commands::chat::chat(&settings?, chat).await,
            CliCommand::Run(run) => commands::run::run(&settings?, run).await,
            CliCommand::Sessions(sessions) => commands::sessions::sessions(&settings?, sessions).await,
            CliCommand::Serve(serve) => commands::serve::serve(&settings?, serve).await,
            CliCommand::Token(token) => commands::token::token(&settings?, token.command),
            CliCommand::Tools(tools) => commands::tools::tools(&settings?, &tools).await,
            CliCommand::Rules(rules) => commands::rules::rules(&settings?, rules.command),
            CliCommand::Models(models) => commands::models::models(&settings?, &models).await,
            CliCommand::Doctor(doctor) => commands::doctor::doctor(settings, &doctor).await,
        }
    });
    // A thread that waits for a locked file is not waited for.
    runtime.shutdown_timeout(LAST_WAIT);
    done
}
