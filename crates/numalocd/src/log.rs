//! Logging, to the journal or as lines on stderr ([`Sink`]).

mod levels;
mod rate;
#[cfg(test)]
mod tests;

pub use levels::{Levels, LevelsError};
pub(crate) use rate::LineRate;
#[cfg(test)]
pub(crate) use rate::MINUTE;

use numaloc_api::value::JobId;
use numaloc_log::Sink;
use std::io;
use tracing::{Span, Subscriber, info_span};
use tracing_subscriber::{
    Layer, Registry, fmt::MakeWriter, layer::SubscriberExt, registry, reload,
    util::SubscriberInitExt,
};

/// The span of a job. Everything logged within it carries the job's id, at any level.
pub fn job(id: &JobId) -> Span {
    info_span!("job", job = %id)
}

/// Changes what is logged while the daemon runs.
#[derive(Clone, Debug)]
pub struct Logs(reload::Handle<Levels, Registry>);

impl Logs {
    /// Logs by these `levels` from now on.
    pub fn set(&self, levels: Levels) {
        // This fails only if the subscriber is gone, and then nothing is logged any more.
        let _ = self.0.reload(levels);
    }
}

/// Starts logging to [`Sink::of_this_process`], from all threads, until the process ends.
///
/// # Errors
/// Logging has been started in this process already.
pub fn start(levels: Levels) -> io::Result<Logs> {
    let logs = match Sink::of_this_process("numalocd", false) {
        Sink::Journal(journal) => {
            let (subscriber, logs) = filtered(journal, levels);
            subscriber.try_init().map(|()| logs)
        }
        Sink::Lines { colour } => {
            let (subscriber, logs) = lines(io::stderr, colour, levels);
            subscriber.try_init().map(|()| logs)
        }
    };
    logs.map_err(io::Error::other)
}

fn lines<W>(
    writer: W,
    colour: bool,
    levels: Levels,
) -> (impl Subscriber + Send + Sync + for<'s> registry::LookupSpan<'s>, Logs)
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let layer = tracing_subscriber::fmt::layer()
        .with_writer(writer)
        .with_ansi(colour)
        // Such errors would be printed to stderr, which is what cannot be written to.
        .log_internal_errors(false);
    filtered(layer, levels)
}

fn filtered<L>(
    layer: L,
    levels: Levels,
) -> (impl Subscriber + Send + Sync + for<'s> registry::LookupSpan<'s>, Logs)
where
    L: Layer<Registry> + Send + Sync,
{
    let (filter, handle) = reload::Layer::new(levels);
    (tracing_subscriber::registry().with(layer.with_filter(filter)), Logs(handle))
}
