//! Reads a request to its end before the call gets a turn. So half a request holds no turn. Its bytes are charged to
//! its caller; those of a call that continues (a watch), with what it has to send, until it ends.

use crate::{
    accounts::{Accounts, Client, HeldShare, Resource},
    refusal::Refusal,
};
use http::HeaderMap;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use parking_lot::Mutex;
use std::{sync::Arc, time::Duration};
use tokio::time::timeout;
use tonic::{Status, body::Body};

/// Memory of a decoded request, as a multiple of its message: names and labels are in blocks of their own (measured:
/// 2.3 times for selectors of labels).
const DECODED: usize = 3;
/// Bytes of a call besides its request: its task, and its state in HTTP/2.
const CALL: usize = 4 << 10;
/// Bytes that HTTP/2 counts for a header besides its name and value (RFC 9113, section 6.5.2).
const HEADER: usize = 32;
/// Length of the prefix of a message: a flag, and the message's length in 4 bytes, the highest first (gRPC over HTTP2,
/// "Length-Prefixed-Message").
const PREFIX: usize = 5;

/// A request that is being read, or waits for its turn.
#[derive(Debug)]
pub(super) struct Asking {
    share: HeldShare,
    /// Bytes that it takes besides its message.
    call: usize,
}

/// The charge of a call as long as it lives. Clones are the same charge.
#[derive(Clone, Debug)]
pub(super) struct Charge(Arc<Mutex<HeldShare>>);

/// A message and what it counts for.
struct CountedMessage {
    message: Vec<u8>,
    _charge: Charge,
}

impl AsRef<[u8]> for CountedMessage {
    fn as_ref(&self) -> &[u8] {
        &self.message
    }
}

impl Charge {
    /// Charges `more`.
    ///
    /// # Errors
    /// [`Refusal::Quota`]. Then nothing has changed.
    pub fn grow(&self, more: usize) -> Result<(), Refusal> {
        self.0.lock().grow(more)
    }

    /// Gives back so much of it.
    pub fn shrink(&self, less: usize) {
        self.0.lock().shrink(less);
    }
}

impl Asking {
    /// Begins a request of `client`.
    ///
    /// # Errors
    /// [`Refusal::Quota`]: too many bytes of requests are under way.
    pub fn begin(
        accounts: &Accounts,
        client: &Client,
        headers: &HeaderMap,
    ) -> Result<Self, Refusal> {
        let header = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
            name.as_str().len() + value.len() + HEADER
        };
        let call = CALL + headers.iter().map(header).sum::<usize>();
        Ok(Self { share: accounts.take(client, Resource::Kept, call)?, call })
    }

    /// The charge of a call whose request comes in parts.
    pub fn charge(self) -> Charge {
        Charge(Arc::new(Mutex::new(self.share)))
    }

    /// Reads a request of one message to its end, within `limit`. The bytes of the message are charged until they are
    /// dropped. If the call continues, what has been decoded of them is charged as long as the second result lives.
    ///
    /// # Errors
    /// The message has more than `most` bytes, or is not there in time; too many bytes of requests are under way; the
    /// connection fails.
    pub async fn whole(
        self,
        body: Body,
        most: usize,
        limit: Duration,
        continues: bool,
    ) -> Result<(Body, Option<Charge>), Status> {
        let late = |_| Err(Refusal::Late { limit }.into());
        timeout(limit, self.read(body, most, continues)).await.unwrap_or_else(late)
    }

    async fn read(
        self,
        mut body: Body,
        most: usize,
        continues: bool,
    ) -> Result<(Body, Option<Charge>), Status> {
        let Self { mut share, call } = self;
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
                share.grow(room - message.capacity())?;
                message.reserve_exact(room - message.len());
            }
            // Copied, because a piece of a few bytes may keep much more in memory.
            message.extend_from_slice(&data);
            let announced = message.get(1..PREFIX).and_then(|length| length.try_into().ok());
            if announced.is_some_and(|length| u32::from_be_bytes(length) as usize > most) {
                return Err(Refusal::TooLarge { most }.into());
            }
        }
        if continues {
            share.set(call + DECODED * message.len())?;
        }
        let charge = Charge(Arc::new(Mutex::new(share)));
        let continued = continues.then(|| charge.clone());
        let message = CountedMessage { message, _charge: charge };
        Ok((Body::new(Full::new(Bytes::from_owner(message))), continued))
    }
}
