//! Compares `docs/reference.md` with the comments in `proto/numaloc/v1`, of which it is made.

use numaloc_api::FILE_DESCRIPTOR_SET;
use prost::Message;
use prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto,
    FileDescriptorSet, MethodDescriptorProto, ServiceDescriptorProto,
    field_descriptor_proto::{Label, Type},
};
use std::{collections::BTreeMap, env, fs};

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference.md");

const BEGIN: &str = "\
# Reference of numaloc.v1

Services first, then messages, then enums. [api.md](api.md) says what holds for all of them.

This page is made of the comments in `proto/numaloc/v1`. After a change there,
`NUMALOC_REFERENCE=write cargo test -p numaloc-api --test reference` writes it again.

";

#[test]
fn the_reference_is_what_the_definitions_say() {
    let reference = reference();
    if env::var("NUMALOC_REFERENCE").is_ok_and(|value| value == "write") {
        fs::write(PATH, &reference).expect("docs/reference.md can be written");
    }
    let page = fs::read_to_string(PATH).expect("docs/reference.md is there");
    let mut lines = (1..).zip(page.lines().zip(reference.lines()));
    let other = lines.find(|(_, (is, should_be))| is != should_be);
    assert!(
        page == reference,
        "docs/reference.md differs from the definitions ({} lines, should be {}), first in {other:#?}\n\
         run this test with NUMALOC_REFERENCE=write, and look at what it has changed",
        page.lines().count(),
        reference.lines().count(),
    );
}

/// Builds the whole page docs/reference.md from the definitions.
fn reference() -> String {
    let set = FileDescriptorSet::decode(FILE_DESCRIPTOR_SET).expect("it was encoded by the build");
    let mut files = set.file;
    files.retain(|file| file.package() == "numaloc.v1");
    files.sort_by(|a, b| a.name().cmp(b.name()));
    let behaviors = behaviors();
    let mut page = BEGIN.to_owned();
    let services = files.iter().flat_map(|file| &file.service);
    let services: Vec<String> =
        services.map(|item| linked(&format!(".numaloc.v1.{}", item.name()))).collect();
    page.push_str(&format!("- [Services](#services): {}\n", services.join(", ")));
    page.push_str("- [Messages](#messages)\n- [Enums](#enums)\n");
    page.push_str("\n## Services\n");
    for file in &files {
        let comments = Comments::of(file);
        for (index, item) in (0..).zip(&file.service) {
            service(&mut page, item, &comments, index);
        }
    }
    page.push_str("\n## Messages\n");
    for file in &files {
        let comments = Comments::of(file);
        for (index, item) in (0..).zip(&file.message_type) {
            message(&mut page, item, &comments, index, &behaviors);
        }
    }
    page.push_str("\n## Enums\n");
    for file in &files {
        let comments = Comments::of(file);
        for (index, item) in (0..).zip(&file.enum_type) {
            enumeration(&mut page, item, &comments, index);
        }
    }
    page
}

fn service(page: &mut String, service: &ServiceDescriptorProto, comments: &Comments, index: i32) {
    page.push_str(&format!("\n### {}\n\n{}\n", service.name(), comments.text(&[6, index])));
    for (number, method) in (0..).zip(&service.method) {
        let text = comments.text(&[6, index, 2, number]);
        page.push_str(&format!("\n#### {}\n\n{}\n\n{text}\n", method.name(), signature(method)));
    }
}

/// The request and response of a call, as text.
fn signature(method: &MethodDescriptorProto) -> String {
    let side = |is_stream: bool, name: &str| {
        let many = if is_stream { "a stream of " } else { "" };
        format!("{many}{}", linked(name))
    };
    let takes = side(method.client_streaming(), method.input_type());
    let gives = side(method.server_streaming(), method.output_type());
    format!("Takes {takes}, gives {gives}.")
}

fn message(
    page: &mut String,
    message: &DescriptorProto,
    comments: &Comments,
    index: i32,
    behaviors: &Behaviors,
) {
    page.push_str(&format!("\n### {}\n\n{}\n", message.name(), comments.text(&[4, index])));
    for (number, oneof) in (0..).zip(&message.oneof_decl) {
        if let Some(text) = comments.find(&[4, index, 8, number]) {
            page.push_str(&format!("\n`{}`: {text}\n", oneof.name()));
        }
    }
    if message.field.is_empty() {
        return;
    }
    page.push_str("\n| field | type | behavior | what it is |\n|---|---|---|---|\n");
    for (number, field) in (0..).zip(&message.field) {
        let key = (message.name().to_owned(), field.name().to_owned());
        let behavior = behaviors.get(&key).map_or("", String::as_str);
        let text = cell(&comments.text(&[4, index, 2, number]));
        let kind = kind(field, message);
        page.push_str(&format!("| `{}` | {kind} | {behavior} | {text} |\n", field.name()));
    }
}

