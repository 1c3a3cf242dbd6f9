//! Frames of the socket, and the messages in them. No IO.
//!
//! A frame is a number of 32 bits that names a connection, another that is the length of the payload, and the payload; numbers are
//! big-endian. The payloads of a connection follow each other as the bytes of a stream, however they are cut into frames. In the
//! stream each message has a header of 10 bytes: length of the payload, stream (the number of the call), type, flags.

use crate::{
    Error,
    connection::{PLUGIN, RUNTIME},
};

/// The type of a message that asks.
pub const REQUEST: u8 = 1;
/// The type of a message that answers.
pub const RESPONSE: u8 = 2;
/// Longest payload of a message (`messageLengthMax` in ttrpc's channel.go).
pub const MESSAGE_MAX: usize = 4 << 20;

const FRAME_HEADER: usize = 8;
const MESSAGE_HEADER: usize = 10;
/// Longest payload of a frame (`maxPayloadSize` in mux.go).
const FRAME_MAX: usize = MESSAGE_HEADER + MESSAGE_MAX;
/// The runtime reads the begin of a message into a buffer of this size, and closes the connection if a frame does not fit into it
/// (`conn.Read` in mux.go, `bufio.NewReader` in ttrpc's channel.go). The rest is read into a buffer of the message's
/// size.
const FIRST_FRAME: usize = 4096;

/// A message of ttrpc, with the connection of the multiplexer that carries it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The number of the multiplexed connection, of which a socket of NRI has two.
    pub connection: u32,
    /// The number of the call.
    pub stream: u32,
    /// [`REQUEST`] or [`RESPONSE`]; others are data of streams, which the interface does not have.
    pub kind: u8,
    /// A [`crate::Request`] or [`crate::Response`] in protobuf's wire format.
    pub payload: Vec<u8>,
}

impl Message {
    /// The message in frames.
    ///
    /// # Errors
    /// [`Error::TooLong`].
    pub fn encode(&self) -> Result<Vec<u8>, Error> {
        check("a message", self.payload.len() as u64, MESSAGE_MAX)?;
        let mut message = Vec::with_capacity(MESSAGE_HEADER + self.payload.len());
        // It fits: MESSAGE_MAX is far below 32 bits.
        message.extend((self.payload.len() as u32).to_be_bytes());
        message.extend(self.stream.to_be_bytes());
        message.extend([self.kind, 0]);
        message.extend(&self.payload);
        let mut bytes = Vec::with_capacity(message.len() + 2 * FRAME_HEADER);
        let (first, rest) = message.split_at(message.len().min(FIRST_FRAME));
        for part in [first, rest].into_iter().filter(|part| !part.is_empty()) {
            bytes.extend(self.connection.to_be_bytes());
            bytes.extend((part.len() as u32).to_be_bytes());
            bytes.extend(part);
        }
        Ok(bytes)
    }
}

/// Finds messages in what comes from a socket. It keeps at most one message for each connection, and never reserves memory by a
/// length that the other side has only announced.
#[derive(Debug, Default)]
pub struct Decoder {
    header: Vec<u8>,
    /// The connection of the frame under way, and how many bytes of it are still to come.
    frame: (u32, usize),
    plugin: Vec<u8>,
    runtime: Vec<u8>,
}

impl Decoder {
    /// Takes bytes in, and adds the messages that are complete by now to `messages`.
    ///
    /// # Errors
    /// [`Error::TooLong`], [`Error::NoConnection`]. The bytes that follow cannot be parsed.
    pub fn push(&mut self, mut bytes: &[u8], messages: &mut Vec<Message>) -> Result<(), Error> {
        while !bytes.is_empty() {
            let (connection, left) = self.frame;
            if left == 0 {
                bytes = self.take_header(bytes)?;
                continue;
            }
            let (part, rest) = bytes.split_at(left.min(bytes.len()));
            self.frame = (connection, left - part.len());
            bytes = rest;
            let stream = if connection == PLUGIN { &mut self.plugin } else { &mut self.runtime };
            stream.extend(part);
            take_messages(connection, stream, messages)?;
        }
        Ok(())
    }

    /// Whether something has begun that is not complete.
    pub fn is_within(&self) -> bool {
        let begun = [&self.header, &self.plugin, &self.runtime];
        self.frame.1 > 0 || begun.iter().any(|bytes| !bytes.is_empty())
    }

