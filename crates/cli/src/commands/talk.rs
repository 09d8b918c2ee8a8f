//! Which session a command talks to.

use crate::{
    args::Talk,
    config::Settings,
    wiring::{self, App},
};
use adk::session::SessionKey;
use anyhow::Context;
use session::{ListQuery, Store};
use std::sync::Arc;

/// An app and the session to go on with, which exists.
pub(crate) struct Conversation {
    pub(crate) app: App,
    pub(crate) key: SessionKey,
}

pub(crate) async fn open(settings: &Settings, talk: &Talk) -> anyhow::Result<Conversation> {
    let store = wiring::open_store(settings)?;
    let app = wiring::app(settings, Arc::clone(&store), talk.app.as_deref(), talk.model.as_deref())?;
    let id = match &talk.session {
        Some(id) => id.clone(),
        None if talk.last => last_used(&*store, &app.name, &settings.user)
            .await?
            .with_context(|| format!("there is no session of {} to continue yet", app.name))?,
        None => uuid::Uuid::new_v4().to_string(),
    };
    let key = SessionKey::new(&app.name, &settings.user, id);
    app.agent.sessions().get_or_create(&key).await?;
    Ok(Conversation { app, key })
}

async fn last_used(store: &dyn Store, app: &str, user: &str) -> anyhow::Result<Option<String>> {
    let query = ListQuery { app: Some(app.to_owned()), user: Some(user.to_owned()), after: None, limit: 1 };
    Ok(store.list(query).await?.into_iter().next().map(|row| row.key.session))
}
