//! The served apps: loaded before the server listens, and again when their files change. A version that cannot be loaded does
//! not replace the one that is served.

use crate::{
    config::{BUILT_IN_APP, ConfigError, ModelName, Settings},
    screen,
    wiring::{self, AgentFault, Plan},
};
use adk::trace::Trace;
use bridge::Turns;
use file_stamp::FileStamp;
use lock::LockExt;
use server::{AppFault, AppFaultKind, AppLookupError, AppsStatus, BrokenApp, ServedApp};
use session::Store;
use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};
use tokio::{runtime::Handle, sync::OnceCell, task};

/// How long an app that failed to load is not reloaded. File stamps are not enough: the fix may be in a file that the app does
/// not name yet.
const RELOAD_INTERVAL: Duration = Duration::from_millis(500);
/// Interval between two searches for added, changed and removed apps. A request for an app reloads it at once.
const RESCAN_INTERVAL: Duration = Duration::from_secs(2);

pub(crate) struct Apps {
    settings: Settings,
    /// The model of agents that name none, once it is resolved.
    model: OnceCell<ModelName>,
    store: Arc<dyn Store>,
    /// Shared by all apps, including reloaded ones.
    turns: Turns,
    trace: Trace,
    table: Mutex<AppTable>,
}

#[derive(Default)]
struct AppTable {
    /// The names at the last scan.
    listed: Vec<String>,
    loaded: BTreeMap<String, LoadedApp>,
}

/// An app as it was loaded last.
struct LoadedApp {
    app: Option<Arc<ServedApp>>,
    /// The stamp of each file; `None` if it does not exist.
    files: Vec<(PathBuf, Option<FileStamp>)>,
    /// The last load error, and when it occurred.
    error: Option<(AppFault, Instant)>,
}

impl Apps {
    pub(crate) fn new(settings: Settings, store: Arc<dyn Store>, (turns, trace): (Turns, Trace)) -> Self {
        Self { settings, model: OnceCell::new(), store, turns, trace, table: Mutex::default() }
    }

    /// Loads every app. Broken ones are reported, and the others are served. MCP servers are not started: an agent lists
    /// their tools when it first needs them.
    pub(crate) async fn load_all(self: &Arc<Self>) {
        self.default_model().await;
        self.rescan().await;
        if server::AppRegistry::status(&**self).served == 0 {
            screen::note("no app can be loaded: /readyz answers 503 until one can");
        }
    }

    /// Searches for added, changed and removed apps until it is dropped.
    pub(crate) async fn watch(self: Arc<Self>) {
        loop {
            tokio::time::sleep(RESCAN_INTERVAL).await;
            self.rescan().await;
        }
    }

    /// Reads files, so it runs on a blocking thread.
    async fn rescan(self: &Arc<Self>) {
        let apps = Arc::clone(self);
        let _ = task::spawn_blocking(move || apps.scan()).await;
    }

    fn scan(&self) {
        let names = server::AppRegistry::names(self);
        {
            let mut table = self.table.locked();
            // The built-in app is served by name even if it is not listed.
            table.loaded.retain(|name, _| names.contains(name) || name == BUILT_IN_APP);
            table.listed.clone_from(&names);
        }
        for name in &names {
            // Errors are reported by the load.
            let _ = server::AppRegistry::find(self, name);
        }
    }

    /// The model of agents that name none. The first call resolves it, which may query model servers of this machine; that takes
    /// at most a quarter of a second.
    async fn default_model(&self) -> &ModelName {
        let resolved = async {
            let (model, note) = wiring::default_model(&self.settings).await;
            if let Some(note) = note {
                screen::note(&note);
            }
            model
        };
        self.model.get_or_init(|| resolved).await
    }

    fn blocking_default_model(&self) -> &ModelName {
        let resolve = || Handle::current().block_on(self.default_model());
        self.model.get().unwrap_or_else(|| task::block_in_place(resolve))
    }

    fn load(
        &self,
        name: &str,
        model: &ModelName,
        previous: Option<LoadedApp>,
    ) -> Result<LoadedApp, AppLookupError> {
        let plan = wiring::plan_with(&self.settings, name, model);
        match plan.and_then(|plan| self.open(plan)) {
            Ok(loaded) => {
                if previous.is_some_and(|previous| previous.error.is_some()) {
                    screen::note(&format!("the app {name} can be loaded again"));
                }
                Ok(loaded)
            }
            Err(error) => match error.downcast_ref() {
                Some(ConfigError::UnknownApp { .. }) => Err(not_found(name)),
                _ => Ok(keep_previous(name, self.fault(&error), previous)),
            },
        }
    }

