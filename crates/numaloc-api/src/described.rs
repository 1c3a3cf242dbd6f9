//! The descriptions of the API's messages, for programs that read messages field by field.

use crate::{FILE_DESCRIPTOR_SET, Violations, v1, value::ScheduleSpec};
use prost::Name;
use prost_reflect::{DescriptorPool, DeserializeOptions, DynamicMessage, MessageDescriptor};
use serde::de::{Deserializer, Error};
use std::sync::LazyLock;

static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
    // The build has made it; tests read it.
    DescriptorPool::decode(FILE_DESCRIPTOR_SET).unwrap_or_default()
});

/// The description of a message.
///
/// # Errors
/// The definitions of `numaloc.v1` and of what it imports do not have this message.
pub fn descriptor<M: Name>() -> Result<MessageDescriptor, String> {
    let name = M::full_name();
    POOL.get_message_by_name(&name).ok_or_else(|| format!("{name} is not defined"))
}

/// Reads a message by protobuf's JSON mapping, from JSON or from another format with the same kinds of values. Names of fields are those
/// of the definitions.
///
/// # Errors
/// A field that the message does not have, or a value that its field cannot have.
pub fn read_message<'de, M, D>(from: D) -> Result<M, D::Error>
where
    M: prost::Message + Name + Default,
    D: Deserializer<'de>,
{
    let options = DeserializeOptions::new().deny_unknown_fields(true);
    let descriptor = descriptor::<M>().map_err(D::Error::custom)?;
    let message = DynamicMessage::deserialize_with_options(descriptor, from, &options)?;
    message.transcode_to().map_err(D::Error::custom)
}

/// Reads a message Schedule as [`read_message`] does: its name, and what it sets or what is wrong with that.
///
/// # Errors
/// Those of [`read_message`].
pub fn read_schedule<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<(String, Result<ScheduleSpec, Violations>), D::Error> {
    let mut schedule: v1::Schedule = read_message(from)?;
    Ok((std::mem::take(&mut schedule.name), schedule.try_into()))
}

/// A message as its definition describes it.
#[cfg(test)]
pub fn dynamic<M: prost::Message + Name>(message: &M) -> DynamicMessage {
    let mut dynamic = DynamicMessage::new(descriptor::<M>().expect("it is defined"));
    dynamic.transcode_from(message).expect("its bytes");
    dynamic
}
