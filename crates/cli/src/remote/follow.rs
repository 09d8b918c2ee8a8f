//! Reads a run to its end, across lost connections and restarts of the server.

use super::{Remote, StartedRun, answer::NoOpenQuestion};
use crate::screen::View;
use adk::{error::RunError, event::Event};
use anyhow::{anyhow, bail};
use provider::http::{Framing, Splitter, root_cause};
use reqwest::{Method, Response, StatusCode};
use serde_json::Value;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The interval and the number of attempts to reach a server again.
const RECONNECT_INTERVAL: Duration = Duration::from_millis(500);
const RECONNECT_ATTEMPTS: u32 = 120;

/// Why reading stopped.
enum FollowEnd {
    /// The run has ended.
    Ended(anyhow::Result<()>),
    /// The connection is lost; the run continues.
    Lost(anyhow::Error),
}

/// The run that was read last.
pub(super) struct FollowedRun {
    pub(super) run: String,
    /// The id of the last event that was shown.
    last: Option<String>,
}

/// The position in the event stream of a run.
#[derive(Default)]
struct StreamPosition {
    /// The id of the last event that was shown.
    last: Option<String>,
    /// The id of the event whose data follows.
    next: Option<String>,
}

impl StreamPosition {
    fn advance(&mut self) {
        self.last = self.next.take().or(self.last.take());
    }
}

impl Remote {
    /// Shows the remaining events of a run until it ends.
    pub(super) async fn follow(
        &self,
        StartedRun { id, after }: StartedRun,
        view: &View,
        cancel: &CancellationToken,
    ) -> anyhow::Result<()> {
        let known =
            self.followed().as_ref().filter(|known| known.run == id).and_then(|known| known.last.clone());
        let mut position = StreamPosition { last: known.or(after), next: None };
        let ended = self.read_to_end(&id, view, &mut position, cancel).await;
        // A late answer starts a separate run. The client keeps following the run that asked.
        if !matches!(&ended, Err(error) if error.is::<NoOpenQuestion>()) {
            *self.followed() = Some(FollowedRun { run: id, last: position.last });
        }
        ended
    }

    async fn read_to_end(
        &self,
        run: &str,
        view: &View,
        position: &mut StreamPosition,
        cancel: &CancellationToken,
    ) -> anyhow::Result<()> {
        let mut failures = 0;
        let mut cancelled = false;
        loop {
            let before = position.last.clone();
            let end = tokio::select! {
                end = self.read_stream(run, view, position) => end,
                () = cancel.cancelled(), if !cancelled => {
                    cancelled = true;
                    self.cancel(run).await?;
                    continue;
                }
            };
            let error = match end {
                FollowEnd::Ended(result) => return result,
                FollowEnd::Lost(error) => error,
            };
            if position.last != before {
                failures = 0;
            }
            if failures == 0 {
                view.note("the connection is lost; the run continues, and lango reconnects to it");
            }
            failures += 1;
            if failures > RECONNECT_ATTEMPTS || cancelled {
                let (address, session) = (self.address(), &self.key.session_id);
                bail!("{error}; to continue: lango chat --server {address} --session {session}");
            }
            tokio::select! {
                () = tokio::time::sleep(RECONNECT_INTERVAL) => {}
                () = cancel.cancelled() => bail!(RunError::Cancelled),
            }
        }
    }

    async fn cancel(&self, run: &str) -> anyhow::Result<()> {
        let path = self.session_path(&format!("/runs/{}/cancel", super::address::segment(run)));
        let answer = self.http.send(Method::POST, &path, None).await?;
        self.http.check_status(answer).await.map(drop)
    }

    async fn read_stream(&self, run: &str, view: &View, position: &mut StreamPosition) -> FollowEnd {
        let path = self.session_path(&format!("/runs/{}/events", super::address::segment(run)));
        let mut request = self.http.request(Method::GET, &path);
        if let Some(id) = &position.last {
            request = request.header("last-event-id", id);
        }
        let answer = match request.send().await {
            Ok(answer) if answer.status().is_server_error() => {
                return FollowEnd::Lost(anyhow!("{} answers {}", self.address(), answer.status()));
            }
            Ok(answer) => answer,
            Err(error) => return self.connection_lost(&error),
        };
        if answer.status() == StatusCode::NO_CONTENT {
            return self.outcome(run).await;
        }
        match self.http.check_status(answer).await {
            Ok(answer) => match self.show(answer, view, position).await {
                Ok(()) => self.outcome(run).await,
                Err(end) => end,
            },
            Err(refused) => FollowEnd::Ended(Err(refused)),
        }
    }

    /// Shows the events of the response body.
    async fn show(
        &self,
        mut answer: Response,
        view: &View,
        position: &mut StreamPosition,
    ) -> Result<(), FollowEnd> {
        // Each field of the server's SSE stream is one line.
        let mut lines = Splitter::new(Framing::JsonLines);
        loop {
            let is_last = match answer.chunk().await {
                Ok(Some(bytes)) => {
                    lines.feed(&bytes);
                    false
                }
                Ok(None) => {
                    lines.end();
                    true
                }
                Err(error) => return Err(self.connection_lost(&error)),
            };
            loop {
                let line = match lines.next_frame() {
                    Ok(Some(line)) => line.data,
                    Ok(None) => break,
                    Err(broken) => return Err(FollowEnd::Ended(Err(broken.into()))),
                };
                if let Some(id) = line.strip_prefix("id:") {
                    position.next = Some(id.trim().to_owned());
                } else if let Some(data) = line.strip_prefix("data:") {
                    self.show_event(data.trim(), view).map_err(|error| FollowEnd::Ended(Err(error)))?;
                    position.advance();
                }
            }
            if is_last {
                return Ok(());
            }
        }
    }

    /// Shows an event, or returns the error of the run.
    fn show_event(&self, data: &str, view: &View) -> anyhow::Result<()> {
        let data: Value = serde_json::from_str(data)?;
        if let Some(error) = data["error"].as_str() {
            match data["error_details"]["error_type"].as_str() {
                Some("Cancelled") => bail!(RunError::Cancelled),
                Some("UnknownCall") => bail!(NoOpenQuestion(error.to_owned())),
                Some(_) | None => bail!("{error}"),
            }
        }
        let event: Event = serde_json::from_value(data)?;
        view.show(&event);
        self.track_pending(&event);
        Ok(())
    }

    /// The end of a run whose stream has ended. A server that stops ends its streams, but not its runs.
    async fn outcome(&self, run: &str) -> FollowEnd {
        let run = match self.run_state(run).await {
            Ok(run) => run,
            Err(error) => return FollowEnd::Lost(error),
        };
        match (run["status"].as_str(), run["error"].as_str()) {
            (Some("queued" | "running"), _) => {
                FollowEnd::Lost(anyhow!("{} closed the stream", self.address()))
            }
            (Some("cancelled"), _) => FollowEnd::Ended(Err(RunError::Cancelled.into())),
            (_, Some(error)) => FollowEnd::Ended(Err(anyhow!(error.to_owned()))),
            _ => FollowEnd::Ended(Ok(())),
        }
    }

    /// The state of a run as JSON.
    pub(super) async fn run_state(&self, run: &str) -> anyhow::Result<Value> {
        self.http.get(&self.session_path(&format!("/runs/{}", super::address::segment(run)))).await
    }

    fn connection_lost(&self, error: &reqwest::Error) -> FollowEnd {
        FollowEnd::Lost(anyhow!("{} cannot be reached: {}", self.address(), root_cause(error)))
    }
}
