//! The document of `doctor`: its findings with their advice.

use crate::exit::Code;
use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Nothing has to be done.
    Ok,
    /// It works, with a limit that the user should know.
    Warning,
    /// Memory cannot be moved as it should.
    Problem,
}

impl Level {
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    pub name: &'static str,
    pub level: Level,
    pub found: String,
    /// The remedy; null if all is well.
    pub advice: Option<String>,
}

impl Check {
    /// A check that found no problem.
    pub fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, level: Level::Ok, found: found.into(), advice: None }
    }
    /// A check that found a limit.
    pub fn warning(name: &'static str, found: impl Into<String>, advice: &str) -> Self {
        Self { level: Level::Warning, advice: Some(advice.into()), ..Self::ok(name, found) }
    }
    /// A check that found a problem.
    pub fn problem(name: &'static str, found: impl Into<String>, advice: &str) -> Self {
        Self { level: Level::Problem, ..Self::warning(name, found, advice) }
    }
}

/// The document of `doctor`, which `-o json` prints.
#[derive(Clone, Debug, Serialize)]
pub struct DoctorDoc {
    /// The worst level among the checks.
    pub result: Level,
    pub checks: Vec<Check>,
}

impl From<Vec<Check>> for DoctorDoc {
    fn from(checks: Vec<Check>) -> Self {
        let result = checks.iter().map(|check| check.level).max().unwrap_or(Level::Ok);
        Self { result, checks }
    }
}

impl DoctorDoc {
    /// The exit code for the result.
    pub fn code(&self) -> Code {
        if self.result == Level::Problem { Code::Failure } else { Code::Done }
    }
}