/// The type of a field.
fn kind(field: &FieldDescriptorProto, message: &DescriptorProto) -> String {
    let one = match field.r#type() {
        Type::Message | Type::Enum => linked(field.type_name()),
        scalar => format!("`{}`", scalar.as_str_name().trim_start_matches("TYPE_").to_lowercase()),
    };
    let entry = message.nested_type.iter().find(|nested| {
        field.type_name().ends_with(&format!(".{}.{}", message.name(), nested.name()))
    });
    if let Some([key, value]) = entry.map(|entry| entry.field.as_slice()) {
        return format!("map of {} to {}", kind(key, message), kind(value, message));
    }
    let oneof = field.oneof_index.and_then(|index| {
        let index = usize::try_from(index).ok()?;
        message.oneof_decl.get(index)
    });
    match (field.label(), oneof) {
        (Label::Repeated, _) => format!("list of {one}"),
        // The compiler makes a oneof of each optional field.
        (_, Some(_)) if field.proto3_optional() => format!("{one}, or unset"),
        (_, Some(oneof)) => format!("{one}, one of `{}`", oneof.name()),
        _ => one,
    }
}

fn enumeration(page: &mut String, item: &EnumDescriptorProto, comments: &Comments, index: i32) {
    page.push_str(&format!("\n### {}\n\n{}\n", item.name(), comments.text(&[5, index])));
    page.push_str("\n| value | number | what it is |\n|---|---|---|\n");
    for (number, value) in (0..).zip(&item.value) {
        let text = cell(&comments.text(&[5, index, 2, number]));
        page.push_str(&format!("| `{}` | {} | {text} |\n", value.name(), value.number()));
    }
}

/// A name of ours leads to its heading; all others are of Google's well-known types.
fn linked(name: &str) -> String {
    match name.strip_prefix(".numaloc.v1.") {
        Some(own) => format!("[{own}](#{})", own.to_lowercase()),
        None => format!("`{}`", name.trim_start_matches('.')),
    }
}

/// Paragraphs as the text of a cell.
fn cell(text: &str) -> String {
    text.replace("\n\n", " ").replace('|', "\\|")
}

/// The comments before the items of a file, by the items' paths (google/protobuf/descriptor.proto, SourceCodeInfo).
struct Comments(BTreeMap<Vec<i32>, String>);

impl Comments {
    fn of(file: &FileDescriptorProto) -> Self {
        let locations = file.source_code_info.iter().flat_map(|info| &info.location);
        let comments = locations.filter_map(|location| {
            Some((location.path.clone(), location.leading_comments.clone()?))
        });
        Self(comments.collect())
    }

    fn text(&self, path: &[i32]) -> String {
        self.find(path).unwrap_or_else(|| panic!("no comment at {path:?}"))
    }

    /// Its paragraphs, each as one line.
    fn find(&self, path: &[i32]) -> Option<String> {
        let lines: Vec<&str> = self.0.get(path)?.trim().lines().map(str::trim).collect();
        let paragraphs = lines.split(|line| line.is_empty()).map(|lines| lines.join(" "));
        Some(paragraphs.collect::<Vec<_>>().join("\n\n"))
    }
}

/// The google.api.field_behavior of fields, by message and field.
type Behaviors = BTreeMap<(String, String), String>;

/// prost leaves out options that it does not know. So they are read a second time.
fn behaviors() -> Behaviors {
    let set = options::Set::decode(FILE_DESCRIPTOR_SET).expect("it was encoded by the build");
    let messages = set.files.into_iter().flat_map(|file| file.messages);
    let fields = messages.flat_map(|message| {
        let name = message.name;
        message.fields.into_iter().map(move |field| (name.clone(), field))
    });
    let behaviors = fields.filter_map(|(message, field)| {
        let names = field.options?.behaviors.into_iter().map(|behavior| match behavior {
            1 => "OPTIONAL".to_owned(),
            2 => "REQUIRED".to_owned(),
            3 => "OUTPUT_ONLY".to_owned(),
            8 => "IDENTIFIER".to_owned(),
            other => panic!("{message}.{}: name the field_behavior {other} here", field.name),
        });
        let names = names.collect::<Vec<_>>().join(", ");
        Some(((message, field.name), names))
    });
    behaviors.collect()
}

/// The part of a FileDescriptorSet that leads to google.api.field_behavior.
mod options {
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Set {
        #[prost(message, repeated, tag = "1")]
        pub files: Vec<File>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct File {
        #[prost(message, repeated, tag = "4")]
        pub messages: Vec<Described>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Described {
        #[prost(string, tag = "1")]
        pub name: String,
        #[prost(message, repeated, tag = "2")]
        pub fields: Vec<Field>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Field {
        #[prost(string, tag = "1")]
        pub name: String,
        #[prost(message, optional, tag = "8")]
        pub options: Option<Options>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Options {
        #[prost(int32, repeated, tag = "1052")]
        pub behaviors: Vec<i32>,
    }
}
