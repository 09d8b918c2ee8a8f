//! A conversation with an agent of this process: its app, session and store.

use crate::{
    args::ConversationArgs,
    config::Settings,
    screen::View,
    wiring::{self, App, PlanOptions},
};
use adk::{
    content::Content,
    event::Event,
    pending::Question,
    runner::{RunConfig, RunRequest, StreamingMode},
    session::{Session, SessionKey, SessionService},
    trace::Trace,
};
use anyhow::anyhow;
use bridge::agent::collect::interrupted_answer;
use lock::LockExt;
use serde_json::{Map, Value};
use session::{ListQuery, SessionRow, Store, TailBudget};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use telemetry::Telemetry;
use tokio_util::sync::CancellationToken;
use tools::policy::ApprovalMode;

/// How long the program waits for the collector before it exits.
pub(crate) const TELEMETRY_FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// Records spans only if they are exported: a terminal has no other reader of them.
pub(crate) fn trace(telemetry: &Telemetry) -> Trace {
    if telemetry.is_exported() { telemetry.trace() } else { Trace::default() }
}

pub(crate) struct Conversation {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) app: App,
    pub(crate) key: SessionKey,
    config: RunConfig,
    /// Changes of the state that the next message makes.
    state_delta: Mutex<Map<String, Value>>,
    pub(crate) telemetry: Telemetry,
}

impl Conversation {
    pub(crate) async fn open(
        settings: &Settings,
        args: &ConversationArgs,
        attended: bool,
    ) -> anyhow::Result<Self> {
        let plan = wiring::plan(settings, PlanOptions { attended, ..args.plan_options() }).await?;
        let store = if args.last {
            wiring::existing_store(settings).await?.ok_or_else(|| nothing_to_continue(&plan.name))?
        } else {
            wiring::open_store(settings).await?
        };
        let telemetry = wiring::telemetry(settings)?;
        let app = plan.open(Arc::clone(&store), trace(&telemetry))?;
        let app = App { agent: app.agent.creating_sessions(), ..app };
        let mut key = SessionKey::new(&app.name, &settings.user, args.session.clone().unwrap_or_else(new_id));
        if args.last {
            let last = recent(&*store, &key, 1).await?.into_iter().next();
            key.session_id = last.ok_or_else(|| nothing_to_continue(&app.name))?.key.session_id;
        }
        let config = RunConfig { streaming: StreamingMode::Sse, ..RunConfig::default() };
        Ok(Self { store, app, key, config, state_delta: Mutex::default(), telemetry })
    }

    /// Exports the recorded spans.
    pub(crate) async fn close(&self) {
        self.telemetry.flush(TELEMETRY_FLUSH_TIMEOUT).await;
    }

    /// Sends a message and renders the events until the turn ends. Cancelling ends the turn, not the session.
    pub(crate) async fn send(
        &self,
        content: Content,
        view: &View,
        cancel: CancellationToken,
    ) -> anyhow::Result<()> {
        let request = RunRequest {
            config: self.config.clone(),
            cancel,
            state_delta: std::mem::take(&mut *self.state_delta.locked()),
            ..RunRequest::message(self.key.clone(), content)
        };
        let show = |event: &Event| view.show(event);
        let result = Box::pin(self.app.agent.run(request, &show)).await;
        view.finish(result.map_err(Into::into))
    }

    /// Continues the runs of a dead process, and renders them. Returns `false` if there are none.
    pub(crate) async fn continue_interrupted(
        &self,
        view: &View,
        cancel: CancellationToken,
    ) -> anyhow::Result<bool> {
        let (config, key) = (self.config.clone(), self.key.clone());
        let request = RunRequest { config, cancel, ..RunRequest::message(key, Content::default()) };
        let show = |event: &Event| view.show(event);
        let result = Box::pin(self.app.agent.continue_orphans(request, &show)).await;
        if let Ok(false) = result {
            return Ok(false);
        }
        view.finish(result.map(drop).map_err(Into::into)).map(|()| true)
    }

    /// Sets the mode, if the sandbox supports it. The next message stores that a person did so.
    pub(crate) async fn switch_mode(&self, mode: ApprovalMode) -> anyhow::Result<()> {
        let sandbox = self.app.sandbox.clone();
        let checked = tokio::task::spawn_blocking(move || sandbox.get().capability.check_mode(mode)).await?;
        checked.map_err(|why| anyhow!(why))?;
        self.app.mode.set(mode);
        self.state_delta.locked().extend(bridge::tools::mode::state_delta(mode));
        Ok(())
    }

    /// The shown part of the last answer, if it was interrupted.
    pub(crate) async fn interrupted_answer(&self) -> anyhow::Result<Option<String>> {
        let session = self.app.agent.sessions().get(&self.key).await?;
        Ok(session.and_then(|session| interrupted_answer(session.events().iter().map(AsRef::as_ref))))
    }

    /// The session as it is stored; `None` before its first message.
    pub(crate) async fn row(&self) -> anyhow::Result<Option<SessionRow>> {
        Ok(self.store.load(&self.key, TailBudget::NONE).await?.map(|found| found.row))
    }

    /// Whether an answer may be discarded and begin again: only a model with other agents can name one that does not exist.
    pub(crate) fn may_start_over(&self) -> bool {
        self.app.agent.tree().nodes().nth(1).is_some()
    }

    /// Whether the question is one for input whose call was interrupted.
    pub(crate) fn is_interrupted(&self, question: &Question) -> bool {
        question.request.input().is_some() && !self.app.agent.awaits_input(&self.key, question)
    }

    /// The questions that wait for an answer.
    pub(crate) async fn questions(&self) -> anyhow::Result<Vec<Question>> {
        let session = self.app.agent.sessions().get(&self.key).await?;
        Ok(session.map(|session| session.pending().questions.clone()).unwrap_or_default())
    }
}

impl ConversationArgs {
    pub(crate) fn plan_options(&self) -> PlanOptions<'_> {
        PlanOptions {
            app: self.app.as_deref(),
            model: self.model.as_deref(),
            reasoning: self.reasoning,
            mode: self.mode,
            attended: false,
            served: false,
        }
    }
}

fn nothing_to_continue(app: &str) -> anyhow::Error {
    anyhow!("there is no session of {app} to continue; omit --continue to start one")
}

/// A session id of 48 random bits: short enough to type, long enough to avoid collisions.
pub(crate) fn new_id() -> String {
    uuid::Uuid::new_v4().simple().to_string()[..12].to_owned()
}

/// The sessions of the same app and user, most recent first.
pub(crate) async fn recent(
    store: &dyn Store,
    key: &SessionKey,
    limit: usize,
) -> anyhow::Result<Vec<SessionRow>> {
    let (app, user) = (Some(key.app_name.clone()), Some(key.user_id.clone()));
    Ok(store.list(ListQuery { app, user, limit, ..ListQuery::default() }).await?)
}
