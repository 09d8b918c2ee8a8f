//! The apps that are served: read when they are first asked for, and again when their files change.

use crate::{
    config::{self, BUILT_IN_APP, ConfigError, ModelName, Settings},
    screen,
    wiring::{self, Plan},
};
use adk::trace::Trace;
use bridge::Turns;
use server::{AppLookupError, ServedApp};
use session::Store;
use std::{
    collections::HashMap,
    fs,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant, SystemTime},
};
use tokio::{runtime::Handle, sync::OnceCell, task};

/// How long a broken app is left alone before it is read again: the file that mends it may be one that it does not name yet.
const BROKEN: Duration = Duration::from_millis(500);

pub(crate) struct Apps {
    settings: Settings,
    /// Of agents that name none, once it is known.
    model: OnceCell<ModelName>,
    store: Arc<dyn Store>,
    /// Shared by all apps, also by the agents of an app that is read again.
    turns: Turns,
    trace: Trace,
    read: Mutex<HashMap<String, LoadedApp>>,
}

/// An app as it was read last.
struct LoadedApp {
    app: Option<Arc<ServedApp>>,
    files: Vec<(PathBuf, FileStamp)>,
    /// What is wrong with it now, and since when.
    broken: Option<(String, Instant)>,
}

/// Tells one content of a file from another.
type FileStamp = Option<(SystemTime, u64)>;

impl Apps {
    pub(crate) fn new(settings: Settings, store: Arc<dyn Store>, (turns, trace): (Turns, Trace)) -> Self {
        Self { settings, model: OnceCell::new(), store, turns, trace, read: Mutex::default() }
    }

    /// Looks for the model of agents that name none, if nobody has yet. That may take a moment, which no start waits for.
    pub(crate) async fn look(&self) -> &ModelName {
        let chosen = async {
            let (model, note) = wiring::chosen(&self.settings).await;
            if let Some(note) = note {
                screen::note(&note);
            }
            model
        };
        self.model.get_or_init(|| chosen).await
    }

    fn model(&self) -> &ModelName {
        let look = || Handle::current().block_on(self.look());
        self.model.get().unwrap_or_else(|| task::block_in_place(look))
    }

    fn read(
        &self,
        name: &str,
        model: &ModelName,
        before: Option<LoadedApp>,
    ) -> Result<LoadedApp, AppLookupError> {
        let plan = wiring::plan_with(&self.settings, name, model);
        let made = plan.and_then(|plan| self.make(plan));
        made.or_else(|error| match error.downcast_ref() {
            Some(ConfigError::UnknownApp { .. }) => Err(unknown(name)),
            _ => Ok(broken(name, &screen::sentence(&error), before)),
        })
    }

    fn make(&self, plan: Plan) -> anyhow::Result<LoadedApp> {
        let files = plan.files.iter().map(|path| (path.clone(), stamp(path))).collect();
        let wiring::App { name, agent, model, .. } =
            plan.open(Arc::clone(&self.store), self.trace.clone())?;
        let agent = agent.with_turns(self.turns.clone());
        Ok(LoadedApp { app: Some(Arc::new(ServedApp { name, agent, model })), files, broken: None })
    }
}

impl server::AppRegistry for Apps {
    /// The built-in app is there by its name, and in the list only if it is the only one.
    fn names(&self) -> Vec<String> {
        let names = config::apps(&self.settings.agents_dir);
        if names.is_empty() { vec![BUILT_IN_APP.to_owned()] } else { names }
    }

    fn find(&self, name: &str) -> Result<Arc<ServedApp>, AppLookupError> {
        // Not while others wait for the lock: the look needs a thread of theirs.
        let model = self.model();
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = read.get(name).filter(|known| known.is_fresh()) {
            return known.app();
        }
        let before = read.remove(name);
        let now = self.read(name, model, before)?;
        let app = now.app();
        read.insert(name.to_owned(), now);
        app
    }
}

impl LoadedApp {
    fn app(&self) -> Result<Arc<ServedApp>, AppLookupError> {
        let problem = || self.broken.as_ref().map(|(problem, _)| problem.clone()).unwrap_or_default();
        self.app.clone().ok_or_else(|| AppLookupError::Broken(problem()))
    }

    fn is_fresh(&self) -> bool {
        match &self.broken {
            Some((_, since)) => since.elapsed() < BROKEN,
            None => self.files.iter().all(|(path, was)| stamp(path) == *was),
        }
    }
}

/// The one from before stays, and people are told once.
fn broken(name: &str, problem: &str, before: Option<LoadedApp>) -> LoadedApp {
    let before = before.unwrap_or(LoadedApp { app: None, files: Vec::new(), broken: None });
    if before.broken.as_ref().is_none_or(|(told, _)| told != problem) {
        let stays = if before.app.is_some() { "; the one from before stays" } else { "" };
        screen::note(&format!("the app {name} is broken: {problem}{stays}"));
    }
    LoadedApp { broken: Some((problem.to_owned(), Instant::now())), ..before }
}

/// ADK's words, without a path of this machine.
fn unknown(name: &str) -> AppLookupError {
    AppLookupError::NotFound(format!(
        "Agent not found: '{name}'. No matching directory or module exists in 'agents/{name}'."
    ))
}

fn stamp(path: &PathBuf) -> FileStamp {
    let metadata = fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}
