//! A request body that fails if the client sends it too slowly.

use super::pace::{MinRate, Pace};
use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use std::{
    error::Error,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};
use tokio::time::{Instant, Sleep, sleep_until};

/// The client sends below the minimum rate, or the whole body takes too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the body arrives too slowly")]
pub(crate) struct SlowBody;

impl SlowBody {
    /// Whether an error of a body, or one of its causes, is this one.
    pub(crate) fn is_cause_of(error: &(dyn Error + 'static)) -> bool {
        std::iter::successors(Some(error), |&error| error.source()).any(<dyn Error>::is::<Self>)
    }
}

/// The body with its deadlines. They count only while a handler waits for bytes.
pub(crate) struct PacedBody {
    body: Body,
    pace: Pace,
    /// The deadline of the whole body.
    end: Instant,
    timer: Option<Pin<Box<Sleep>>>,
}

impl PacedBody {
    pub(crate) fn new(body: Body, rate: MinRate, timeout: Duration) -> Self {
        let now = Instant::now();
        Self { body, pace: Pace::new(rate, now), end: now + timeout, timer: None }
    }
}

impl HttpBody for PacedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = &mut *self;
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(context) {
            let data = frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref());
            this.pace.transferred(data.map_or(0, Bytes::len), Instant::now());
            return Poll::Ready(frame);
        }
        let deadline = this.pace.wait(Instant::now()).min(this.end);
        let timer = this.timer.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if timer.deadline() != deadline {
            timer.as_mut().reset(deadline);
        }
        timer.as_mut().poll(context).map(|()| Some(Err(axum::Error::new(SlowBody))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
