//! The descriptions of the API's messages, for programs that read messages field by field.

use crate::FILE_DESCRIPTOR_SET;
use prost::Name;
#[cfg(test)]
use prost_reflect::DynamicMessage;
use prost_reflect::{DescriptorPool, MessageDescriptor};
use std::sync::LazyLock;

static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
    // The build has made it; tests read it.
    DescriptorPool::decode(FILE_DESCRIPTOR_SET).unwrap_or_default()
});

/// The description of a message.
///
/// # Errors
/// The definitions of `numaloc.v1` and of its imports do not have this message.
pub fn descriptor<M: Name>() -> Result<MessageDescriptor, String> {
    let name = M::full_name();
    POOL.get_message_by_name(&name).ok_or_else(|| format!("{name} is not defined"))
}

/// A message as its definition describes it.
#[cfg(test)]
pub fn dynamic<M: prost::Message + Name>(message: &M) -> DynamicMessage {
    let mut dynamic = DynamicMessage::new(descriptor::<M>().expect("it is defined"));
    dynamic.transcode_from(message).expect("its bytes");
    dynamic
}
