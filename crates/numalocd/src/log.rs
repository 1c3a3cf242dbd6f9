//! What is logged, and where: to the journal with a field for each value when the service manager reads stderr, else as
//! lines on stderr.

mod levels;
mod sink;
#[cfg(test)]
mod tests;

pub use levels::{Levels, LevelsError};
pub use sink::Sink;

use numaloc_api::value::JobId;
use std::io;
use tracing::{Span, Subscriber, info_span};
use tracing_subscriber::{
    Layer, Registry, fmt::MakeWriter, layer::SubscriberExt, registry, reload,
    util::SubscriberInitExt,
};

/// The span of a job. Whatever is logged within carries the job's id, at any level.
pub fn job(id: &JobId) -> Span {
    info_span!("job", job = %id)
}

/// Changes what is logged while the daemon runs.
#[derive(Clone, Debug)]
pub struct Logs(reload::Handle<Levels, Registry>);

impl Logs {
    /// From now on logs what `levels` say.
    pub fn set(&self, levels: Levels) {
        // It fails only when nothing logs any more.
        let _ = self.0.reload(levels);
    }
}

/// Logs to where [`Sink::of_this_process`] says, from all threads, until the process ends.
///
/// # Errors
/// Something in this process logs already.
pub fn start(levels: Levels) -> io::Result<Logs> {
    let logs = match Sink::of_this_process() {
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

/// Logs lines to `writer`.
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
        // It would be reported to stderr, and stderr is what cannot be written to.
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
