//! Answers to approval questions. A question may be open in several clients; the first answer wins.

use super::{Remote, StartedRun};
use crate::screen::View;
use adk::{
    content::{Content, FunctionResponse},
    pending::PendingWork,
};
use tokio_util::sync::CancellationToken;

/// The server has no open question that the message answers.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct NoOpenQuestion(pub(super) String);

pub(super) fn is_answer(content: &Content) -> bool {
    content.responses().next().is_some()
}

impl Remote {
    /// Reloads the pending work from the server. A late answer is not an error: the result of the first answer is shown.
    pub(super) async fn after_answer(
        &self,
        content: &Content,
        sent: anyhow::Result<()>,
        view: &View,
        cancel: &CancellationToken,
    ) -> anyhow::Result<()> {
        let loaded = self.load().await;
        if !matches!(loaded, Ok(true)) {
            // The session cannot be read, so no question is asked now. Loading the session later restores it.
            *self.pending() = PendingWork::default();
        }
        match sent {
            Err(error) if error.is::<NoOpenQuestion>() && loaded.is_ok() && !self.is_open(content) => {
                self.show_settled(view, cancel).await
            }
            Ok(()) => loaded.map(drop),
            Err(error) => Err(error),
        }
    }

    /// Whether a question that the message answers is open.
    fn is_open(&self, content: &Content) -> bool {
        let pending = self.pending();
        let mut answered = content.responses().map(FunctionResponse::id_or_name);
        answered.any(|id| pending.questions.iter().any(|question| question.id == id))
    }

    /// Prints that the question was settled by another client, and shows the later events of its run.
    async fn show_settled(&self, view: &View, cancel: &CancellationToken) -> anyhow::Result<()> {
        let run = self.followed().as_ref().map(|followed| followed.run.clone());
        let Some(id) = run else {
            view.note("the question was settled elsewhere before this answer");
            return Ok(());
        };
        let run = self.run_state(&id).await?;
        if run["status"] == "cancelled" {
            let why = run["error"].as_str().unwrap_or("the run was cancelled");
            view.note(&format!("the question is no longer open: {why}"));
            return Ok(());
        }
        view.note("another client answered the question first; its result follows");
        self.follow(StartedRun { id, after: None }, view, cancel).await
    }
}
