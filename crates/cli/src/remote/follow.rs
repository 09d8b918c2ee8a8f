//! Reading a run to its end, through lost connections and restarts of the server.

use super::{Begun, Remote, answer::Unasked};
use crate::screen::View;
use adk::{error::RunError, event::Event};
use anyhow::{anyhow, bail};
use provider::http::{Framing, Splitter, root_cause};
use reqwest::{Method, Response, StatusCode};
use serde_json::Value;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How long a server that is away is waited for, in steps.
const STEP: Duration = Duration::from_millis(500);
const STEPS: u32 = 120;

/// Why reading stopped.
enum FollowEnd {
    /// The run is over.
    Ended(anyhow::Result<()>),
    /// The connection is gone, and the run goes on.
    Lost(anyhow::Error),
}

/// A run that was read.
pub(super) struct Followed {
    pub(super) run: String,
    /// The id of the last event that was shown.
    last: Option<String>,
}

/// Where in the run we are.
#[derive(Default)]
struct SeenEvents {
    /// The id of the last event that was shown.
    last: Option<String>,
    /// That of the one that comes next.
    coming: Option<String>,
}

impl SeenEvents {
    fn came(&mut self) {
        self.last = self.coming.take().or(self.last.take());
    }
}

impl Remote {
    /// Shows the events of a run that were not shown yet, until it ends.
    pub(super) async fn follow(
        &self,
        Begun { id, after }: Begun,
        view: &View,
        cancel: &CancellationToken,
    ) -> anyhow::Result<()> {
        let known =
            self.followed().as_ref().filter(|known| known.run == id).and_then(|known| known.last.clone());
        let mut seen = SeenEvents { last: known.or(after), coming: None };
        let ended = self.read_to_end(&id, view, &mut seen, cancel).await;
        // An answer that came too late is a run of its own; the one that asked is still of interest.
        if !matches!(&ended, Err(error) if error.is::<Unasked>()) {
            *self.followed() = Some(Followed { run: id, last: seen.last });
        }
        ended
    }

    async fn read_to_end(
        &self,
        run: &str,
        view: &View,
        seen: &mut SeenEvents,
        cancel: &CancellationToken,
    ) -> anyhow::Result<()> {
        let mut away = 0;
        let mut cancelled = false;
        loop {
            let before = seen.last.clone();
            let stop = tokio::select! {
                stop = self.read_on(run, view, seen) => stop,
                () = cancel.cancelled(), if !cancelled => {
                    cancelled = true;
                    self.cancel(run).await?;
                    continue;
                }
            };
            let error = match stop {
                FollowEnd::Ended(result) => return result,
                FollowEnd::Lost(error) => error,
            };
            if seen.last != before {
                away = 0;
            }
            if away == 0 {
                view.note("the connection is lost; the run goes on, and is looked for");
            }
            away += 1;
            if away > STEPS || cancelled {
                let (address, session) = (self.address(), &self.key.session_id);
                bail!("{error}; lango chat --server {address} --session {session} goes on from here");
            }
            tokio::select! {
                () = tokio::time::sleep(STEP) => {}
                () = cancel.cancelled() => bail!(RunError::Cancelled),
            }
        }
    }

    async fn cancel(&self, run: &str) -> anyhow::Result<()> {
        let path = self.of_session(&format!("/runs/{}/cancel", super::address::segment(run)));
        let answer = self.http.send(Method::POST, &path, None).await?;
        self.http.sound(answer).await.map(drop)
    }

    async fn read_on(&self, run: &str, view: &View, seen: &mut SeenEvents) -> FollowEnd {
        let path = self.of_session(&format!("/runs/{}/events", super::address::segment(run)));
        let mut request = self.http.request(Method::GET, &path);
        if let Some(id) = &seen.last {
            request = request.header("last-event-id", id);
        }
        let answer = match request.send().await {
            Ok(answer) if answer.status().is_server_error() => {
                return FollowEnd::Lost(anyhow!("{} answers {}", self.address(), answer.status()));
            }
            Ok(answer) => answer,
            Err(error) => return self.away(&error),
        };
        if answer.status() == StatusCode::NO_CONTENT {
            return self.outcome(run).await;
        }
        match self.http.sound(answer).await {
            Ok(answer) => match self.show(answer, view, seen).await {
                Ok(()) => self.outcome(run).await,
                Err(stop) => stop,
            },
            Err(refused) => FollowEnd::Ended(Err(refused)),
        }
    }

    /// All that the server has to tell.
    async fn show(&self, mut answer: Response, view: &View, seen: &mut SeenEvents) -> Result<(), FollowEnd> {
        // Each line of the server's stream is whole by itself.
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
                Err(error) => return Err(self.away(&error)),
            };
            loop {
                let line = match lines.next_frame() {
                    Ok(Some(line)) => line.data,
                    Ok(None) => break,
                    Err(broken) => return Err(FollowEnd::Ended(Err(broken.into()))),
                };
                if let Some(id) = line.strip_prefix("id:") {
                    seen.coming = Some(id.trim().to_owned());
                } else if let Some(data) = line.strip_prefix("data:") {
                    self.take(data.trim(), view).map_err(|ended| FollowEnd::Ended(Err(ended)))?;
                    seen.came();
                }
            }
            if is_last {
                return Ok(());
            }
        }
    }

    /// Shows an event, or fails with what the run failed with.
    fn take(&self, data: &str, view: &View) -> anyhow::Result<()> {
        let told: Value = serde_json::from_str(data)?;
        if let Some(error) = told["error"].as_str() {
            match told["error_details"]["error_type"].as_str() {
                Some("Cancelled") => bail!(RunError::Cancelled),
                Some("UnknownCall") => bail!(Unasked(error.to_owned())),
                Some(_) | None => bail!("{error}"),
            }
        }
        let event: Event = serde_json::from_value(told)?;
        view.show(&event);
        self.note(&event);
        Ok(())
    }

    /// How a run ended of which there is nothing more to read. A server that stops ends its streams, and not its runs.
    async fn outcome(&self, run: &str) -> FollowEnd {
        let run = match self.state_of(run).await {
            Ok(run) => run,
            Err(error) => return FollowEnd::Lost(error),
        };
        match (run["status"].as_str(), run["error"].as_str()) {
            (Some("queued" | "running"), _) => FollowEnd::Lost(anyhow!("{} has let go", self.address())),
            (Some("cancelled"), _) => FollowEnd::Ended(Err(RunError::Cancelled.into())),
            (_, Some(error)) => FollowEnd::Ended(Err(anyhow!(error.to_owned()))),
            _ => FollowEnd::Ended(Ok(())),
        }
    }

    /// A run as the server describes it.
    pub(super) async fn state_of(&self, run: &str) -> anyhow::Result<Value> {
        self.http.get(&self.of_session(&format!("/runs/{}", super::address::segment(run)))).await
    }

    fn away(&self, error: &reqwest::Error) -> FollowEnd {
        FollowEnd::Lost(anyhow!("{} is away: {}", self.address(), root_cause(error)))
    }
}
