//! Messages of the API as JSON, in protobuf's mapping with the field names of the definitions. Numbers are numbers, also those of
//! 64 bits, and fields at their defaults are included; what is unset is left out.

use numaloc_api::descriptor;
use prost::{Message, Name};
use prost_reflect::{DeserializeOptions, DynamicMessage, SerializeOptions};
use serde::{Deserializer, Serialize, Serializer, de, ser};

/// A message that is written as JSON.
pub struct Json<'a, M>(pub &'a M);

impl<M: Message + Name> Serialize for Json<'_, M> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut message = DynamicMessage::new(descriptor::<M>().map_err(ser::Error::custom)?);
        message.transcode_from(self.0).map_err(ser::Error::custom)?;
        let options = SerializeOptions::new()
            .stringify_64_bit_integers(false)
            .use_proto_field_name(true)
            .skip_default_fields(false);
        message.serialize_with_options(serializer, &options)
    }
}

/// Writes a list of messages, for documents that have such a list.
///
/// # Errors
/// Those of the serializer.
pub fn list<M: Message + Name, S: Serializer>(
    messages: &[M],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(messages.iter().map(Json))
}

/// Reads a message.
///
/// # Errors
/// The message has no field of that name, or a value is not of its field's type.
pub fn read<'de, M: Message + Name + Default, D: Deserializer<'de>>(
    from: D,
) -> Result<M, D::Error> {
    let descriptor = descriptor::<M>().map_err(de::Error::custom)?;
    let options = DeserializeOptions::new().deny_unknown_fields(true);
    let message = DynamicMessage::deserialize_with_options(descriptor, from, &options)?;
    message.transcode_to().map_err(de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaloc_api::v1;

    #[test]
    fn numbers_are_numbers_and_names_those_of_the_definitions() {
        let share = v1::Share { local_bytes: 1 << 60, remote_bytes: 0, local_percent: 100.0 };
        let outcome = v1::Outcome {
            elapsed: Some(prost_types::Duration { seconds: 0, nanos: 250_000_000 }),
            movable_before: Some(share),
            ..v1::Outcome::default()
        };
        let shown = serde_json::to_value(Json(&outcome)).unwrap();
        assert_eq!(shown["movable_before"]["local_bytes"], 1_u64 << 60);
        assert_eq!(shown["movable_before"]["remote_bytes"], 0);
        assert_eq!(shown["elapsed"], "0.250s");
        assert!(shown["flows"].is_array() && shown.get("account").is_none(), "{shown}");
    }

    #[test]
    fn what_is_written_is_read() {
        let event = v1::Event {
            name: "events/12".to_owned(),
            r#type: v1::EventType::FightBegun.into(),
            create_time: Some(prost_types::Timestamp { seconds: 1_780_000_000, nanos: 0 }),
            remote_bytes: Some(4096),
            ..v1::Event::default()
        };
        let text = serde_json::to_string(&Json(&event)).unwrap();
        assert!(text.contains("\"EVENT_TYPE_FIGHT_BEGUN\""), "{text}");
        assert!(text.contains("\"2026-05-28T20:26:40Z\""), "{text}");
        let read: v1::Event = read(&mut serde_json::Deserializer::from_str(&text)).unwrap();
        assert_eq!(read, event);
    }

    #[test]
    fn a_number_that_only_a_newer_daemon_knows_is_kept() {
        let left = v1::LeftBytes { reason: 99, bytes: 5 };
        assert_eq!(serde_json::to_string(&Json(&left)).unwrap(), r#"{"reason":99,"bytes":5}"#);
    }
}
