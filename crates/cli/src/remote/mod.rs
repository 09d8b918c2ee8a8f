//! A server of ours, as its clients see it: the agent runs there, and goes on if we leave.
//!
//! **Invariant.** A message is sent once, whatever becomes of the connection: it carries a key that makes a repeated request
//! the same run. The run is read from where we were, so that nothing is shown twice.

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
use bridge::agent::collect::interrupted_answer;
use follow::Followed;
use http::Http;
use reqwest::{Method, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio_util::sync::CancellationToken;

/// How far back a session is looked at when it is taken up: what waits for a person's word is at its end.
const LOOK_BACK: u32 = 200;

pub(crate) struct Remote {
    http: Http,
    pub(crate) key: SessionKey,
    /// What the events so far say is open.
    facts: Mutex<PendingWork>,
    /// The run that was read last.
    followed: Mutex<Option<Followed>>,
    interrupted: Mutex<Option<String>>,
}

/// A run that a message became.
struct Begun {
    id: String,
    /// What was stored of it before the message, if the message continues it.
    after: Option<String>,
}

/// A session as a list shows it.
#[derive(Debug, Deserialize)]
pub(crate) struct Listed {
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
    /// Asks the server who we are to it and which agents it has. The session has the id that is given.
    pub(crate) async fn open(
        settings: &Settings,
        address: &Address,
        app: Option<&str>,
        session: String,
    ) -> anyhow::Result<Self> {
        let http = Http::new(settings, address)?;
        let whoami: Whoami = http.get("/whoami").await?;
        let apps: Vec<String> = http.get("/list-apps").await?;
        let app = chosen(app.or(settings.app.as_deref()), &apps)?;
        let user = whoami.user.unwrap_or_else(|| settings.user.clone());
        let key = SessionKey::new(app, user, session);
        Ok(Self {
            http,
            key,
            facts: Mutex::default(),
            followed: Mutex::default(),
            interrupted: Mutex::default(),
        })
    }

    pub(crate) fn address(&self) -> &str {
        self.http.shown()
    }

    /// The sessions of the same app and user, the last used first.
    pub(crate) async fn sessions(&self) -> anyhow::Result<Vec<Listed>> {
        let mut listed: Vec<Listed> = self.http.get(&self.of_user("/sessions")).await?;
        listed.sort_by(|one, other| other.updated.total_cmp(&one.updated));
        Ok(listed)
    }

    /// Goes to another session, which need not be there yet.
    pub(crate) fn enter(&mut self, session: String) {
        self.key.session_id = session;
        *self.facts() = PendingWork::default();
        *self.followed() = None;
    }

    /// Looks at where the session stands. `false` if it is not there yet.
    pub(crate) async fn take_up(&self) -> anyhow::Result<bool> {
        let path = format!("{}?last={LOOK_BACK}", self.of_session(""));
        let Some(stored) = self.http.find::<StoredSession>(&path).await? else { return Ok(false) };
        *self.facts() = PendingWork::default();
        stored.events.iter().for_each(|event| self.note(event));
        *self.interrupted.lock().unwrap_or_else(PoisonError::into_inner) =
            interrupted_answer(stored.events.iter());
        Ok(true)
    }

    /// The shown part of the last answer, if it was interrupted when the session was taken up.
    pub(crate) fn interrupted_answer(&self) -> Option<String> {
        self.interrupted.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(crate) fn questions(&self) -> Vec<Question> {
        self.facts().questions.clone()
    }

    /// Sends a message and shows what happens until the run ends. Cancelling ends the run at the server.
    pub(crate) async fn send(
        &self,
        content: Content,
        view: &View,
        cancel: CancellationToken,
    ) -> anyhow::Result<()> {
        let sent = match self.begin(&content).await {
            Ok(begun) => self.follow(begun, view, &cancel).await,
            Err(refused) => Err(refused),
        };
        view.ended(if answer::is_answer(&content) {
            self.after_answer(&content, sent, view, &cancel).await
        } else {
            sent
        })
    }

    /// The run that the message became. A session that is not there is made, and the message sent again.
    async fn begin(&self, content: &Content) -> anyhow::Result<Begun> {
        let body = json!({"newMessage": content, "streaming": true});
        let runs = self.of_session("/runs");
        let mut answer = self.http.send_once(&runs, &body).await?;
        if answer.status() == StatusCode::NOT_FOUND {
            self.make_session().await?;
            answer = self.http.send_once(&runs, &body).await?;
        }
        let is_conflict = answer.status() == StatusCode::CONFLICT && answer::is_answer(content);
        let run: Value = match self.http.read(answer).await {
            Err(refused) if is_conflict => bail!(answer::Unasked(refused.to_string())),
            read => read?,
        };
        match run["id"].as_str() {
            Some(id) => {
                let after = run["lastEventId"].as_str().map(str::to_owned);
                Ok(Begun { id: id.to_owned(), after })
            }
            None => bail!("{} did not say which run the message became; is it lango?", self.address()),
        }
    }

    async fn make_session(&self) -> anyhow::Result<()> {
        let answer = self.http.send(Method::POST, &self.of_session(""), Some(&json!({}))).await?;
        // Somebody else was faster.
        if answer.status() == StatusCode::CONFLICT {
            return Ok(());
        }
        self.http.sound(answer).await.map(drop)
    }

    fn note(&self, event: &Event) {
        if event.is_partial() {
            return;
        }
        let mut facts = self.facts();
        for change in facts.changes(event) {
            facts.apply(&change);
        }
    }

    fn facts(&self) -> MutexGuard<'_, PendingWork> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn followed(&self) -> MutexGuard<'_, Option<Followed>> {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn of_user(&self, rest: &str) -> String {
        let SessionKey { app_name, user_id, .. } = &self.key;
        format!("/apps/{}/users/{}{rest}", address::segment(app_name), address::segment(user_id))
    }

    fn of_session(&self, rest: &str) -> String {
        self.of_user(&format!("/sessions/{}{rest}", address::segment(&self.key.session_id)))
    }
}

/// The agent that is asked for, or the only one.
fn chosen(wanted: Option<&str>, apps: &[String]) -> anyhow::Result<String> {
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
    fn the_only_agent_need_not_be_named() {
        let (one, two) = (["a".to_owned()], ["a".to_owned(), "b".to_owned()]);
        assert_eq!(chosen(None, &one).unwrap(), "a");
        assert_eq!(chosen(Some("b"), &two).unwrap(), "b");
        let told = |wanted, apps: &[String]| chosen(wanted, apps).unwrap_err().to_string();
        assert_eq!(told(None, &two), "the server has several agents, a, b: choose one with --app");
        assert_eq!(told(Some("c"), &two), "the server has no agent c; it has a, b");
        assert_eq!(told(None, &[]), "the server has no agents");
    }
}
