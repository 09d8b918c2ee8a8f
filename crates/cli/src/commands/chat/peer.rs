//! The peer of a chat: an agent in this process, or one on a server.

use crate::{
    args::ChatArgs,
    commands::{
        conversation::{Conversation, new_id, recent, trace},
        sessions,
    },
    config::Settings,
    remote::Remote,
    screen::{View, one_line, printable},
    wiring::{self, PlanOptions},
};
use adk::{content::Content, pending::Question, session::SessionKey};
use anyhow::{anyhow, bail};
use bridge::keep_indexed;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use tools::policy::ApprovalMode;

/// The number of sessions in a list.
const LIST_LIMIT: usize = 10;
/// The number of recent sessions that are searched for an id.
const SEARCH_LIMIT: usize = 1_000;

pub(super) enum Peer {
    Local(Box<Conversation>),
    Remote(Box<Remote>),
}

impl Peer {
    pub(super) async fn open(settings: &Settings, chat: &ChatArgs, attended: bool) -> anyhow::Result<Self> {
        let Some(address) = &chat.server else {
            let local = Conversation::open(settings, &chat.conversation, attended).await?;
            tokio::spawn(keep_indexed(Arc::clone(&local.store)));
            return Ok(Self::Local(Box::new(local)));
        };
        let args = &chat.conversation;
        let session = args.session.clone().unwrap_or_else(new_id);
        let mut remote = Remote::open(settings, address, args.app.as_deref(), session).await?;
        if args.last {
            let last = remote.sessions().await?.into_iter().next();
            let none = || anyhow!("there is no session to continue; omit --continue to start one");
            remote.select_session(last.ok_or_else(none)?.id);
        }
        Ok(Self::Remote(Box::new(remote)))
    }

    /// The agent and its model or server, for the first line.
    pub(super) fn introduction(&self) -> String {
        match self {
            Self::Local(local) => format!("agent {} · model {}", local.app.name, local.app.model),
            Self::Remote(remote) => format!("agent {} · server {}", remote.key.app_name, remote.address()),
        }
    }

    /// A notice about the choice of the model.
    pub(super) fn note(&self) -> Option<&str> {
        match self {
            Self::Local(local) => local.app.note.as_deref(),
            Self::Remote(_) => None,
        }
    }

    pub(super) fn is_demo(&self) -> bool {
        matches!(self, Self::Local(local) if local.app.model == "demo")
    }

    /// The title of the session; `None` if it does not exist yet.
    pub(super) async fn title(&self) -> anyhow::Result<Option<String>> {
        match self {
            Self::Local(local) => {
                let row = local.row().await?;
                Ok(row.map(|row| row.title.unwrap_or_else(|| "(no messages yet)".to_owned())))
            }
            Self::Remote(remote) => Ok(remote.load().await?.then(|| remote.key.session_id.clone())),
        }
    }

    /// Continues the runs of a dead process. A server does that by itself. Returns `false` if there are none.
    pub(super) async fn continue_interrupted(
        &self,
        view: &View,
        cancel: CancellationToken,
    ) -> anyhow::Result<bool> {
        match self {
            Self::Local(local) => local.continue_interrupted(view, cancel).await,
            Self::Remote(_) => Ok(false),
        }
    }

    /// The shown part of the last answer, if it was interrupted.
    pub(super) async fn interrupted_answer(&self) -> anyhow::Result<Option<String>> {
        match self {
            Self::Local(local) => local.interrupted_answer().await,
            Self::Remote(remote) => Ok(remote.interrupted_answer()),
        }
    }

    pub(super) async fn send(
        &self,
        content: Content,
        view: &View,
        cancel: CancellationToken,
    ) -> anyhow::Result<()> {
        match self {
            Self::Local(local) => local.send(content, view, cancel).await,
            Self::Remote(remote) => remote.send(content, view, cancel).await,
        }
    }

    pub(super) async fn questions(&self) -> anyhow::Result<Vec<Question>> {
        match self {
            Self::Local(local) => local.questions().await,
            Self::Remote(remote) => Ok(remote.questions()),
        }
    }

