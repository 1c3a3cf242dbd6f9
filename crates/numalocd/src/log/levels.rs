//! The least severe level that is logged.

use std::{fmt, str::FromStr};
use tracing::{Level, Metadata, Subscriber, level_filters::LevelFilter, subscriber::Interest};
use tracing_subscriber::{
    filter::Targets,
    layer::{Context, Filter},
};

/// The least severe level that is logged: one for everything, and others for parts of the program, such as
/// `info,numalocd::dispatch=debug`.
#[derive(Clone, Debug, PartialEq)]
pub struct Levels(Targets);

/// A text that names no valid levels.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is not a valid log level: there are off, error, warn, info, debug and trace, \
     also for a part of the program as in 'info,numalocd=debug'"
)]
pub struct LevelsError(pub(super) String);

impl Default for Levels {
    fn default() -> Self {
        Self(usual())
    }
}

impl FromStr for Levels {
    type Err = LevelsError;

    /// Parses a level, a list of TARGET=LEVEL, or both. Without a level for everything, that is `info`.
    fn from_str(text: &str) -> Result<Self, LevelsError> {
        let refuse = || LevelsError(text.to_owned());
        let mut targets = usual();
        for part in text.split(',').map(str::trim) {
            // The parser of tracing-subscriber takes a misspelt level for a target to log in full.
            let (target, name) = part.split_once('=').unwrap_or(("", part));
            let level = level(name).ok_or_else(refuse)?;
            targets = match target {
                "" if part == name => targets.with_default(level),
                target if is_target(target) => targets.with_target(target, level),
                _ => return Err(refuse()),
            };
        }
        Ok(Self(targets))
    }
}

/// `info` for everything. Audit lines are logged even if the general level is lower, unless `audit=` names another
/// level.
fn usual() -> Targets {
    Targets::new().with_default(Level::INFO).with_target("audit", Level::INFO)
}

fn level(name: &str) -> Option<LevelFilter> {
    // The library would also accept numbers, and an empty name for "error".
    let is_word = !name.is_empty() && name.chars().all(char::is_alphabetic);
    if is_word { name.parse().ok() } else { None }
}

fn is_target(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':' | '-' | '.');
    !text.is_empty() && text.chars().all(fits)
}

impl fmt::Display for Levels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Levels {
    /// The daemon's own spans are always kept, so that warnings carry the job id even if nothing else is logged.
    fn wants(&self, metadata: &Metadata<'_>) -> bool {
        let is_our_span = metadata.is_span()
            && *metadata.level() <= Level::INFO
            && metadata.target().starts_with("numaloc");
        is_our_span || self.0.would_enable(metadata.target(), metadata.level())
    }
}

impl<S: Subscriber> Filter<S> for Levels {
    fn enabled(&self, metadata: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        self.wants(metadata)
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        if self.wants(metadata) { Interest::always() } else { Interest::never() }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        let highest = self.0.iter().map(|(_, level)| level).max();
        let default = self.0.default_level();
        Some(highest.max(default).unwrap_or(LevelFilter::OFF).max(LevelFilter::INFO))
    }
}
