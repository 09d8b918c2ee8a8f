//! Reading a run to its end, through lost connections and restarts of the server.

use super::Remote;
use crate::screen::{self, View};
use adk::{error::RunError, event::Event};
use anyhow::{anyhow, bail};
use provider::http::{Framing, Splitter, root};
use reqwest::{Method, Response, StatusCode};
use serde_json::Value;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How long a server that is away is waited for, in steps.
const STEP: Duration = Duration::from_millis(500);
const STEPS: u32 = 120;

/// Why reading stopped.
enum Stop {
    /// The run is over.
    Ended(anyhow::Result<()>),
    /// The connection is gone, and the run goes on.
    Lost(anyhow::Error),
}

/// Where in the run we are.
#[derive(Default)]
struct Seen {
    /// The id of the last event that was shown.
    last: Option<String>,
    /// That of the one that comes next.
    coming: Option<String>,
}

impl Seen {
    fn came(&mut self) {
        self.last = self.coming.take().or(self.last.take());
    }
}

impl Remote {
    pub(super) async fn follow(
        &self,
        run: &str,
        view: &View,
        cancel: &CancellationToken,
    ) -> anyhow::Result<()> {
        let (mut seen, mut away) = (Seen::default(), 0);
        let mut cancelled = false;
        loop {
            let before = seen.last.clone();
            let stop = tokio::select! {
                stop = self.read_on(run, view, &mut seen) => stop,
                () = cancel.cancelled(), if !cancelled => {
                    cancelled = true;
                    self.cancel(run).await?;
                    continue;
                }
            };
            let error = match stop {
                Stop::Ended(result) => return result,
                Stop::Lost(error) => error,
            };
            if seen.last != before {
                away = 0;
            }
            if away == 0 {
                screen::note("the connection is lost; the run goes on, and is looked for");
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

    async fn read_on(&self, run: &str, view: &View, seen: &mut Seen) -> Stop {
        let path = self.of_session(&format!("/runs/{}/events", super::address::segment(run)));
        let mut request = self.http.request(Method::GET, &path);
        if let Some(id) = &seen.last {
            request = request.header("last-event-id", id);
        }
        let answer = match request.send().await {
            Ok(answer) if answer.status().is_server_error() => {
                return Stop::Lost(anyhow!("{} answers {}", self.address(), answer.status()));
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
            Err(refused) => Stop::Ended(Err(refused)),
        }
    }

    /// All that the server has to tell.
    async fn show(&self, mut answer: Response, view: &View, seen: &mut Seen) -> Result<(), Stop> {
        // Each line of the server's stream is whole by itself.
        let mut lines = Splitter::new(Framing::Lines);
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
                    Err(broken) => return Err(Stop::Ended(Err(broken.into()))),
                };
                if let Some(id) = line.strip_prefix("id:") {
                    seen.coming = Some(id.trim().to_owned());
                } else if let Some(data) = line.strip_prefix("data:") {
                    self.take(data.trim(), view).map_err(|ended| Stop::Ended(Err(ended)))?;
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
            if told["error_details"]["error_type"] == "Cancelled" {
                bail!(RunError::Cancelled);
            }
            bail!("{error}");
        }
        let event: Event = serde_json::from_value(told)?;
        view.show(&event);
        self.note(&event);
        Ok(())
    }

    /// How a run ended of which there is nothing more to read. A server that stops ends its streams, and not its runs.
    async fn outcome(&self, run: &str) -> Stop {
        let path = self.of_session(&format!("/runs/{}", super::address::segment(run)));
        let run: Value = match self.http.get(&path).await {
            Ok(run) => run,
            Err(error) => return Stop::Lost(error),
        };
        match (run["status"].as_str(), run["error"].as_str()) {
            (Some("queued" | "running"), _) => Stop::Lost(anyhow!("{} has let go", self.address())),
            (Some("cancelled"), _) => Stop::Ended(Err(RunError::Cancelled.into())),
            (_, Some(error)) => Stop::Ended(Err(anyhow!(error.to_owned()))),
            _ => Stop::Ended(Ok(())),
        }
    }

    fn away(&self, error: &reqwest::Error) -> Stop {
        Stop::Lost(anyhow!("{} is away: {}", self.address(), root(error)))
    }
}
