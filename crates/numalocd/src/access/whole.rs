//! Reads a request to its end before the call gets a turn. So half a request holds no turn, and what all callers have sent of
//! requests takes a bounded amount of memory.

use super::shares::{Client, HeldShare, ShareNames, Shares};
use crate::refusal::Refusal;
use http::HeaderMap;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use std::time::Duration;
use tokio::time::timeout;
use tonic::{Status, body::Body};

/// Most bytes that one caller's requests take while they are read and while they wait for their turns.
pub(super) const EACH: usize = 16 << 20;
/// What a call takes besides its request: its task, and what HTTP/2 keeps of it.
const CALL: usize = 4 << 10;
/// What HTTP/2 counts for a header besides its name and value (RFC 9113, section 6.5.2).
const HEADER: usize = 32;
/// Length of what stands before a message: a flag, and the message's length in 4 bytes, the highest first (gRPC over HTTP2,
/// "Length-Prefixed-Message").
const PREFIX: usize = 5;

/// The bytes of the requests of all callers.
#[derive(Clone, Debug)]
pub(super) struct Requests(Shares);

impl Default for Requests {
    fn default() -> Self {
        Self(Shares::new(ShareNames {
            caller: "bytes of requests under way",
            cohort: "bytes of requests under way of all members of the group",
            all: "bytes of requests under way of all callers",
        }))
    }
}

/// A request that is being read, or waits for its turn.
#[derive(Debug)]
pub(super) struct Asking(HeldShare);

/// A message and what it counts for.
struct CountedMessage {
    message: Vec<u8>,
    _share: HeldShare,
}

impl AsRef<[u8]> for CountedMessage {
    fn as_ref(&self) -> &[u8] {
        &self.message
    }
}

impl Requests {
    /// Begins a request of `client`.
    ///
    /// # Errors
    /// [`Refusal::Quota`]: too many bytes of requests are under way.
    pub fn begin(&self, client: &Client, headers: &HeaderMap) -> Result<Asking, Refusal> {
        let header = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
            name.as_str().len() + value.len() + HEADER
        };
        let bytes = CALL + headers.iter().map(header).sum::<usize>();
        self.0.take(client, bytes, EACH).map(Asking)
    }
}

impl Asking {
    /// Reads a request of one message to its end, within `limit`. The result counts until its bytes are dropped.
    ///
    /// # Errors
    /// The message has more than `most` bytes, or is not there in time; too many bytes of requests are under way; the connection
    /// fails.
    pub async fn whole(self, body: Body, most: usize, limit: Duration) -> Result<Body, Status> {
        let late = |_| Err(Refusal::Late { limit }.into());
        timeout(limit, self.read(body, most)).await.unwrap_or_else(late)
    }

    async fn read(self, mut body: Body, most: usize) -> Result<Body, Status> {
        let Self(mut share) = self;
        let mut message: Vec<u8> = Vec::new();
        while let Some(frame) = body.frame().await {
            // Trailers come last, and nothing reads them.
            let Ok(data) = frame?.into_data() else { break };
            let needed = message.len() + data.len();
            if needed > PREFIX + most {
                return Err(Refusal::TooLarge { most }.into());
            }
            if needed > message.capacity() {
                let room = needed.next_power_of_two().min(PREFIX + most);
                share.grow(room - message.capacity(), EACH)?;
                message.reserve_exact(room - message.len());
            }
            // Copied, because a piece of a few bytes may keep much more in memory.
            message.extend_from_slice(&data);
            let announced = message.get(1..PREFIX).and_then(|length| length.try_into().ok());
            if announced.is_some_and(|length| u32::from_be_bytes(length) as usize > most) {
                return Err(Refusal::TooLarge { most }.into());
            }
        }
        Ok(Body::new(Full::new(Bytes::from_owner(CountedMessage { message, _share: share }))))
    }
}
