//! `lango serve`: the agents for programs and browsers.

use super::{listen, talk::LAST_WORDS};
use crate::{apps::Apps, args::ServeArgs, config::Settings, screen, wiring};
use anyhow::Context;
use bridge::{Archive, Runs};
use server::{ServerState, ShutdownSignal, router};
use std::{
    path::PathBuf,
    process::{self, Command, Stdio},
    sync::Arc,
    time::Duration,
};
use tokio::{
    net::TcpListener,
    signal::unix::{Signal, SignalKind, signal},
};

/// How long a server that ends in the middle of answers waits until they are saved.
const LAST_SAVE: Duration = Duration::from_secs(1);

pub(crate) async fn serve(settings: &Settings, args: ServeArgs) -> anyhow::Result<()> {
    listen::check(&args)?;
    let mut signals = Signals::listen()?;
    let store = tokio::select! {
        opened = wiring::open_served_store(settings) => opened?,
        () = signals.next() => return Ok(()),
    };
    let telemetry = wiring::telemetry(settings)?;
    let (archive, runs) = (Archive::new(Arc::clone(&store)), Runs::new(Arc::clone(&store)));
    let apps = Arc::new(Apps::new(settings.clone(), store, (runs.turns().clone(), telemetry.trace())));
    let mut server = ServerState::new(Arc::<Apps>::clone(&apps), archive, runs)
        .with_dev_ui(page(args.dev_ui.clone()))
        .with_telemetry(telemetry.clone());
    if args.log {
        server = server.with_log(screen::note);
    }
    // Before anybody is served: a newer message queues behind what a dead process left.
    let recovery = tokio::select! {
        claimed = server.runs().claim_orphans() => claimed.context("the runs of an earlier process cannot be claimed")?,
        () = signals.next() => return Ok(()),
    };
    let (host, port) = (args.host, args.port);
    let listener = TcpListener::bind((host, port))
        .await
        .with_context(|| format!("{host} port {port} cannot be listened on; choose another with --port"))?;
    let address = listener.local_addr()?;
    let (listen, access) = listen::open(settings, &args, listener, address)?;
    listen::greet(&access, address, listen.tls.is_some())?;

    let stop = ShutdownSignal::default();
    let serving = tokio::spawn(server::serve(listen, router(server.clone(), access), stop.clone()));
    tokio::spawn(async move {
        apps.look().await;
    });
    let (runs, source) = (server.runs().clone(), server.recovery_source(screen::note));
    tokio::spawn(async move { runs.recover(recovery, source).await });
    signals.next().await;
    stop.graceful.cancel();
    let finish = async {
        // Whoever is being answered hears the end of it, and what nobody waits for is finished too.
        let served = serving.await;
        server.runs().idle().await;
        served
    };
    let finished = tokio::select! {
        served = finish => Some(served?),
        () = tokio::time::sleep(Duration::from_secs(args.grace)) => None,
        () = signals.next() => park(&server).await,
    };
    tokio::select! {
        () = telemetry.flush(LAST_WORDS) => {}
        () = signals.next() => park(&server).await,
    }
    match finished {
        Some(served) => Ok(served),
        None => park(&server).await,
    }
}

/// As after a crash: what still runs goes on at the next start. What was shown of it is saved first.
async fn park(server: &ServerState) -> ! {
    let _ = tokio::time::timeout(LAST_SAVE, server.runs().flush_drafts()).await;
    process::exit(0)
}

/// The folder of ADK's web page: the one that was named, or that of the google-adk that Python knows. Asked only when somebody
/// opens the page.
fn page(named: Option<PathBuf>) -> impl Fn() -> Option<PathBuf> + Send + Sync {
    let ask = "import importlib.util as u, pathlib; print(pathlib.Path(u.find_spec('google.adk').origin).parent / 'cli' / 'browser')";
    move || {
        named.clone().or_else(|| {
            let said = Command::new("python3").args(["-c", ask]).stderr(Stdio::null()).output().ok()?;
            let path = PathBuf::from(String::from_utf8(said.stdout).ok()?.trim());
            path.join("index.html").is_file().then_some(path)
        })
    }
}

/// Ctrl-C, or a supervisor that wants us to end.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn listen() -> anyhow::Result<Self> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
