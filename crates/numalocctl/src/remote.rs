//! The daemon, as the commands see it: values in, the API's messages out.
//!
//! Calls block; a runtime of one thread carries them out. A call with one answer takes at most --request-timeout.

mod backup;
mod channel;
mod filter;
mod interrupts;
mod jobs;
mod locality;
mod patience;
mod schedules;
mod services;
mod standing;
mod status;
mod watch;

pub use schedules::ScheduleChanges;
pub use standing::Reconnecting;
pub use watch::{OnCtrlC, WatchAnswer, Watched};

use crate::{args::ConnectArgs, endpoint::Endpoint, exit::Failure};
use std::{future::Future, time::Duration};
use tokio::{
    runtime::{Builder, Runtime},
    time::timeout,
};
use tonic::{Request, Response, Status, transport::Channel};

/// Largest answer: more than enough for a job on 100,000 processes.
const ANSWER_MAX: usize = 256 << 20;

macro_rules! client {
    ($daemon:expr, $service:ident, $client:ident) => {
        numaloc_api::v1::$service::$client::new($daemon.channel.clone())
            .max_decoding_message_size(super::ANSWER_MAX)
    };
}
use client;

/// Calls one method of one of the daemon's services.
macro_rules! ask {
    ($daemon:expr, $service:ident :: $client:ident . $call:ident, $message:expr) => {{
        let mut service = client!($daemon, $service, $client);
        $daemon.call($message, |request| async move { service.$call(request).await })
    }};
}
use ask;

/// The records of all pages of a list.
macro_rules! all_pages {
    ($daemon:expr, $service:ident :: $client:ident . $call:ident, $message:expr, $records:ident) => {{
        let (mut message, mut records) = ($message, Vec::new());
        loop {
            let answer = ask!($daemon, $service::$client.$call, message.clone())?;
            records.extend(answer.$records);
            message.page_token = answer.next_page_token;
            if message.page_token.is_empty() {
                break records;
            }
        }
    }};
}
use all_pages;

/// A daemon, with a connection and a runtime of its own.
#[derive(Debug)]
pub struct Daemon {
    runtime: Runtime,
    channel: Channel,
    endpoint: Endpoint,
    request_timeout: Duration,
    reconnect_timeout: Duration,
}

impl Daemon {
    /// Connects.
    ///
    /// # Errors
    /// Nothing listens there, or the certificates do not fit.
    pub fn connect(endpoint: Endpoint, args: &ConnectArgs) -> Result<Self, Failure> {
        Self::connect_within(endpoint, args, channel::CONNECT)
    }

    /// Connects within a time limit.
    ///
    /// # Errors
    /// As [`Daemon::connect`].
    pub fn connect_within(
        endpoint: Endpoint,
        args: &ConnectArgs,
        within: Duration,
    ) -> Result<Self, Failure> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(Failure::Runtime)?;
        let channel = runtime.block_on(channel::connect(&endpoint, within))?;
        let (request_timeout, reconnect_timeout) = (args.request_timeout, args.reconnect_timeout);
        Ok(Self { runtime, channel, endpoint, request_timeout, reconnect_timeout })
    }

    pub fn endpoint(&self) -> &str {
        &self.endpoint.uri
    }

    /// Sends a request, and waits for its answer.
    fn call<Q, A, F>(&self, message: Q, call: impl FnOnce(Request<Q>) -> F) -> Result<A, Failure>
    where
        F: Future<Output = Result<Response<A>, Status>>,
    {
        self.runtime.block_on(self.answer(message, call))
    }

    /// The same for a call that waits for some time before it answers.
    fn call_within<Q, A, F>(
        &self,
        within: Duration,
        message: Q,
        call: impl FnOnce(Request<Q>) -> F,
    ) -> Result<A, Failure>
    where
        F: Future<Output = Result<Response<A>, Status>>,
    {
        self.runtime.block_on(self.answer_within(within, message, call))
    }

    async fn answer<Q, A, F>(
        &self,
        message: Q,
        call: impl FnOnce(Request<Q>) -> F,
    ) -> Result<A, Failure>
    where
        F: Future<Output = Result<Response<A>, Status>>,
    {
        self.answer_within(self.request_timeout, message, call).await
    }

    async fn answer_within<Q, A, F>(
        &self,
        within: Duration,
        message: Q,
        call: impl FnOnce(Request<Q>) -> F,
    ) -> Result<A, Failure>
    where
        F: Future<Output = Result<Response<A>, Status>>,
    {
        // No deadline is sent with the request: dropping the call ends it at the daemon, too. With a deadline on both
        // sides, chance would decide which one ends the call, and so which message the user sees.
        match timeout(within, call(Request::new(message))).await {
            Ok(Ok(response)) => Ok(response.into_inner()),
            Ok(Err(status)) => Err(self.refused(&status)),
            Err(_) => Err(self.silent(within)),
        }
    }

    fn refused(&self, status: &Status) -> Failure {
        status::failure(status, &self.endpoint.uri)
    }

    fn silent(&self, within: Duration) -> Failure {
        let (endpoint, seconds) = (&self.endpoint.uri, within.as_secs_f64());
        let message = format!(
            "numalocd at {endpoint} did not answer within {seconds} s; see --request-timeout"
        );
        Failure::Refused { code: crate::exit::Code::TimedOut, message }
    }
}
