//! The API group of the kinds.

/// The API group of the kinds.
pub const GROUP: &str = "numaloc.io";

pub const VERSION: &str = "v1alpha1";
