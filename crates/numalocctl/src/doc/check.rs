//! What `doctor` found.

use crate::exit::Code;
use serde::Serialize;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// As it should be.
    Ok,
    /// Works, with a limit that somebody should know.
    Warning,
    /// Memory cannot be moved as it should.
    Problem,
}

impl Level {
    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }
}

/// One check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Stable name.
    pub name: &'static str,
    /// How bad it is.
    pub level: Level,
    /// What was found.
    pub found: String,
    /// What to do about it; null when all is well.
    pub advice: Option<String>,
}

impl Check {
    /// All is well.
    pub fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, level: Level::Ok, found: found.into(), advice: None }
    }
    /// Works, with a limit.
    pub fn warning(name: &'static str, found: impl Into<String>, advice: &str) -> Self {
        Self { level: Level::Warning, advice: Some(advice.into()), ..Self::ok(name, found) }
    }
    /// Does not work.
    pub fn problem(name: &'static str, found: impl Into<String>, advice: &str) -> Self {
        Self { level: Level::Problem, ..Self::warning(name, found, advice) }
    }
}

/// What `doctor` shows.
#[derive(Clone, Debug, Serialize)]
pub struct DoctorDoc {
    /// The worst level among the checks.
    pub result: Level,
    /// The checks.
    pub checks: Vec<Check>,
}

impl From<Vec<Check>> for DoctorDoc {
    fn from(checks: Vec<Check>) -> Self {
        let result = checks.iter().map(|check| check.level).max().unwrap_or(Level::Ok);
        Self { result, checks }
    }
}

impl DoctorDoc {
    /// The exit code for it.
    pub fn code(&self) -> Code {
        if self.result == Level::Problem { Code::Failure } else { Code::Done }
    }
}
