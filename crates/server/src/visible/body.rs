//! The body of a response to a page: its chunks pass the filter.

use super::filter::VisibleFilter;
use axum::body::{Body, Bytes, HttpBody};
use futures::{FutureExt, future::poll_fn};
use hyper::body::{Frame, SizeHint};
use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

/// How much of a chunk is rewritten at a time. The rest stays in the chunk, which may be charged to the response budget.
const PIECE_BYTES: usize = 16 * 1024;

type FrameResult = Result<Frame<Bytes>, axum::Error>;

/// The original body is dropped with this one: what it guards is kept until the response is sent.
pub(super) struct VisibleBody {
    original: Body,
    filter: VisibleFilter,
    /// The rest of the current chunk.
    rest: Bytes,
    /// The end of the response, when the original is over.
    last: Option<Bytes>,
    is_unchanged: bool,
}

impl VisibleBody {
    /// A small body that is complete is rewritten at once, so that its length is known.
    pub(super) fn new(original: Body, filter: VisibleFilter) -> Self {
        let size = original.size_hint().exact();
        let is_empty = size == Some(0);
        let mut body = Self { original, filter, rest: Bytes::new(), last: None, is_unchanged: is_empty };
        if is_empty {
            body.last = Some(Bytes::new());
        } else if size.is_some_and(|size| size <= PIECE_BYTES as u64) {
            body.rewrite_at_once();
        }
        body
    }

    /// Whether the body is complete, and the same as the original one.
    pub(super) fn is_unchanged(&self) -> bool {
        self.is_unchanged
    }

    pub(super) fn into_body(self) -> Body {
        Body::new(self)
    }

    fn rewrite_at_once(&mut self) {
        let first = poll_fn(|context| Pin::new(&mut self.original).poll_frame(context)).now_or_never();
        let Some(Some(Ok(frame))) = first else { return };
        let Ok(chunk) = frame.into_data() else { return };
        if !self.original.is_end_stream() {
            self.rest = chunk;
            return;
        }
        let begin = self.filter.push(chunk.clone());
        let end = self.filter.finish();
        self.is_unchanged = end.is_empty() && begin == chunk;
        self.last = Some(if end.is_empty() { begin } else { [begin, end].concat().into() });
    }

    /// The next bytes of the current chunk; `None` if there are none.
    fn next_piece(&mut self) -> Option<Bytes> {
        while !self.rest.is_empty() {
            let piece = self.rest.split_to(self.rest.len().min(PIECE_BYTES));
            let shown = self.filter.push(piece);
            if !shown.is_empty() {
                return Some(shown);
            }
        }
        None
    }
}

impl HttpBody for VisibleBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<FrameResult>> {
        loop {
            if let Some(piece) = self.next_piece() {
                return Poll::Ready(Some(Ok(Frame::data(piece))));
            }
            if let Some(last) = &mut self.last {
                let last = std::mem::take(last);
                return Poll::Ready((!last.is_empty()).then(|| Ok(Frame::data(last))));
            }
            match ready!(Pin::new(&mut self.original).poll_frame(context)) {
                None => self.last = Some(self.filter.finish()),
                Some(frame) => match frame?.into_data() {
                    Ok(chunk) if self.filter.passes(&chunk) && !chunk.is_empty() => {
                        return Poll::Ready(Some(Ok(Frame::data(chunk))));
                    }
                    Ok(chunk) => self.rest = chunk,
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        let is_over = self.original.is_end_stream() && self.filter.is_empty();
        self.rest.is_empty() && self.last.as_ref().map_or(is_over, Bytes::is_empty)
    }

    fn size_hint(&self) -> SizeHint {
        self.last.as_ref().map_or_else(SizeHint::default, |last| SizeHint::with_exact(last.len() as u64))
    }
}
