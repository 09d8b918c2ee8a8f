//! A response body that holds a value until it is sent, or until the client disconnects.

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use std::{
    pin::Pin,
    task::{Context, Poll},
};

pub(crate) struct GuardedBody<G> {
    body: Body,
    _guard: G,
}

impl<G: Send + Unpin + 'static> GuardedBody<G> {
    pub(crate) fn wrap(body: Body, guard: G) -> Body {
        Body::new(Self { body, _guard: guard })
    }
}

impl<G: Unpin> HttpBody for GuardedBody<G> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
