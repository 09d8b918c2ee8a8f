//! The binary `lango`: reads the configuration once, wires the crates together, and renders events.

mod apps;
mod args;
mod commands;
mod config;
mod remote;
mod screen;
mod trust;
mod wiring;

use args::{CliArgs, CliCommand};
use clap::Parser;
use rustix::process::Signal;
use std::{num::NonZero, process::ExitCode, time::Duration};
use tokio::signal::unix::{SignalKind, signal};
use tools::exec::sandbox::{CONFINE, confined_main};

/// How long blocking threads may take to finish when the program ends.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(3);

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    // The sandbox helper is this executable: it drops its rights and executes a command.
    if words.next().is_some_and(|word| word == CONFINE) {
        return confined_main(words);
    }
    let args = CliArgs::try_parse().unwrap_or_else(|error| screen::exit_with_usage(&error));
    match start(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => screen::report(&error),
    }
}

/// Beyond the file size limit of the process, a write fails with `EFBIG` instead of ending the process with SIGXFSZ.
fn catch_file_size_limit() {
    // The handler stays installed when its stream is dropped. If it cannot be installed, the default action remains.
    drop(signal(SignalKind::from_raw(Signal::XFSZ.as_raw())));
}

/// A server uses all cores. The other commands have one conversation, and every thread costs memory.
fn worker_threads(command: &CliCommand) -> usize {
    let cores = || std::thread::available_parallelism().map_or(2, NonZero::get);
    if matches!(command, CliCommand::Serve(_)) { cores() } else { 2 }
}

fn start(args: CliArgs) -> anyhow::Result<()> {
    let env = config::Env::capture();
    // It works also where the settings of the folder are invalid.
    if let CliCommand::Trust(trust) = &args.command {
        return commands::trust::trust(&env, &trust.command);
    }
    let settings = config::load(&args.location, &env, args.command.trust_prompt());
    if let Ok(settings) = &settings {
        args.command.report_untrusted(settings);
    }
    let workers = worker_threads(&args.command);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(workers).enable_all().build()?;
    let done = runtime.block_on(async {
        catch_file_size_limit();
        match args.command {
            CliCommand::Chat(chat) => commands::chat::chat(&settings?, chat).await,
            CliCommand::Run(run) => commands::run::run(&settings?, run).await,
            CliCommand::Sessions(sessions) => commands::sessions::sessions(&settings?, sessions).await,
            CliCommand::Usage(usage) => commands::usage::usage(&settings?, usage).await,
            CliCommand::Store(store) => commands::store::store(&settings?, store).await,
            CliCommand::Serve(serve) => commands::serve::serve(&settings?, serve).await,
            CliCommand::Token(token) => commands::token::token(&settings?, token.command),
            CliCommand::Tools(tools) => commands::tools::tools(&settings?, &tools).await,
            CliCommand::Rules(rules) => commands::rules::rules(&settings?, rules.command),
            CliCommand::Models(models) => commands::models::models(&settings?, &models).await,
            CliCommand::Trust(trust) => commands::trust::trust(&env, &trust.command),
            CliCommand::Doctor(doctor) => commands::doctor::doctor(settings, &doctor).await,
        }
    });
    // A thread that is blocked by a locked file must not delay the exit.
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    done
}
