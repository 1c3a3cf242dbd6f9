use crate::access::{
    lines::CallKind,
    rules::{self, Need, RULES},
};
use prost::Message;
use prost_types::{FileDescriptorProto, FileDescriptorSet};
use std::collections::BTreeMap;

/// The callers that may make a call, as the API's definition says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Said {
    Everybody,
    Viewer,
    Operator,
    Admin,
}

/// All calls of the server. Who may make them is read from the comment of their service in the proto files. For
/// services of other APIs (health, reflection) it is written here.
pub(super) fn api() -> BTreeMap<String, Said> {
    let mut calls = BTreeMap::new();
    for file in files(numaloc_api::FILE_DESCRIPTOR_SET) {
        for (index, service) in file.service.iter().enumerate() {
            let comment = comment(&file, index);
            for method in &service.method {
                let path = format!("/{}.{}/{}", file.package(), service.name(), method.name());
                calls.insert(path, said(&comment, method.name()));
            }
        }
    }
    for set in [
        tonic_health::pb::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
    ] {
        for file in files(set) {
            for service in &file.service {
                for method in &service.method {
                    let path = format!("/{}.{}/{}", file.package(), service.name(), method.name());
                    let open = method.name() == "Check";
                    calls.insert(path, if open { Said::Everybody } else { Said::Viewer });
                }
            }
        }
    }
    calls
}

fn files(set: &[u8]) -> Vec<FileDescriptorProto> {
    FileDescriptorSet::decode(set).expect("the set is ours").file
}

/// The comment before the service in the file, on one line.
fn comment(file: &FileDescriptorProto, index: usize) -> String {
    const SERVICE: i32 = 6;
    let place = [SERVICE, i32::try_from(index).expect("few services")];
    let info = file.source_code_info.as_ref().expect("comments are kept");
    let found = info.location.iter().find(|location| location.path == place);
    let text = found.and_then(|location| location.leading_comments.as_deref());
    text.unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
}

fn said(comment: &str, method: &str) -> Said {
    if comment.to_lowercase().contains("the role viewer suffices") {
        return Said::Viewer;
    }
    let splits = [("operator", Said::Operator), ("admin", Said::Admin)];
    let rest = splits.into_iter().find(|(role, _)| {
        comment.contains(&format!("Reading needs the role viewer, all else the role {role}."))
    });
    let (_, rest) =
        rest.unwrap_or_else(|| panic!("who may call {method}? Its service says: {comment}"));
    let reads = ["Get", "List", "Watch", "Plan"].iter().any(|verb| method.starts_with(verb));
    if reads { Said::Viewer } else { rest }
}

#[test]
fn each_call_has_one_rule_and_each_rule_a_call() {
    let mut ruled: Vec<_> = RULES.iter().map(|rule| rule.path).collect();
    ruled.sort_unstable();
    let calls = api();
    assert!(calls.len() > 25, "{} calls found", calls.len());
    assert_eq!(ruled, calls.keys().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn what_takes_more_than_a_viewer_is_a_change() {
    for rule in RULES {
        let more = matches!(rule.need, Need::Role(role) if role > crate::config::Role::Viewer);
        assert_eq!(rule.is_change(), more, "{}", rule.path);
    }
}

/// The kind of a call follows from its name. A call that does not fit fails here, so that its cost is considered.
#[test]
fn calls_are_of_the_kind_that_their_name_says() {
    for rule in RULES {
        let method = rule.method();
        let kind = match method {
            "GetStatus" | "GetJob" | "GetSchedule" | "GetWorkload" | "Check" => CallKind::Read,
            "ReplaceWorkloads" => CallKind::Bulk,
            "GetAdvice" => CallKind::Advice,
            "GetTopology" | "GetLocality" | "GetLiveView" | "GetNodeContents" | "GetMetrics"
            | "PlanMigration" => CallKind::List,
            "Watch" | "ServerReflectionInfo" => CallKind::Stream,
            _ if method.starts_with("List") => CallKind::List,
            _ if method.starts_with("Watch") => CallKind::Watch,
            _ => CallKind::Change,
        };
        assert_eq!(rule.kind, kind, "{}", rule.path);
    }
}

#[test]
fn only_the_exact_path_has_a_rule() {
    let path = "/numaloc.v1.MigrationService/GetJob";
    assert_eq!(rules::find(path).map(rules::Rule::method), Some("GetJob"));
    for other in
        ["", "/", &path[1..], &format!("{path}/"), &path.to_lowercase(), &format!("/{path}")]
    {
        assert_eq!(rules::find(other), None, "{other}");
    }
}