    /// Takes bytes of a frame's header, and gives back the rest.
    fn take_header<'b>(&mut self, bytes: &'b [u8]) -> Result<&'b [u8], Error> {
        let wanted = FRAME_HEADER - self.header.len();
        let (part, rest) = bytes.split_at(wanted.min(bytes.len()));
        self.header.extend(part);
        if self.header.len() == FRAME_HEADER {
            let (id, length) = (number(&self.header, 0), number(&self.header, 4));
            if id != PLUGIN && id != RUNTIME {
                return Err(Error::NoConnection { id });
            }
            self.frame = (id, check("a frame", length.into(), FRAME_MAX)?);
            self.header.clear();
        }
        Ok(rest)
    }
}

/// Takes all complete messages out of a connection's bytes.
fn take_messages(
    connection: u32,
    bytes: &mut Vec<u8>,
    messages: &mut Vec<Message>,
) -> Result<(), Error> {
    let mut done = 0;
    while let Some(header) = bytes.get(done..done + MESSAGE_HEADER) {
        let length = check("a message", number(header, 0).into(), MESSAGE_MAX)?;
        let (stream, kind) = (number(header, 4), header[8]);
        let start = done + MESSAGE_HEADER;
        let Some(payload) = bytes.get(start..start + length) else { break };
        messages.push(Message { connection, stream, kind, payload: payload.to_vec() });
        done = start + length;
    }
    // Once for all of them: to move the rest for each would be slow for many small ones.
    bytes.drain(..done);
    Ok(())
}

/// The big-endian number at `at`, where there are four bytes.
fn number(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].iter().fold(0, |number, &byte| (number << 8) | u32::from(byte))
}

