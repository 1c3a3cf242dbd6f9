//! Counts calls by the code that they end with. An answer without content has the code in its headers, others in their
//! trailers.

use super::Metrics;
use crate::access::method_of;
use http::{HeaderMap, Request, Response};
use http_body_util::BodyExt;
use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};
use tonic::{Code, Status, body::Body};
use tower::{Layer, Service};

/// A layer that counts the calls which pass it. A call that its client gives up is not counted.
#[derive(Clone, Debug)]
pub struct CountLayer(pub Metrics);

impl<S> Layer<S> for CountLayer {
    type Service = Counting<S>;

    fn layer(&self, inner: S) -> Counting<S> {
        Counting { metrics: self.0.clone(), inner }
    }
}

/// A service whose calls pass through [`CountLayer`] first.
#[derive(Clone, Debug)]
pub struct Counting<S> {
    metrics: Metrics,
    inner: S,
}

impl<S, B> Service<Request<B>> for Counting<S>
where
    S: Service<Request<B>, Response = Response<Body>>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let method = method_of(request.uri().path()).unwrap_or("other");
        let metrics = self.metrics.clone();
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await?;
            if let Some(code) = code(answer.headers()) {
                metrics.rpc(method, code);
                return Ok(answer);
            }
            Ok(answer.map(|body| {
                Body::new(body.map_frame(move |frame| {
                    if let Some(code) = frame.trailers_ref().and_then(code) {
                        metrics.rpc(method, code);
                    }
                    frame
                }))
            }))
        })
    }
}

fn code(headers: &HeaderMap) -> Option<Code> {
    Status::from_header_map(headers).map(|status| status.code())
}
