//! With whom the terminal talks: an agent in this process, or one at a server.

use crate::{
    args::ChatArgs,
    commands::{
        sessions,
        talk::{Conversation, new_id, recent, trace},
    },
    config::Settings,
    remote::Remote,
    screen::{View, one_line, printable},
    wiring::{self, Wanted},
};
use adk::{content::Content, pending::Question, session::SessionKey};
use anyhow::{anyhow, bail};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// How many sessions a list shows, and how many are looked through for one that is named.
const LISTED: usize = 10;
const LOOKED_THROUGH: usize = 1_000;

pub(super) enum Peer {
    Here(Box<Conversation>),
    There(Box<Remote>),
}

impl Peer {
    pub(super) async fn open(settings: &Settings, chat: &ChatArgs, attended: bool) -> anyhow::Result<Self> {
        let Some(address) = &chat.server else {
            return Ok(Self::Here(Box::new(Conversation::open(settings, &chat.talk, attended).await?)));
        };
        let talk = &chat.talk;
        let session = talk.session.clone().unwrap_or_else(new_id);
        let mut remote = Remote::open(settings, address, talk.app.as_deref(), session).await?;
        if talk.last {
            let last = remote.sessions().await?.into_iter().next();
            let nothing = || anyhow!("there is no session to continue; leave --continue out to begin one");
            remote.enter(last.ok_or_else(nothing)?.id);
        }
        Ok(Self::There(Box::new(remote)))
    }

    /// Who answers, as the first line says it.
    pub(super) fn introduction(&self) -> String {
        match self {
            Self::Here(here) => format!("agent {} · model {}", here.app.name, here.app.model),
            Self::There(there) => format!("agent {} · server {}", there.key.app_name, there.address()),
        }
    }

    /// What there is to know about the choice of its model.
    pub(super) fn note(&self) -> Option<&str> {
        match self {
            Self::Here(here) => here.app.note.as_deref(),
            Self::There(_) => None,
        }
    }

    pub(super) fn is_demo(&self) -> bool {
        matches!(self, Self::Here(here) if here.app.model == "demo")
    }

    /// How an older session is called; `None` for one that is new.
    pub(super) async fn title(&self) -> anyhow::Result<Option<String>> {
        match self {
            Self::Here(here) => {
                let row = here.row().await?;
                Ok(row.map(|row| row.title.unwrap_or_else(|| "(nothing said yet)".to_owned())))
            }
            Self::There(there) => Ok(there.take_up().await?.then(|| there.key.session_id.clone())),
        }
    }

    /// Continues what a process left unanswered when it died; a server does that by itself. `false` if there is nothing.
    pub(super) async fn continue_interrupted(
        &self,
        view: &View,
        cancel: CancellationToken,
    ) -> anyhow::Result<bool> {
        match self {
            Self::Here(here) => here.continue_interrupted(view, cancel).await,
            Self::There(_) => Ok(false),
        }
    }

    /// The shown part of the last answer, if it was interrupted.
    pub(super) async fn interrupted_answer(&self) -> anyhow::Result<Option<String>> {
        match self {
            Self::Here(here) => here.interrupted_answer().await,
            Self::There(there) => Ok(there.interrupted_answer()),
        }
    }

    pub(super) async fn send(
        &self,
        content: Content,
        view: &View,
        cancel: CancellationToken,
    ) -> anyhow::Result<()> {
        match self {
            Self::Here(here) => here.send(content, view, cancel).await,
            Self::There(there) => there.send(content, view, cancel).await,
        }
    }

    pub(super) async fn questions(&self) -> anyhow::Result<Vec<Question>> {
        match self {
            Self::Here(here) => here.questions().await,
            Self::There(there) => Ok(there.questions()),
        }
    }

    /// The sessions so far, a line for each, with a mark at this one.
    pub(super) async fn list(&self) -> anyhow::Result<Vec<String>> {
        let marked = |id: &str, own: &str, line: String| {
            let here = if id == own { "›" } else { " " };
            format!("{here} {line}")
        };
        match self {
            Self::Here(here) => {
                let rows = recent(&*here.store, &here.key, LISTED).await?;
                let lines = rows.iter().zip(sessions::lines(&rows));
                Ok(lines.map(|(row, line)| marked(&row.key.session, &here.key.session_id, line)).collect())
            }
            Self::There(there) => {
                let line = |id: &str, updated| format!("{}  {}", printable(id), sessions::when(updated));
                let listed = there.sessions().await?.into_iter().take(LISTED);
                let own = &there.key.session_id;
                Ok(listed.map(|found| marked(&found.id, own, line(&found.id, found.updated))).collect())
            }
        }
    }

    /// The ids of sessions that begin so.
    pub(super) async fn named(&self, beginning: &str) -> anyhow::Result<Vec<String>> {
        let ids: Vec<String> = match self {
            Self::Here(here) => {
                let rows = recent(&*here.store, &here.key, LOOKED_THROUGH).await?;
                rows.into_iter().map(|row| row.key.session).collect()
            }
            Self::There(there) => there.sessions().await?.into_iter().map(|found| found.id).collect(),
        };
        Ok(ids.into_iter().filter(|id| id.starts_with(beginning)).collect())
    }

    pub(super) fn enter(&mut self, session: String) {
        match self {
            Self::Here(here) => {
                here.key = SessionKey::new(&here.key.app_name, &here.key.user_id, session);
            }
            Self::There(there) => there.enter(session),
        }
    }

    pub(super) fn model(&self) -> String {
        match self {
            Self::Here(here) => format!("the model is {}", here.app.model),
            Self::There(_) => "the server chooses the model".to_owned(),
        }
    }

    /// What was recorded here is sent before the program ends.
    pub(super) async fn close(&self) {
        if let Self::Here(here) = self {
            here.close().await;
        }
    }

    /// Lets another model answer from here on.
    pub(super) async fn switch(&mut self, settings: &Settings, wanted: Wanted<'_>) -> anyhow::Result<()> {
        match self {
            Self::Here(here) => {
                let plan = wiring::plan(settings, wanted).await?;
                here.app = plan.open(Arc::clone(&here.store), trace(&here.telemetry))?;
                Ok(())
            }
            Self::There(there) => {
                let address = one_line(there.address(), 80);
                bail!("{address} chooses the model: it is in the server's lango.toml")
            }
        }
    }
}
