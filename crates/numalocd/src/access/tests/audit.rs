use crate::{
    access::{Caller, Denials, audit},
    config::Role,
    refusal::Refusal,
};
use numaloc_engine::Authority;
use parking_lot::Mutex;
use std::{
    io,
    sync::{Arc, LazyLock},
    thread,
};
use tracing::{Dispatch, info};
use tracing_subscriber::fmt::MakeWriter;

/// The text that has been logged.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

/// A second subscriber, which no thread uses. While a process has a single one, tracing asks the thread that reaches an
/// event first whether it is wanted, and keeps the answer for all threads (`Rebuilder::JustOne` in callsite.rs of
/// tracing-core). Another test's thread, which has no subscriber, would so switch the event off for the test that waits
/// for it.
static SECOND: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(tracing_subscriber::registry()));

impl Log {
    /// Logs what this thread does until the guard is dropped.
    pub fn start() -> (Self, tracing::subscriber::DefaultGuard) {
        LazyLock::force(&SECOND);
        let log = Self::default();
        let subscriber =
            tracing_subscriber::fmt().with_writer(log.clone()).with_ansi(false).without_time();
        (log, tracing::subscriber::set_default(subscriber.finish()))
    }

    pub fn text(&self) -> String {
        let bytes = self.0.lock();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The lines of the target `audit`.
    pub fn lines(&self) -> Vec<String> {
        self.text().lines().filter(|line| line.contains("audit: ")).map(str::to_owned).collect()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;
    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

fn caller() -> Caller {
    Caller {
        name: "uid:7".to_owned(),
        gid: None,
        role: Role::Operator,
        authority: Authority::All,
        ceilings: crate::config::Ceilings::NONE,
    }
}

#[test]
fn what_another_thread_logs_first_is_not_lost() {
    fn event() {
        info!("reached");
    }
    let (log, _guard) = Log::start();
    thread::spawn(event).join().expect("it does not panic");
    event();
    assert_eq!(log.text().matches("reached").count(), 1, "{}", log.text());
}

#[test]
fn a_change_is_one_line() {
    let (log, _guard) = Log::start();
    audit::change(&caller(), "CreateJob", "jobs/3", &Ok(()), &Denials::default());
    let refusal = Refusal::NotFound { name: "jobs/4".to_owned() };
    audit::change(&caller(), "CancelJob", "jobs/4", &Err::<(), _>(refusal), &Denials::default());
    assert_eq!(
        log.lines(),
        [
            r#" INFO audit: change caller="uid:7" method="CreateJob" subject="jobs/3" result="ok""#,
            r#" INFO audit: change refused caller="uid:7" method="CancelJob" subject="jobs/4" result="NotFound" reason="RESOURCE_NOT_FOUND""#,
        ]
    );
}

#[test]
fn what_clients_choose_can_neither_end_a_line_nor_fill_the_log() {
    let (log, _guard) = Log::start();
    let forged = "/a\n INFO audit: change caller=uid:0\r\u{1b}[2J\u{202e}\u{2028}\0";
    audit::change(&caller(), "CreateJob", forged, &Ok(()), &Denials::default());
    audit::change(&caller(), "CreateJob", &"\n".repeat(100_000), &Ok(()), &Denials::default());
    audit::change(&caller(), "CreateJob", &"\u{e9}".repeat(100_000), &Ok(()), &Denials::default());
    let lines = log.lines();
    assert_eq!(lines.len(), 3, "{lines:?}");
    for line in &lines {
        assert!(line.len() < 2000, "{}", line.len());
        assert!(!line.chars().any(|c| c.is_control() || "\u{202e}\u{2028}".contains(c)), "{line}");
    }
    assert!(lines[0].contains(r"\u{202e}"), "{}", lines[0]);
    assert!(lines[2].contains("\u{e9}..."), "{}", lines[2]);
}
