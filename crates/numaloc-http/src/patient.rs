//! A time limit for writing an answer. A client that does not read holds a connection and its unread answer.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};

/// A stream on which what is written has to be taken within a time limit: from the first byte to the flush, however
/// slowly it is read.
#[derive(Debug)]
pub(crate) struct Patient<S> {
    stream: S,
    limit: Duration,
    /// The time by which the present answer has to be taken.
    end: Option<Pin<Box<Sleep>>>,
}

impl<S> Patient<S> {
    pub(crate) fn new(stream: S, limit: Duration) -> Self {
        Self { stream, limit, end: None }
    }

    /// Ready with an error once the time is over. Wakes the task then.
    fn is_late(&mut self, context: &mut Context<'_>) -> Poll<io::Error> {
        let limit = self.limit;
        let end = self.end.get_or_insert_with(|| Box::pin(sleep(limit)));
        ready!(end.as_mut().poll(context));
        Poll::Ready(io::ErrorKind::TimedOut.into())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(late) = self.is_late(context) {
            return Poll::Ready(Err(late));
        }
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = ready!(Pin::new(&mut self.stream).poll_flush(context));
        self.end = None;
        Poll::Ready(flushed)
    }

    /// An end over TLS writes as well.
    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Poll::Ready(late) = self.is_late(context) {
            return Poll::Ready(Err(late));
        }
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt, duplex},
        time::Instant,
    };

    const LIMIT: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn what_is_not_taken_in_time_is_an_error() {
        let (theirs, mut client) = duplex(10);
        let mut stream = Patient::new(theirs, LIMIT);
        let begin = Instant::now();
        // A byte now and then is not enough.
        let reads = tokio::spawn(async move {
            while client.read_u8().await.is_ok() {
                sleep(Duration::from_secs(10)).await;
            }
        });
        let late = stream.write_all(&[0; 100]).await.unwrap_err();
        assert_eq!((late.kind(), begin.elapsed()), (io::ErrorKind::TimedOut, LIMIT));
        reads.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn each_answer_has_the_whole_time() {
        let (theirs, mut client) = duplex(10);
        let mut stream = Patient::new(theirs, LIMIT);
        for _ in 0..3 {
            let writes = async {
                stream.write_all(&[0; 20]).await?;
                stream.flush().await
            };
            let reads = async {
                sleep(LIMIT - Duration::from_secs(1)).await;
                client.read_exact(&mut [0; 20]).await
            };
            let (written, read) = tokio::join!(writes, reads);
            assert!(written.is_ok() && read.is_ok());
        }
    }
}