    fn open(&self, plan: Plan) -> anyhow::Result<LoadedApp> {
        let files = plan.files.iter().map(|path| (path.clone(), FileStamp::read(path).ok())).collect();
        let wiring::App { name, agent, model, .. } =
            plan.open(Arc::clone(&self.store), self.trace.clone())?;
        let agent = agent.with_turns(self.turns.clone());
        Ok(LoadedApp { app: Some(Arc::new(ServedApp { name, agent, model })), files, error: None })
    }

    fn fault(&self, error: &anyhow::Error) -> AppFault {
        // A parser may quote what it cannot read.
        let reason = self.settings.tools.mask.apply(screen::format_error(error));
        AppFault { kind: fault_kind(error), reason }
    }
}

impl server::AppRegistry for Apps {
    /// The built-in app is always available by name, but is listed only if there is no other.
    fn names(&self) -> Vec<String> {
        let names = self.settings.agents_dir.apps();
        if names.is_empty() { vec![BUILT_IN_APP.to_owned()] } else { names }
    }

    fn find(&self, name: &str) -> Result<Arc<ServedApp>, AppLookupError> {
        // Resolved before the lock is taken: threads that wait for the lock could block the resolution.
        let model = self.blocking_default_model();
        let mut table = self.table.locked();
        if let Some(fresh) = table.loaded.get(name).filter(|known| known.is_fresh()) {
            return fresh.app();
        }
        let previous = table.loaded.remove(name);
        let current = self.load(name, model, previous)?;
        let app = current.app();
        table.loaded.insert(name.to_owned(), current);
        app
    }

    fn status(&self) -> AppsStatus {
        let table = self.table.locked();
        let mut status = AppsStatus::default();
        for name in &table.listed {
            let Some(loaded) = table.loaded.get(name) else { continue };
            let is_served = loaded.app.is_some();
            status.served += usize::from(is_served);
            status.broken.extend(loaded.error.as_ref().map(|(fault, _)| BrokenApp {
                name: name.clone(),
                fault: fault.clone(),
                serves_previous: is_served,
            }));
        }
        status
    }
}

impl LoadedApp {
    fn app(&self) -> Result<Arc<ServedApp>, AppLookupError> {
        match (&self.app, &self.error) {
            (Some(app), _) => Ok(Arc::clone(app)),
            (None, Some((fault, _))) => Err(AppLookupError::Broken(fault.clone())),
            (None, None) => {
                Err(AppLookupError::Broken(AppFault { kind: AppFaultKind::Other, reason: String::new() }))
            }
        }
    }

    fn is_fresh(&self) -> bool {
        match &self.error {
            Some((_, since)) => since.elapsed() < RELOAD_INTERVAL,
            None => self.files.iter().all(|(path, was)| FileStamp::read(path).ok() == *was),
        }
    }
}

/// The kind of a load error, by its type.
fn fault_kind(error: &anyhow::Error) -> AppFaultKind {
    match error.downcast_ref() {
        Some(AgentFault::Model(_)) => return AppFaultKind::Model,
        Some(AgentFault::Tools(_)) => return AppFaultKind::Tools,
        Some(AgentFault::Tree { .. }) => return AppFaultKind::Invalid,
        None => {}
    }
    match error.downcast_ref() {
        Some(ConfigError::Read { .. } | ConfigError::Missing { .. }) => AppFaultKind::Unreadable,
        Some(ConfigError::Untrusted(_)) => AppFaultKind::Untrusted,
        Some(_) => AppFaultKind::Invalid,
        None => AppFaultKind::Other,
    }
}

/// Keeps the previous version in use, and reports each error once.
fn keep_previous(name: &str, fault: AppFault, previous: Option<LoadedApp>) -> LoadedApp {
    let previous = previous.unwrap_or(LoadedApp { app: None, files: Vec::new(), error: None });
    if previous.error.as_ref().is_none_or(|(reported, _)| *reported != fault) {
        let kept = if previous.app.is_some() { "; the previous version stays in use" } else { "" };
        screen::note(&format!("the app {name} cannot be loaded: {}{kept}", fault.reason));
    }
    LoadedApp { error: Some((fault, Instant::now())), ..previous }
}

/// ADK's message, without a path of this machine.
fn not_found(name: &str) -> AppLookupError {
    AppLookupError::NotFound(format!(
        "Agent not found: '{name}'. No matching directory or module exists in 'agents/{name}'."
    ))
}
