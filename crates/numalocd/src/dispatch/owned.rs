//! Properties of all records that belong to a client: an owner, who alone may change them, and an etag.

use crate::{access::Caller, refusal::Refusal};
use std::fmt::Display;

/// Refuses a caller that may not change a record of `owner`.
pub fn check_owner(caller: &Caller, id: &dyn Display, owner: &str) -> Result<(), Refusal> {
    if caller.may_change(owner) {
        return Ok(());
    }
    let message = format!("{id} belongs to {owner}: only {owner} and admins may change it");
    Err(Refusal::NotPermitted { message })
}

/// Refuses a change that was `expected` to be made to another version of the record. `None`: any version will do.
pub fn check_etag(id: &dyn Display, expected: Option<&str>, present: &str) -> Result<(), Refusal> {
    match expected {
        Some(expected) if expected != present => {
            Err(Refusal::Etag { name: id.to_string(), present: present.to_owned() })
        }
        _ => Ok(()),
    }
}

/// A new etag, which is random so that it never repeats one of a record of the same name.
pub fn etag() -> String {
    format!("{:016x}", fastrand::u64(..))
}
