//! The descriptions of the API's messages, for programs that read or write messages field by field.

use prost::{Message, Name};
use prost_reflect::{DescriptorPool, MessageDescriptor};
use prost_types::{FileDescriptorProto, FileDescriptorSet};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{LazyLock, Mutex, PoisonError},
};

/// The definitions of [`crate::FILE_DESCRIPTOR_SET`] without comments, services and options. A file comes after those that it imports.
const MESSAGES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/messages.bin"));

static FILES: LazyLock<Vec<FileDescriptorProto>> = LazyLock::new(|| {
    // The build has made it; tests read it.
    FileDescriptorSet::decode(MESSAGES).unwrap_or_default().file
});

/// What was asked for so far, by the names of messages.
static DESCRIPTORS: Mutex<BTreeMap<String, MessageDescriptor>> = Mutex::new(BTreeMap::new());

/// The description of a message.
///
/// # Errors
/// The definitions of `numaloc.v1` and of what it imports do not have this message.
pub fn descriptor<M: Name>() -> Result<MessageDescriptor, String> {
    let name = M::full_name();
    let mut descriptors = DESCRIPTORS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = descriptors.get(&name) {
        return Ok(known.clone());
    }
    let found = pool(M::PACKAGE, M::NAME)
        .and_then(|pool| pool.get_message_by_name(&name))
        .ok_or_else(|| format!("{name} is not defined"))?;
    descriptors.insert(name, found.clone());
    Ok(found)
}

/// The file that defines a message, and all that it needs: most programs write one message, and checking the definitions of all takes
/// as long as what the program is there for.
fn pool(package: &str, message: &str) -> Option<DescriptorPool> {
    let defines = |file: &FileDescriptorProto| {
        file.package() == package && file.message_type.iter().any(|kind| kind.name() == message)
    };
    let mut needed = BTreeSet::new();
    for file in FILES.iter().rev() {
        if defines(file) || needed.contains(file.name()) {
            needed.insert(file.name());
            needed.extend(file.dependency.iter().map(String::as_str));
        }
    }
    let mut pool = DescriptorPool::new();
    let files = FILES.iter().filter(|file| needed.contains(file.name()));
    pool.add_file_descriptor_protos(files.cloned()).ok()?;
    Some(pool)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_comes_with_what_it_needs_alone() {
        let outcome = descriptor::<crate::v1::Outcome>().expect("it is defined");
        let pool = outcome.parent_pool();
        assert!(pool.get_message_by_name("numaloc.v1.Share").is_some());
        assert!(pool.get_message_by_name("google.protobuf.Duration").is_some());
        assert!(pool.get_message_by_name("numaloc.v1.Job").is_none());
    }

    #[test]
    fn files_come_after_what_they_import() {
        let mut before = BTreeSet::new();
        for file in FILES.iter() {
            for needed in &file.dependency {
                assert!(before.contains(needed), "{needed} for {}", file.name());
            }
            before.insert(file.name().to_owned());
        }
        assert!(before.len() > 20, "{before:?}");
    }
}