fn check(what: &'static str, bytes: u64, most: usize) -> Result<usize, Error> {
    match usize::try_from(bytes) {
        Ok(bytes) if bytes <= most => Ok(bytes),
        _ => Err(Error::TooLong { what, bytes, most }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decode(bytes: &[u8], pieces: usize) -> Result<(Vec<Message>, bool), Error> {
        let (mut decoder, mut messages) = (Decoder::default(), Vec::new());
        for piece in bytes.chunks(pieces) {
            decoder.push(piece, &mut messages)?;
        }
        Ok((messages, decoder.is_within()))
    }

    #[test]
    fn a_message_is_these_bytes() {
        let message =
            Message { connection: RUNTIME, stream: 3, kind: REQUEST, payload: b"ab".to_vec() };
        let bytes = [
            0, 0, 0, 2, 0, 0, 0, 12, // the frame
            0, 0, 0, 2, 0, 0, 0, 3, 1, 0, // the message
            b'a', b'b',
        ];
        assert_eq!(message.encode().expect("it fits"), bytes);
        assert_eq!(decode(&bytes, 1).expect("valid"), (vec![message], false));
    }

    #[test]
    fn the_runtime_has_room_for_each_frame() {
        let payload = vec![7; 10_000];
        let message = Message { connection: PLUGIN, stream: 1, kind: RESPONSE, payload };
        let bytes = message.encode().expect("it fits");
        assert_eq!(number(&bytes, 4), 4096);
        assert_eq!(number(&bytes, 8 + 4096 + 4), 10_010 - 4096);
        assert_eq!(decode(&bytes, 999).expect("valid"), (vec![message], false));
    }

    #[test]
    fn lengths_are_bounded_before_anything_is_kept() {
        let (mut decoder, mut messages) = (Decoder::default(), Vec::new());
        let frame = [&1u32.to_be_bytes()[..], &(FRAME_MAX as u32 + 1).to_be_bytes()].concat();
        let refused = decoder.push(&frame, &mut messages);
        assert!(matches!(refused, Err(Error::TooLong { what: "a frame", .. })), "{refused:?}");

        let (mut decoder, huge) = (Decoder::default(), u32::MAX.to_be_bytes());
        let frame = [&1u32.to_be_bytes()[..], &10u32.to_be_bytes(), &huge, &[0; 6]].concat();
        let refused = decoder.push(&frame, &mut messages);
        assert!(matches!(refused, Err(Error::TooLong { what: "a message", .. })), "{refused:?}");

        let mut decoder = Decoder::default();
        let longest = [&2u32.to_be_bytes()[..], &(FRAME_MAX as u32).to_be_bytes()].concat();
        decoder.push(&longest, &mut messages).expect("it is within the bound");
        assert!(decoder.is_within() && decoder.runtime.capacity() == 0);

        let payload = vec![0; MESSAGE_MAX + 1];
        let long = Message { connection: PLUGIN, stream: 1, kind: RESPONSE, payload };
        assert!(matches!(long.encode(), Err(Error::TooLong { .. })));
    }

    #[test]
    fn a_connection_that_nri_does_not_have_is_refused() {
        for id in [0, 3, u32::MAX] {
            let frame = [id.to_be_bytes(), 1u32.to_be_bytes()].concat();
            let refused = Decoder::default().push(&frame, &mut Vec::new());
            assert!(
                matches!(refused, Err(Error::NoConnection { id: told }) if told == id),
                "{refused:?}"
            );
        }
    }

    fn message() -> impl Strategy<Value = Message> {
        let payload = prop_oneof![
            prop::collection::vec(any::<u8>(), 0..40),
            (4000usize..9000).prop_map(|length| vec![5; length]),
        ];
        let parts = (prop_oneof![Just(PLUGIN), Just(RUNTIME)], any::<u32>(), any::<u8>(), payload);
        parts.prop_map(|(connection, stream, kind, payload)| Message {
            connection,
            stream,
            kind,
            payload,
        })
    }

    proptest! {
        #[test]
        fn what_is_sent_arrives_however_it_is_cut(
            messages in prop::collection::vec(message(), 0..8), pieces in 1usize..9000,
        ) {
            let bytes = messages.iter().map(|message| message.encode().expect("it fits"));
            let bytes = bytes.collect::<Vec<_>>().concat();
            prop_assert_eq!(decode(&bytes, pieces).expect("valid"), (messages, false));
        }

        /// Frames of both connections may come in any order, and cut messages anywhere.
        #[test]
        fn frames_may_cut_messages_anywhere(message in message(), at in any::<prop::sample::Index>()) {
            let whole = message.encode().expect("it fits");
            let mut stream = Vec::new();
            let mut rest = &whole[..];
            while !rest.is_empty() {
                let length = number(rest, 4) as usize;
                stream.extend(&rest[8..8 + length]);
                rest = &rest[8 + length..];
            }
            let (first, second) = stream.split_at(at.index(stream.len()));
            let frame = |connection: u32, part: &[u8]| {
                [&connection.to_be_bytes()[..], &(part.len() as u32).to_be_bytes(), part].concat()
            };
            let other = Message { connection: 3 - message.connection, stream: 9, kind: 1, payload: vec![1] };
            let between = other.encode().expect("it fits");
            let bytes = [frame(message.connection, first), between, frame(message.connection, second)];
            let (found, within) = decode(&bytes.concat(), 7).expect("valid");
            prop_assert_eq!((found, within), (vec![other, message], false));
        }

        #[test]
        fn garbage_is_an_error_or_waits_for_more(bytes in prop::collection::vec(any::<u8>(), 0..300), pieces in 1usize..50) {
            if let Ok((messages, _)) = decode(&bytes, pieces) {
                prop_assert!(messages.len() <= bytes.len() / MESSAGE_HEADER);
            }
        }

        /// Garbage that begins as a frame should, so that it gets further.
        #[test]
        fn garbage_in_frames_never_panics(
            parts in prop::collection::vec((1u32..3, prop::collection::vec(0u8..4, 0..60)), 0..20),
        ) {
            let frame = |(connection, part): (u32, Vec<u8>)| {
                [&connection.to_be_bytes()[..], &(part.len() as u32).to_be_bytes(), &part].concat()
            };
            let bytes = parts.into_iter().map(frame).collect::<Vec<_>>().concat();
            let whole = decode(&bytes, bytes.len().max(1));
            let cut = decode(&bytes, 1);
            prop_assert_eq!(whole.is_ok(), cut.is_ok(), "how it is cut makes a difference");
            if let (Ok(whole), Ok(cut)) = (whole, cut) {
                prop_assert_eq!(whole, cut);
            }
        }
    }
}
