//! A stream that fails if its peer, a slow client, reads too slowly.

use super::pace::{MinRate, Pace};
use std::{
    future::Future,
    io::{Error, ErrorKind, IoSlice, Result},
    pin::Pin,
    task::{Context, Poll},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep, sleep_until},
};

/// Writes have a minimum rate while data waits in the server. A stream without data to send may be idle forever.
#[derive(Debug)]
pub(crate) struct PacedIo<S> {
    stream: S,
    pace: Pace,
    timer: Option<Pin<Box<Sleep>>>,
}

impl<S> PacedIo<S> {
    pub(crate) fn new(stream: S, rate: MinRate) -> Self {
        Self { stream, pace: Pace::new(rate, Instant::now()), timer: None }
    }

    /// Counts the bytes of a write, or waits for the peer until its credit is spent.
    fn paced<T>(
        &mut self,
        context: &mut Context<'_>,
        result: Poll<Result<T>>,
        bytes: impl FnOnce(&T) -> usize,
    ) -> Poll<Result<T>> {
        match result {
            Poll::Ready(Ok(done)) => {
                self.pace.transferred(bytes(&done), Instant::now());
                Poll::Ready(Ok(done))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => {
                let deadline = self.pace.wait(Instant::now());
                let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
                if timer.deadline() != deadline {
                    timer.as_mut().reset(deadline);
                }
                let too_slow = || Error::new(ErrorKind::TimedOut, "the client reads too slowly");
                timer.as_mut().poll(context).map(|()| Err(too_slow()))
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for PacedIo<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for PacedIo<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.paced(context, result, |written| *written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write_vectored(context, buffers);
        self.paced(context, result, |written| *written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let result = Pin::new(&mut self.stream).poll_flush(context);
        self.paced(context, result, |()| 0)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let result = Pin::new(&mut self.stream).poll_shutdown(context);
        self.paced(context, result, |()| 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
        time::sleep,
    };

    const RATE: MinRate = MinRate { bytes_per_second: 1000, grace: Duration::from_mins(1) };
    const BUFFER: usize = 4096;

    #[tokio::test(start_paused = true)]
    async fn a_write_that_is_never_read_fails() {
        let (server, _client) = duplex(BUFFER);
        let mut server = PacedIo::new(server, RATE);
        let began = Instant::now();
        let error = server.write_all(&[0; 2 * BUFFER]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        // The bytes that fit the buffer count as transferred.
        assert_eq!(began.elapsed().as_secs(), RATE.grace.as_secs());
    }

    /// Reads to the end, and returns the number of bytes.
    async fn read_slowly(mut client: DuplexStream, bytes_per_second: usize) -> usize {
        let (mut total, mut part) = (0, vec![0; bytes_per_second]);
        while let Ok(read @ 1..) = client.read(&mut part).await {
            total += read;
            sleep(Duration::from_secs(1)).await;
        }
        total
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_at_the_minimum_rate_gets_everything_and_a_slower_one_does_not() {
        for (bytes_per_second, is_complete) in [(1000, true), (500, false)] {
            let (server, client) = duplex(BUFFER);
            let mut server = PacedIo::new(server, RATE);
            let reader = tokio::spawn(read_slowly(client, bytes_per_second));
            let written = server.write_all(&vec![0; 200_000]).await;
            assert_eq!(written.is_ok(), is_complete, "{bytes_per_second}");
            drop(server);
            assert_eq!(reader.await.unwrap() == 200_000, is_complete, "{bytes_per_second}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_without_data_to_send_may_be_idle() {
        let (server, mut client) = duplex(BUFFER);
        let mut server = PacedIo::new(server, RATE);
        for _ in 0..3 {
            sleep(RATE.grace * 10).await;
            server.write_all(b": keep-alive\n\n").await.unwrap();
            server.flush().await.unwrap();
            client.read_exact(&mut [0; 14]).await.unwrap();
        }
    }
}
