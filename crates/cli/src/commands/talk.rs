//! A conversation: an app, a session, and messages to it.

use crate::{
    args::Talk,
    config::Settings,
    screen::View,
    wiring::{self, App},
};
use adk::{
    content::{Content, FunctionResponse, Part},
    event::Event,
    facts::{Question, REQUEST_CONFIRMATION},
    runner::{RunConfig, RunRequest, StreamingMode},
    session::{Session, SessionKey, SessionService},
};
use anyhow::Context;
use serde_json::{Map, json};
use session::{ListQuery, SessionRow, Store};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

pub(crate) struct Conversation {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) app: App,
    pub(crate) key: SessionKey,
}

impl Conversation {
    pub(crate) async fn open(settings: &Settings, talk: &Talk) -> anyhow::Result<Self> {
        let store = wiring::open_store(settings)?;
        let app = wiring::app(settings, Arc::clone(&store), talk.app.as_deref(), talk.model.as_deref())?;
        let id = match &talk.session {
            Some(id) => id.clone(),
            None if talk.last => {
                let last = recent(&*store, &app.name, &settings.user, 1).await?.into_iter().next();
                let last =
                    last.with_context(|| format!("there is no session of {} to continue yet", app.name))?;
                last.key.session
            }
            None => uuid::Uuid::new_v4().to_string(),
        };
        let key = SessionKey::new(&app.name, &settings.user, id);
        Ok(Self { store, app, key })
    }

    /// Sends a message and shows what happens until the turn ends. Cancelling stops the turn; the session goes on.
    pub(crate) async fn send(
        &self,
        content: Content,
        view: &View,
        cancel: CancellationToken,
    ) -> anyhow::Result<()> {
        self.app.agent.sessions().get_or_create(&self.key).await?;
        let request = RunRequest {
            config: RunConfig { streaming: StreamingMode::Sse, ..RunConfig::default() },
            cancel,
            ..RunRequest::message(self.key.clone(), content)
        };
        let show = |event: &Event| view.show(event);
        let result = self.app.agent.run(request, &show).await;
        view.end_turn(result.is_err())?;
        Ok(result?)
    }

    /// What waits for a person's word.
    pub(crate) async fn questions(&self) -> anyhow::Result<Vec<Question>> {
        let session = self.app.agent.sessions().get(&self.key).await?;
        Ok(session.map(|session| session.facts().questions.clone()).unwrap_or_default())
    }
}

/// The answer to a question, as a message.
pub(crate) fn answer(question: &Question, confirmed: bool) -> Content {
    let response = FunctionResponse {
        id: Some(question.id.clone()),
        name: REQUEST_CONFIRMATION.to_owned(),
        response: json!({"confirmed": confirmed}).as_object().cloned(),
        extra: Map::new(),
    };
    Content::new("user", vec![Part::from(response)])
}

/// The sessions of an app, the last used first.
pub(crate) async fn recent(
    store: &dyn Store,
    app: &str,
    user: &str,
    limit: usize,
) -> anyhow::Result<Vec<SessionRow>> {
    let query = ListQuery { app: Some(app.to_owned()), user: Some(user.to_owned()), after: None, limit };
    Ok(store.list(query).await?)
}
