//! Every call by every kind of caller, over real connections.

mod local;
mod remote;

use super::{
    rules::{Said, api},
    server::{Answer, answer},
};
use std::collections::BTreeMap;
use tonic::{Code, transport::Channel};

/// The rights of a caller, from nothing to everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Has {
    Nothing,
    Viewer,
    Operator,
    Admin,
}

/// Makes each call of the API, and returns its answer by its path.
async fn answers(channel: &Channel) -> BTreeMap<String, Answer> {
    let mut answers = BTreeMap::new();
    for path in api().into_keys() {
        let answer = answer(channel, &path).await;
        answers.insert(path, answer);
    }
    answers
}

/// Checks the answers to each call of the API made by `name`, a caller with these rights.
#[track_caller]
fn check(name: &str, has: Has, answers: &BTreeMap<String, Answer>) {
    let api = api();
    assert_eq!(answers.keys().collect::<Vec<_>>(), api.keys().collect::<Vec<_>>());
    for (path, said) in api {
        let allowed = match said {
            Said::Everybody => true,
            Said::Viewer => has >= Has::Viewer,
            Said::Operator => has >= Has::Operator,
            Said::Admin => has >= Has::Admin,
        };
        let (code, message) = &answers[&path];
        if allowed {
            let who = if has == Has::Nothing { "nobody" } else { name };
            let reached = format!("reached by {who}");
            assert_eq!((*code, message), (Code::Unimplemented, &reached), "{name} {path}");
        } else {
            assert_eq!(*code, Code::PermissionDenied, "{name} {path}: {message}");
            assert!(message.contains(&format!(", {name} has ")), "{name} {path}: {message}");
        }
    }
}
