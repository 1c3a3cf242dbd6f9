//! Catches panics in services: a panic is a bug that fails its call, and affects nothing else.

use crate::refusal::Refusal;
use std::{
    convert::Infallible,
    future::{Future, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::{Pin, pin},
    task::{Context, Poll},
};
use tonic::Status;
use tower::{Layer, Service, ServiceExt};

/// The output of `future`, which is not polled again once it has panicked.
///
/// # Errors
/// [`Refusal::Internal`]: it panicked. The panic hook has logged where.
pub async fn caught<F: Future>(future: F) -> Result<F::Output, Refusal> {
    let mut future = pin!(future);
    let poll = |context: &mut Context<'_>| {
        let poll = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context)));
        match poll {
            Ok(poll) => poll.map(Ok),
            Err(_) => Poll::Ready(Err(bug())),
        }
    };
    poll_fn(poll).await
}

fn bug() -> Refusal {
    let message = "a bug in the daemon: please report it with the panic in its log".to_owned();
    Refusal::Internal { message }
}

/// Answers INTERNAL to a call whose service panics.
#[derive(Clone, Copy, Debug)]
pub struct Catch;

impl<S> Layer<S> for Catch {
    type Service = Catching<S>;

    fn layer(&self, inner: S) -> Catching<S> {
        Catching { inner }
    }
}

/// A service whose panics are caught.
#[derive(Clone, Debug)]
pub struct Catching<S> {
    inner: S,
}

type CaughtFuture<T> = Pin<Box<dyn Future<Output = Result<T, Infallible>> + Send>>;

impl<S, Q, B> Service<http::Request<Q>> for Catching<S>
where
    S: Service<http::Request<Q>, Response = http::Response<B>, Error = Infallible>,
    S: Clone + Send + 'static,
    S::Future: Send,
    Q: Send + 'static,
    B: Default,
{
    type Response = S::Response;
    type Error = Infallible;
    type Future = CaughtFuture<S::Response>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Q>) -> Self::Future {
        let inner = self.inner.clone();
        Box::pin(async move {
            let answer = caught(async { inner.oneshot(request).await }).await;
            answer.unwrap_or_else(|refusal| Ok(Status::from(refusal).into_http()))
        })
    }
}
