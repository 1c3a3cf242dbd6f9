//! The token that a client sends.

use http::HeaderValue;
use parking_lot::Mutex;

/// A token that may be replaced while the client runs.
#[derive(Debug)]
pub struct Bearer(Mutex<HeaderValue>);

impl Bearer {
    /// A token; `None` if no header can hold it.
    pub fn new(token: &str) -> Option<Self> {
        value(token).map(|value| Self(Mutex::new(value)))
    }

    /// Replaces the token, unless no header can hold the new one.
    pub fn set(&self, token: &str) {
        if let Some(value) = value(token) {
            *self.0.lock() = value;
        }
    }

    /// The value of the header `Authorization`.
    pub fn header(&self) -> HeaderValue {
        self.0.lock().clone()
    }
}

fn value(token: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::try_from(format!("Bearer {token}")).ok()?;
    value.set_sensitive(true);
    Some(value)
}
