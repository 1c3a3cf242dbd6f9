use super::*;
use crate::{access::tests::Log, config::Role};
use numaloc_api::value::Target;
use numaloc_api::{v1, value::MigrationSpec};
use numaloc_engine::Authority;
use std::{future::pending, time::Duration};
use tokio::{sync::oneshot, time::timeout};
use tonic::Code;

fn job(target: Target) -> String {
    let spec = MigrationSpec { target, ..Default::default() };
    CreateJob { spec, ..CreateJob::default() }.subject()
}

#[test]
fn a_line_names_a_few_of_many() {
    let pids = (1..=4096).collect();
    assert_eq!(job(Target { pids, ..Default::default() }), "process 1, 2, 3 and 4093 more");
    let target = Target {
        pids: [7].into(),
        cgroups: ["/a".to_owned()].into(),
        labels: [("app".to_owned(), "web".to_owned())].into(),
        ..Default::default()
    };
    assert_eq!(job(target), "process 7; cgroup /a; label app=web");
}

/// The subjects in the audit log, each with its result.
fn lines(log: &Log) -> Vec<(String, String)> {
    let field = |line: &str, name: &str| {
        let (_, rest) = line.split_once(&format!("{name}=\"")).unwrap();
        rest.split_once('"').unwrap().0.to_owned()
    };
    let told = |line: String| {
        assert!(line.contains("method=\"CancelJob\""), "{line}");
        (field(&line, "subject"), field(&line, "result"))
    };
    log.lines().into_iter().map(told).collect()
}

fn told(lines: &[(&str, &str)]) -> Vec<(String, String)> {
    lines.iter().map(|&(subject, result)| (subject.to_owned(), result.to_owned())).collect()
}

fn read(name: &str) -> Result<(ChangeRequest, JobId), Status> {
    let mut request = Request::new(v1::CancelJobRequest { name: name.to_owned() });
    let name = "uid:7".to_owned();
    let caller = Caller {
        name,
        gid: None,
        role: Role::Operator,
        authority: Authority::All,
        ceilings: crate::config::Ceilings::NONE,
    };
    request.extensions_mut().insert(caller);
    ChangeRequest::read("CancelJob", request)
}

fn not_found<T>() -> Result<T, Refusal> {
    Err(Refusal::NotFound { name: "jobs/7".to_owned() })
}

#[tokio::test]
async fn each_end_of_a_change_is_one_line() {
    let (log, _guard) = Log::start();
    assert_eq!(read("job 7").unwrap_err().code(), Code::InvalidArgument);
    let change = || read("jobs/7").unwrap().0;
    let status = change().first(async { not_found::<()>() }).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
    assert_eq!(
        change().make(async { not_found::<()>() }).await.unwrap_err().code(),
        Code::NotFound
    );
    let change = change();
    assert_eq!(change.first(async { Ok(5) }).await.unwrap(), 5);
    let made = change.create(async { Ok(6) }, |made| Some(format!("made/{made}"))).await;
    assert_eq!(made.unwrap(), 6);
    let expected = [
        ("-", "InvalidArgument"),
        ("jobs/7", "NotFound"),
        ("jobs/7", "NotFound"),
        ("made/6 (jobs/7)", "ok"),
    ];
    assert_eq!(lines(&log), told(&expected));
}

#[tokio::test]
async fn a_change_whose_code_panics_is_a_line_too() {
    let (log, _guard) = Log::start();
    let (change, _) = read("jobs/7").unwrap();
    let make = async { panic!("this panic belongs to the test") };
    assert_eq!(change.make::<()>(make).await.unwrap_err().code(), Code::Internal);
    assert_eq!(lines(&log), told(&[("jobs/7", "Internal")]));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_ends_looking_and_not_a_change() {
    let (log, _guard) = Log::start();
    let (change, _) = read("jobs/7").unwrap();
    let soon = Duration::from_secs(1);
    assert!(timeout(soon, change.first(pending::<Result<(), Refusal>>())).await.is_err());
    assert_eq!(lines(&log), told(&[]));
    let (done, wait) = oneshot::channel();
    let make = async move {
        wait.await.unwrap();
        Ok(())
    };
    assert!(timeout(soon, change.make(make)).await.is_err());
    assert_eq!(lines(&log), told(&[]));
    done.send(()).unwrap();
    tokio::time::sleep(soon).await;
    assert_eq!(lines(&log), told(&[("jobs/7", "ok")]));
}
