//! `lango serve`: the agents for programs and browsers.

use super::{door, talk::LAST_WORDS};
use crate::{apps::Apps, args::Serve, config::Settings, screen, wiring};
use anyhow::Context;
use bridge::{Archive, Runs};
use server::{Server, Stop, router};
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

pub(crate) async fn serve(settings: &Settings, args: Serve) -> anyhow::Result<()> {
    door::check(&args)?;
    let mut signals = Signals::listen()?;
    let store = wiring::open_store(settings)?;
    let telemetry = wiring::telemetry(settings)?;
    let apps = Arc::new(Apps::new(settings.clone(), Arc::clone(&store), telemetry.trace()));
    let (archive, runs) = (Archive::new(Arc::clone(&store)), Runs::new(store));
    let mut server = Server::new(Arc::<Apps>::clone(&apps), archive, runs)
        .with_page(page(args.dev_ui.clone()))
        .with_telemetry(telemetry.clone());
    if args.log {
        server = server.with_log(screen::note);
    }
    let (host, port) = (args.host, args.port);
    let listener = TcpListener::bind((host, port))
        .await
        .with_context(|| format!("{host} port {port} cannot be listened on; choose another with --port"))?;
    let address = listener.local_addr()?;
    let (door, access) = door::open(settings, &args, listener, address)?;
    door::greet(&access, address, door.tls.is_some())?;

    let stop = Stop::default();
    let serving = tokio::spawn(server::serve(door, router(server.clone(), access), stop.clone()));
    tokio::spawn(async move {
        apps.look().await;
    });
    let taker = server.clone();
    tokio::spawn(async move {
        for problem in taker.take_up().await {
            screen::note(&format!("a session cannot go on: {problem}"));
        }
    });
    signals.next().await;
    stop.gently.cancel();
    let finish = async {
        // Whoever is being answered hears the end of it, and what nobody waits for is finished too.
        let served = serving.await;
        server.runs().idle().await;
        served
    };
    let finished = tokio::select! {
        served = finish => Some(served?),
        () = tokio::time::sleep(Duration::from_secs(args.grace)) => None,
        () = signals.next() => park(),
    };
    tokio::select! {
        () = telemetry.flush(LAST_WORDS) => {}
        () = signals.next() => park(),
    }
    finished.map_or_else(|| park(), Ok)
}

/// As after a crash, which loses nothing: what still runs goes on at the next start.
fn park() -> ! {
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
