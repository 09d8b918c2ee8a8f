//! Answers to questions: a question may be open at several clients, and the first answer counts.

use super::{Begun, Remote};
use crate::screen::View;
use adk::{
    content::{Content, FunctionResponse},
    pending::PendingWork,
};
use tokio_util::sync::CancellationToken;

/// The server has no question that the message answers.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Unasked(pub(super) String);

pub(super) fn is_answer(content: &Content) -> bool {
    content.responses().next().is_some()
}

impl Remote {
    /// Learns from the server what is still open. An answer that came too late is no failure: what came of the first one is
    /// shown.
    pub(super) async fn after_answer(
        &self,
        content: &Content,
        sent: anyhow::Result<()>,
        view: &View,
        cancel: &CancellationToken,
    ) -> anyhow::Result<()> {
        let known = self.take_up().await;
        if !matches!(known, Ok(true)) {
            // Nobody is asked about a session that cannot be read: the question comes again with the session.
            *self.facts() = PendingWork::default();
        }
        match sent {
            Err(error) if error.is::<Unasked>() && known.is_ok() && !self.is_open(content) => {
                self.show_settled(view, cancel).await
            }
            Ok(()) => known.map(drop),
            Err(error) => Err(error),
        }
    }

    /// Whether a question that the message answers is open.
    fn is_open(&self, content: &Content) -> bool {
        let facts = self.facts();
        let mut answered = content.responses().map(FunctionResponse::id_or_name);
        answered.any(|id| facts.questions.iter().any(|question| question.id == id))
    }

    /// Says that the question was settled elsewhere, and shows what its run has done since.
    async fn show_settled(&self, view: &View, cancel: &CancellationToken) -> anyhow::Result<()> {
        let run = self.followed().as_ref().map(|followed| followed.run.clone());
        let Some(id) = run else {
            view.note("the question was settled elsewhere before this answer came");
            return Ok(());
        };
        let run = self.state_of(&id).await?;
        if run["status"] == "cancelled" {
            let why = run["error"].as_str().unwrap_or("the run was cancelled");
            view.note(&format!("the question is not open any more: {why}"));
            return Ok(());
        }
        view.note("the question was answered elsewhere before this answer came; this is what followed");
        self.follow(Begun { id, after: None }, view, cancel).await
    }
}
