//! Has the messages derive `serde::Serialize` such that they write protobuf's JSON mapping (protobuf.dev/programming-guides/json).
//! Fields have their names of the definitions; what differs from serde's own mapping is in `src/json.rs`.

use prost_types::{
    DescriptorProto, FieldDescriptorProto, FileDescriptorSet,
    field_descriptor_proto::{Label, Type},
};
use std::{collections::BTreeSet, fmt::Write};
use tonic_prost_build::Config;

const PACKAGE: &str = "numaloc.v1";

/// Sets the attributes of all messages but requests, which are not written. Returns the source that enumerations need.
pub fn derive(set: &FileDescriptorSet, config: &mut Config) -> String {
    let mut enumerations = String::new();
    for file in set.file.iter().filter(|file| file.package() == PACKAGE) {
        for message in file.message_type.iter().filter(|message| is_written(message)) {
            derive_message(message, config);
        }
        for kind in &file.enum_type {
            // Writing to a string does not fail.
            let _ = writeln!(enumerations, "enumeration!({});", kind.name());
        }
    }
    enumerations
}

fn is_written(message: &DescriptorProto) -> bool {
    !message.name().ends_with("Request")
        && message.field.iter().all(|field| field.r#type() != Type::Bytes)
}

fn derive_message(message: &DescriptorProto, config: &mut Config) {
    const DERIVE: &str = "#[cfg_attr(any(test, feature = \"json\"), derive(serde::Serialize))]";
    let path = format!(".{PACKAGE}.{}", message.name());
    config.message_attribute(&path, DERIVE);
    let mut choices = BTreeSet::new();
    for field in &message.field {
        let field_path = match choice_of(message, field) {
            Some(choice) => format!("{path}.{choice}.{}", field.name()),
            None => format!("{path}.{}", field.name()),
        };
        for attribute in attributes(message, field) {
            config.field_attribute(&field_path, serde(&attribute));
        }
        choices.extend(choice_of(message, field));
    }
    for choice in choices {
        config.type_attribute(format!("{path}.{choice}"), DERIVE);
        // A path that begins with a dot is that of all fields below it, too.
        let field = format!("{PACKAGE}.{}.{choice}", message.name());
        config.field_attribute(field, serde("flatten"));
    }
}

fn serde(attribute: &str) -> String {
    format!("#[cfg_attr(any(test, feature = \"json\"), serde({attribute}))]")
}

/// The oneof that a field is in.
fn choice_of<'a>(message: &'a DescriptorProto, field: &FieldDescriptorProto) -> Option<&'a str> {
    let index = field.oneof_index.filter(|_| !field.proto3_optional())?;
    Some(message.oneof_decl[usize::try_from(index).ok()?].name())
}

/// The attributes by which serde handles a field.
fn attributes(message: &DescriptorProto, field: &FieldDescriptorProto) -> Vec<String> {
    if choice_of(message, field).is_some() {
        return vec![format!("rename = \"{}\"", field.name())];
    }
    let kind = field.type_name();
    let name = kind.rsplit('.').next().unwrap_or(kind);
    let form = match field.r#type() {
        Type::Enum => Some(format!("Enumeration<crate::v1::{name}>")),
        Type::Message if kind.starts_with(".google.protobuf.") => {
            Some(format!("Text<prost_types::{name}>"))
        }
        Type::Double => Some("Double".to_owned()),
        _ => None,
    };
    let is_list = field.label() == Label::Repeated;
    let may_be_unset = !is_list && (field.r#type() == Type::Message || field.proto3_optional());
    let count = if is_list {
        "list"
    } else if may_be_unset {
        "optional"
    } else {
        "single"
    };
    let unset = may_be_unset.then(|| "skip_serializing_if = \"Option::is_none\"".to_owned());
    let with =
        |form| format!("serialize_with = \"crate::json::{count}::<crate::json::{form}, _>\"");
    unset.into_iter().chain(form.map(with)).collect()
}
