//! `lango serve`: serves the agents over HTTP.

use super::{conversation::TELEMETRY_FLUSH_TIMEOUT, listen};
use crate::{apps::Apps, args::ServeArgs, config::Settings, screen, wiring};
use anyhow::{Context, anyhow};
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
use tools::policy::{ApprovalMode, SandboxCapability};

/// How long a server that exits with active runs waits until their drafts are saved.
const DRAFT_FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// How long the link for a browser waits until the page is located.
const PAGE_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) async fn serve(settings: &Settings, args: ServeArgs) -> anyhow::Result<()> {
    listen::check(&args)?;
    let settings = &operator_settings(settings, args.mode)?;
    let mut signals = Signals::listen()?;
    let store = tokio::select! {
        opened = wiring::open_served_store(settings) => opened?,
        () = signals.next() => return Ok(()),
    };
    let telemetry = wiring::telemetry(settings)?;
    let (archive, runs) = (Archive::new(Arc::clone(&store)), Runs::new(Arc::clone(&store)));
    let apps = Arc::new(Apps::new(settings.clone(), store, (runs.turns().clone(), telemetry.trace())));
    let mut server = ServerState::new(Arc::<Apps>::clone(&apps), archive, runs)
        .with_dev_ui(dev_ui_dir(args.dev_ui.clone()))
        .with_telemetry(telemetry.clone());
    if args.log {
        server = server.with_log(screen::note);
    }
    // Before listening, so that new messages are queued after the orphaned runs of a dead process, and a broken agent is reported
    // before its first message.
    let prepare = async {
        apps.load_all().await;
        server.runs().claim_orphans().await.context("the runs of an earlier process cannot be claimed")
    };
    let recovery = tokio::select! {
        claimed = prepare => claimed?,
        () = signals.next() => return Ok(()),
    };
    let (host, port) = (args.host, args.port);
    let listener = TcpListener::bind((host, port))
        .await
        .with_context(|| format!("{host} port {port} cannot be listened on; choose another with --port"))?;
    let address = listener.local_addr()?;
    let (listen, access) = listen::open(settings, &args, listener, address)?;
    let announcement = listen::Announcement::new(access.clone(), address, listen.tls.is_some());
    announcement.print_address();

    let stop = ShutdownSignal::default();
    let serving = tokio::spawn(server::serve(listen, router(server.clone(), access), stop.clone()));
    tokio::spawn(apps.watch());
    tokio::spawn(announce_page(announcement, server.clone()));
    let (runs, source) = (server.runs().clone(), server.recovery_source(screen::note));
    tokio::spawn(async move { runs.recover(recovery, source).await });
    signals.next().await;
    stop.graceful.cancel();
    let finish = async {
        // Open requests are answered, and runs without a reader finish too.
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
        () = telemetry.flush(TELEMETRY_FLUSH_TIMEOUT) => {}
        () = signals.next() => park(&server).await,
    }
    match finished {
        Some(served) => Ok(served),
        None => park(&server).await,
    }
}

/// The settings of a trusted folder with the mode of the command line, which the sandbox must support.
fn operator_settings(settings: &Settings, mode: Option<ApprovalMode>) -> anyhow::Result<Settings> {
    settings.folder.require_trust()?;
    let mut settings = settings.clone();
    settings.tools.mode = mode.unwrap_or(settings.tools.mode);
    if settings.tools.mode.is_permissive() {
        let capability = SandboxCapability::from(&wiring::sandbox(&settings));
        capability.check_mode(settings.tools.mode).map_err(|why| anyhow!(why))?;
    }
    Ok(settings)
}

/// Prints the link for a browser. Locating the page may start a program, so the server listens meanwhile.
async fn announce_page(announcement: listen::Announcement, server: ServerState) {
    let has_page = tokio::time::timeout(PAGE_TIMEOUT, server.has_dev_ui()).await.unwrap_or(false);
    announcement.print_link(has_page);
}

/// Exits without ending the active runs, as a crash would: another server or the next start continues them. Saves their drafts
/// first, and ends the lease of this process.
async fn park(server: &ServerState) -> ! {
    let _ = tokio::time::timeout(DRAFT_FLUSH_TIMEOUT, server.runs().flush_drafts()).await;
    let _ = tokio::time::timeout(DRAFT_FLUSH_TIMEOUT, server.runs().release()).await;
    process::exit(0)
}

/// The folder of ADK's web page: that of `--dev-ui`, or that of the google-adk installed for `python3`. It has an `index.html`.
fn dev_ui_dir(from_args: Option<PathBuf>) -> impl Fn() -> Option<PathBuf> + Send + Sync {
    let script = "import importlib.util as u, pathlib; print(pathlib.Path(u.find_spec('google.adk').origin).parent / 'cli' / 'browser')";
    move || {
        let installed = || {
            let output = Command::new("python3").args(["-c", script]).stderr(Stdio::null()).output().ok()?;
            Some(PathBuf::from(String::from_utf8(output.stdout).ok()?.trim()))
        };
        // Without google-adk the output is empty, which must not become the working directory.
        let found = from_args.clone().or_else(|| installed().filter(|path| path.is_absolute()));
        found.filter(|path| path.join("index.html").is_file())
    }
}

/// SIGINT and SIGTERM.
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
