//! Generates well-formed messages with any contents from the descriptors.

use crate::FILE_DESCRIPTOR_SET;
use prost::{Message, encoding::encode_varint};
use prost_types::{
    DescriptorProto, FieldDescriptorProto, FileDescriptorSet, field_descriptor_proto::Type,
};
use std::collections::BTreeMap;

/// Numbers and texts at the bounds of the fields, and beyond.
const NUMBERS: [i64; 16] =
    [0, 1, 2, 3, 10, 60, 100, 101, 150, 4096, 65_536, 999_999_999, -1, 1 << 62, i64::MIN, i64::MAX];
const TEXTS: [&str; 16] = [
    "",
    "a",
    "/a",
    "/a/../b",
    "..",
    "jobs/1",
    "schedules/1",
    "workloads/1",
    "events/1",
    "*",
    "interval",
    "spec",
    "a b",
    "\0",
    "\u{e4}\u{10ffff}",
    "redis.service",
];

/// All message types by their names.
pub struct Types {
    messages: BTreeMap<String, DescriptorProto>,
    /// The types of the RPCs' requests.
    pub requests: Vec<String>,
}

impl Types {
    pub fn new() -> Self {
        let set = FileDescriptorSet::decode(FILE_DESCRIPTOR_SET).unwrap();
        let services = set.file.iter().flat_map(|file| &file.service);
        let methods = services.flat_map(|service| &service.method);
        let requests = methods.map(|method| method.input_type().to_owned()).collect();
        let mut messages = BTreeMap::new();
        for file in &set.file {
            for message in &file.message_type {
                add(&mut messages, &format!(".{}", file.package()), message);
            }
        }
        Self { messages, requests }
    }

    /// A message whose fields and values follow `choices`. When these are used up, no more fields are added.
    pub fn message(
        &self,
        name: &str,
        choices: &mut impl Iterator<Item = u8>,
        depth: usize,
    ) -> Vec<u8> {
        let mut bytes = Vec::new();
        for field in &self.messages[name].field {
            let repeats = choices.next().unwrap_or(0) % 4;
            // Half of the fields have a value, and some of them have two.
            for _ in 1..repeats.max(1) {
                self.field(field, choices, depth, &mut bytes);
            }
        }
        bytes
    }

    fn field(
        &self,
        field: &FieldDescriptorProto,
        choices: &mut impl Iterator<Item = u8>,
        depth: usize,
        bytes: &mut Vec<u8>,
    ) {
        let choice = usize::from(choices.next().unwrap_or(0));
        let key = u64::try_from(field.number()).unwrap() << 3;
        let body = match field.r#type() {
            Type::Message if depth == 0 => return,
            Type::Message => self.message(field.type_name(), choices, depth - 1),
            Type::String => TEXTS[choice % TEXTS.len()].as_bytes().to_vec(),
            Type::Int32 | Type::Int64 | Type::Uint32 | Type::Bool | Type::Enum => {
                encode_varint(key, bytes);
                encode_varint(NUMBERS[choice % NUMBERS.len()].cast_unsigned(), bytes);
                return;
            }
            other => panic!("no request had a field of type {other:?} before"),
        };
        encode_varint(key | 2, bytes);
        encode_varint(body.len() as u64, bytes);
        bytes.extend(body);
    }
}

fn add(messages: &mut BTreeMap<String, DescriptorProto>, scope: &str, message: &DescriptorProto) {
    let name = format!("{scope}.{}", message.name());
    for nested in &message.nested_type {
        add(messages, &name, nested);
    }
    messages.insert(name, message.clone());
}
