//! The client of a lango server: the agent runs on the server, and its runs continue if the client disconnects.
//!
//! **Invariant.** A message is executed once, even if the connection is lost: its idempotency key makes a repeated request the
//! same run. Reading resumes after the last event shown, so that no event is shown twice.

mod address;
mod answer;
mod follow;
mod http;

pub(crate) use address::Address;

use crate::{config::Settings, screen::View};
use adk::{
    content::Content,
    event::Event,
    pending::{PendingWork, Question},
    session::SessionKey,
};
use anyhow::bail;
use bridge::{
    agent::{
        collect::interrupted_answer,
        context::{Compaction, ContextReport},
    },
    store::usage_report::SessionUsage,
    tools::mode::SESSION_MODE,
};
use follow::FollowedRun;
use http::Http;
use lock::LockExt;
use reqwest::{Method, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::{Mutex, MutexGuard};
use tokio_util::sync::CancellationToken;
use tools::policy::ApprovalMode;

/// The number of events that are loaded when a session is resumed: open questions are at its end.
const LOADED_EVENTS: u32 = 200;

pub(crate) struct Remote {
    http: Http,
    pub(crate) key: SessionKey,
    /// The pending work of the session, derived from its events.
    pending: Mutex<PendingWork>,
    /// The run that was read last.
    followed: Mutex<Option<FollowedRun>>,
    interrupted: Mutex<Option<String>>,
}

/// The run that a message started or continues.
struct StartedRun {
    id: String,
    /// The id of the last event before the message, if the message continues the run.
    after: Option<String>,
}

/// A session of a list.
#[derive(Debug, Deserialize)]
pub(crate) struct ListedSession {
    pub(crate) id: String,
    #[serde(rename = "lastUpdateTime")]
    pub(crate) updated: f64,
}

#[derive(Deserialize)]
struct Whoami {
    user: Option<String>,
}

#[derive(Deserialize)]
struct StoredSession {
    #[serde(default)]
    events: Vec<Event>,
}

impl Remote {
    /// Queries the authenticated user and the agents of the server. The session need not exist.
    pub(crate) async fn open(
        settings: &Settings,
        address: &Address,
        app: Option<&str>,
        session: String,
    ) -> anyhow::Result<Self> {
        let http = Http::new(settings, address)?;
        let whoami: Whoami = http.get("/whoami").await?;
        let apps: Vec<String> = http.get("/list-apps").await?;
        let app = select_app(app.or(settings.app.as_deref()), &apps)?;
        let user = whoami.user.unwrap_or_else(|| settings.user.clone());
        let key = SessionKey::new(app, user, session);
        Ok(Self {
            http,
            key,
            pending: Mutex::default(),
            followed: Mutex::default(),
            interrupted: Mutex::default(),
        })
    }

    pub(crate) fn address(&self) -> &str {
        self.http.address()
    }

    /// The sessions of the same app and user, most recent first.
    pub(crate) async fn sessions(&self) -> anyhow::Result<Vec<ListedSession>> {
        let mut listed: Vec<ListedSession> = self.http.get(&self.user_path("/sessions")).await?;
        listed.sort_by(|one, other| other.updated.total_cmp(&one.updated));
        Ok(listed)
    }

    /// Switches to another session, which need not exist.
    pub(crate) fn select_session(&mut self, session: String) {
        self.key.session_id = session;
        *self.pending() = PendingWork::default();
        *self.followed() = None;
    }

    /// Loads the pending work and the interrupted answer of the session. Returns `false` if the session does not exist.
    pub(crate) async fn load(&self) -> anyhow::Result<bool> {
        let path = format!("{}?last={LOADED_EVENTS}", self.session_path(""));
        let Some(stored) = self.http.find::<StoredSession>(&path).await? else { return Ok(false) };
        *self.pending() = PendingWork::default();
        stored.events.iter().for_each(|event| self.track_pending(event));
        *self.interrupted.locked() = interrupted_answer(stored.events.iter());
        Ok(true)
    }

    /// The shown part of the last answer, if it was interrupted when the session was loaded.
    pub(crate) fn interrupted_answer(&self) -> Option<String> {
        self.interrupted.locked().take()
    }

    pub(crate) fn questions(&self) -> Vec<Question> {
        self.pending().questions.clone()
    }

    /// Sends a message and renders the events until the run ends. Cancelling cancels the run on the server.
    pub(crate) async fn send(
        &self,
        content: Content,
        view: &View,
        cancel: CancellationToken,
    ) -> anyhow::Result<()> {
        let sent = match self.start_run(&content).await {
            Ok(run) => self.follow(run, view, &cancel).await,
            Err(refused) => Err(refused),
        };
        view.finish(if answer::is_answer(&content) {
            self.after_answer(&content, sent, view, &cancel).await
        } else {
            sent
        })
    }

    /// Starts a run with the message. If the session does not exist, creates it and sends the message again.
    async fn start_run(&self, content: &Content) -> anyhow::Result<StartedRun> {
        let body = json!({"newMessage": content, "streaming": true});
        let runs = self.session_path("/runs");
        let mut answer = self.http.send_once(&runs, &body).await?;
        if answer.status() == StatusCode::NOT_FOUND {
            self.create_session().await?;
            answer = self.http.send_once(&runs, &body).await?;
        }
        let is_conflict = answer.status() == StatusCode::CONFLICT && answer::is_answer(content);
        let run: Value = match self.http.read(answer).await {
            Err(refused) if is_conflict => bail!(answer::NoOpenQuestion(refused.to_string())),
            read => read?,
        };
        match run["id"].as_str() {
            Some(id) => {
                let after = run["lastEventId"].as_str().map(str::to_owned);
                Ok(StartedRun { id: id.to_owned(), after })
            }
            None => bail!("{} returned no run id; is it a lango server?", self.address()),
        }
    }

    /// Sets the mode of the session. Only an administrator may.
    pub(crate) async fn switch_mode(&self, mode: ApprovalMode) -> anyhow::Result<()> {
        self.create_session().await?;
        let body = json!({"stateDelta": {SESSION_MODE: mode}});
        let answer = self.http.send(Method::PATCH, &self.session_path(""), Some(&body)).await?;
        self.http.check_status(answer).await.map(drop)
    }

    /// What the next request of the session would show; `None` if the session does not exist.
    pub(crate) async fn context(&self) -> anyhow::Result<Option<ContextReport>> {
        self.http.find(&self.session_path("/context")).await
    }

    /// The usage of the session; `None` if it does not exist.
    pub(crate) async fn usage(&self) -> anyhow::Result<Option<SessionUsage>> {
        self.http.find(&self.session_path("/usage")).await
    }

    /// Advances the window of the session; `None` if it does not exist.
    pub(crate) async fn compact(&self) -> anyhow::Result<Option<Compaction>> {
        let answer = self.http.send(Method::POST, &self.session_path("/compact"), Some(&json!({}))).await?;
        if answer.status() == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        self.http.read(answer).await.map(Some)
    }

    async fn create_session(&self) -> anyhow::Result<()> {
        let answer = self.http.send(Method::POST, &self.session_path(""), Some(&json!({}))).await?;
        // Another client has created it.
        if answer.status() == StatusCode::CONFLICT {
            return Ok(());
        }
        self.http.check_status(answer).await.map(drop)
    }

    fn track_pending(&self, event: &Event) {
        if event.is_partial() {
            return;
        }
        let mut pending = self.pending();
        for change in pending.changes(event) {
            pending.apply(&change);
        }
    }

    fn pending(&self) -> MutexGuard<'_, PendingWork> {
        self.pending.locked()
    }

    fn followed(&self) -> MutexGuard<'_, Option<FollowedRun>> {
        self.followed.locked()
    }

    fn user_path(&self, rest: &str) -> String {
        let SessionKey { app_name, user_id, .. } = &self.key;
        format!("/apps/{}/users/{}{rest}", address::segment(app_name), address::segment(user_id))
    }

    fn session_path(&self, rest: &str) -> String {
        self.user_path(&format!("/sessions/{}{rest}", address::segment(&self.key.session_id)))
    }
}

/// The named agent, or the only one.
fn select_app(wanted: Option<&str>, apps: &[String]) -> anyhow::Result<String> {
    let all = apps.join(", ");
    match (wanted, apps) {
        (Some(wanted), _) if apps.iter().any(|app| app == wanted) => Ok(wanted.to_owned()),
        (Some(wanted), _) => bail!("the server has no agent {wanted}; it has {all}"),
        (None, [only]) => Ok(only.clone()),
        (None, []) => bail!("the server has no agents"),
        (None, _) => bail!("the server has several agents, {all}: choose one with --app"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_agent_is_the_default() {
        let (one, two) = (["a".to_owned()], ["a".to_owned(), "b".to_owned()]);
        assert_eq!(select_app(None, &one).unwrap(), "a");
        assert_eq!(select_app(Some("b"), &two).unwrap(), "b");
        let error = |wanted, apps: &[String]| select_app(wanted, apps).unwrap_err().to_string();
        assert_eq!(error(None, &two), "the server has several agents, a, b: choose one with --app");
        assert_eq!(error(Some("c"), &two), "the server has no agent c; it has a, b");
        assert_eq!(error(None, &[]), "the server has no agents");
    }
}
