//! Faults of a request, field by field.

use std::fmt;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, FieldViolation, StatusExt};

/// The domain of every google.rpc.ErrorInfo.
pub const DOMAIN: &str = "numaloc.io";

/// Most violations that are listed for one request.
const LISTED: usize = 16;

/// The fault of one field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum Problem {
    /// A required field has no value.
    #[error("is required")]
    Missing,
    /// A number, a duration or a time is out of bounds.
    #[error("must be from {min} to {max}")]
    OutOfRange {
        /// Least value, with its unit.
        min: String,
        /// Greatest value, with its unit.
        max: String,
    },
    /// A list is too long.
    #[error("must have at most {max} entries")]
    TooMany { max: usize },
    /// A string is too long.
    #[error("must have at most {max} bytes")]
    TooLong { max: usize },
    /// A string is not in the form that it must have.
    #[error("must be {expected}")]
    Malformed { expected: &'static str },
    /// An entry is the same as an earlier one.
    #[error("is there twice")]
    Twice,
    /// The field has no meaning with the other values of its message.
    #[error("must be empty here")]
    NotEmpty,
    /// A field differs from its value in the first message of a stream.
    #[error("differs from its value in the first message")]
    Differs,
    /// An enum value that this version does not know.
    #[error("has the unknown value {value}")]
    UnknownValue { value: i32 },
    /// A field mask names something that is not a field that can be changed.
    #[error("names a field that cannot be changed")]
    UnknownPath,
    /// Two fields cannot be set in one request.
    #[error("must not be set together with {other}")]
    Excludes { other: &'static str },
    /// The value contradicts another field.
    #[error("must not be longer than {other}")]
    LongerThan { other: &'static str },
}

/// One field and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Path of the field within the request, such as `spec.target.pids[3]`.
    pub field: String,
    /// Why the value was refused.
    pub problem: Problem,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.field, self.problem)
    }
}

/// Why a request was refused: at least one violation, and at most the first 16. Or why what is in a store, or in an answer of
/// a daemon, is not a record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Violations {
    listed: Vec<Violation>,
    of_record: bool,
}

impl Violations {
    /// The first value that this version does not know, with its field.
    pub(crate) fn unknown(&self) -> Option<String> {
        let is_unknown = |each: &&Violation| matches!(each.problem, Problem::UnknownValue { .. });
        self.listed.iter().find(is_unknown).map(ToString::to_string)
    }

    /// Begins a list for a stored record. Bounds of requests do not hold for it: it was made when other bounds may have held.
    pub(crate) fn of_record() -> Self {
        Self { of_record: true, ..Self::default() }
    }
    /// Whether a request is read, which has to keep to the bounds of today.
    pub(crate) fn are_of_request(&self) -> bool {
        !self.of_record
    }
    /// Adds one, unless there are 16 already.
    pub fn push(&mut self, field: impl Into<String>, problem: Problem) {
        if self.listed.len() < LISTED {
            self.listed.push(Violation { field: field.into(), problem });
        }
    }
    /// The violations, in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = &Violation> {
        self.listed.iter()
    }
    /// `value`, unless there is a violation.
    pub(crate) fn or<T>(self, value: T) -> Result<T, Self> {
        self.or_of(Some(value))
    }
    /// The value, unless there is a violation. A `value` of `None` must come with a violation.
    pub(crate) fn or_of<T>(self, value: Option<T>) -> Result<T, Self> {
        value.filter(|_| self.listed.is_empty()).ok_or(self)
    }
    fn first(&self) -> String {
        self.listed.first().map_or_else(String::new, |violation| violation.field.clone())
    }
}

impl fmt::Display for Violations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for violation in &self.listed {
            write!(f, "{separator}{violation}")?;
            separator = "; ";
        }
        Ok(())
    }
}

impl std::error::Error for Violations {}

impl From<Violations> for Status {
    /// INVALID_ARGUMENT with an ErrorInfo, and a BadRequest that names each field. It stays well below the 8 KiB that
    /// clients allow for headers.
    fn from(violations: Violations) -> Self {
        let fields = violations
            .iter()
            .map(|violation| FieldViolation::new(&violation.field, violation.problem.to_string()));
        let mut details = ErrorDetails::new();
        details.set_bad_request(fields.collect::<Vec<_>>());
        details.set_error_info("INVALID_FIELD", DOMAIN, [("field".to_owned(), violations.first())]);
        let mut message = violations.listed.first().map_or_else(String::new, ToString::to_string);
        match violations.listed.len() {
            0 | 1 => {}
            listed => message.push_str(&format!("; {} more in the details", listed - 1)),
        }
        Self::with_error_details(Code::InvalidArgument, message, details)
    }
}