    /// Whether an answer may be discarded and begin again. The agents of a server are not known.
    pub(super) fn may_start_over(&self) -> bool {
        match self {
            Self::Local(local) => local.may_start_over(),
            Self::Remote(_) => true,
        }
    }

    /// Whether the question is one for input whose call was interrupted. A server finds that out with the answer.
    pub(super) fn is_interrupted(&self, question: &Question) -> bool {
        match self {
            Self::Local(local) => local.is_interrupted(question),
            Self::Remote(_) => false,
        }
    }

    /// One line for each recent session, with a mark at the current one.
    pub(super) async fn list(&self) -> anyhow::Result<Vec<String>> {
        let marked = |id: &str, current: &str, line: String| {
            let mark = if id == current { "›" } else { " " };
            format!("{mark} {line}")
        };
        match self {
            Self::Local(local) => {
                let rows = recent(&*local.store, &local.key, LIST_LIMIT).await?;
                let lines = rows.iter().zip(sessions::lines(&rows));
                Ok(lines
                    .map(|(row, line)| marked(&row.key.session_id, &local.key.session_id, line))
                    .collect())
            }
            Self::Remote(remote) => {
                let line = |id: &str, updated| format!("{}  {}", printable(id), sessions::when(updated));
                let listed = remote.sessions().await?.into_iter().take(LIST_LIMIT);
                let current = &remote.key.session_id;
                Ok(listed.map(|found| marked(&found.id, current, line(&found.id, found.updated))).collect())
            }
        }
    }

    /// The ids of recent sessions that begin with `prefix`.
    pub(super) async fn session_ids(&self, prefix: &str) -> anyhow::Result<Vec<String>> {
        let ids: Vec<String> = match self {
            Self::Local(local) => {
                let rows = recent(&*local.store, &local.key, SEARCH_LIMIT).await?;
                rows.into_iter().map(|row| row.key.session_id).collect()
            }
            Self::Remote(remote) => remote.sessions().await?.into_iter().map(|found| found.id).collect(),
        };
        Ok(ids.into_iter().filter(|id| id.starts_with(prefix)).collect())
    }

    pub(super) fn select_session(&mut self, session: String) {
        match self {
            Self::Local(local) => {
                local.key = SessionKey::new(&local.key.app_name, &local.key.user_id, session);
            }
            Self::Remote(remote) => remote.select_session(session),
        }
    }

    pub(super) fn model(&self) -> String {
        match self {
            Self::Local(local) => format!("the model is {}", local.app.model),
            Self::Remote(_) => "the server chooses the model".to_owned(),
        }
    }

    pub(super) fn mode(&self) -> String {
        match self {
            Self::Local(local) => format!("the mode is {}", local.app.mode.get()),
            Self::Remote(_) => {
                "the server's operator chooses the mode; an administrator can set that of this session"
                    .to_owned()
            }
        }
    }

    /// The mode of the agent in this process.
    pub(super) fn local_mode(&self) -> Option<ApprovalMode> {
        match self {
            Self::Local(local) => Some(local.app.mode.get()),
            Self::Remote(_) => None,
        }
    }

    /// Sets the mode: of this process, or as an administrator of a server, of this session. Returns a notice.
    pub(super) async fn switch_mode(&self, mode: ApprovalMode) -> anyhow::Result<String> {
        match self {
            Self::Local(local) => local.switch_mode(mode).await?,
            Self::Remote(remote) => remote.switch_mode(mode).await?,
        }
        Ok(format!("the mode is {mode}"))
    }

    /// Exports the recorded spans.
    pub(super) async fn close(&self) {
        if let Self::Local(local) = self {
            local.close().await;
        }
    }

    /// Switches to another model. Fails for a server, which chooses the model itself.
    pub(super) async fn switch_model(
        &mut self,
        settings: &Settings,
        options: PlanOptions<'_>,
    ) -> anyhow::Result<()> {
        match self {
            Self::Local(local) => {
                let plan = wiring::plan(settings, options).await?;
                local.app = plan.open(Arc::clone(&local.store), trace(&local.telemetry))?;
                Ok(())
            }
            Self::Remote(remote) => {
                let address = one_line(remote.address(), 80);
                bail!("{address} chooses the model: change it in the server's lango.toml")
            }
        }
    }
}
