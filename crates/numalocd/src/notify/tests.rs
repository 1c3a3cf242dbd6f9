use super::*;
use std::{io::ErrorKind, path::Path};

/// A service manager that listens at `path`.
fn listening(path: &Path) -> (UnixDatagram, Notifier) {
    let socket = UnixDatagram::bind(path).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    (socket, Notifier::new(Some(path.into())))
}

fn said(socket: &UnixDatagram) -> String {
    let mut buffer = [0; 1024];
    let length = socket.recv(&mut buffer).unwrap();
    String::from_utf8(buffer[..length].to_vec()).unwrap()
}

fn is_silent(socket: &UnixDatagram) -> bool {
    socket.set_nonblocking(true).unwrap();
    let got = socket.recv(&mut [0; 16]);
    socket.set_nonblocking(false).unwrap();
    got.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
}

#[test]
fn states_are_told_in_systemds_words() {
    let directory = tempfile::tempdir().unwrap();
    let (socket, notifier) = listening(&directory.path().join("notify"));
    notifier.ready("2 jobs\nMAINPID=1");
    assert_eq!(said(&socket), "READY=1\nSTATUS=2 jobs MAINPID=1\n");
    notifier.status("idle");
    assert_eq!(said(&socket), "STATUS=idle\n");
    notifier.stopping("saving jobs", Duration::from_secs(300));
    let stopping = "STOPPING=1\nEXTEND_TIMEOUT_USEC=300000000\nSTATUS=saving jobs\n";
    assert_eq!(said(&socket), stopping);

    notifier.reloading();
    let reloading = said(&socket);
    let usec = reloading.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").unwrap();
    assert!(usec.trim_end().parse::<u64>().unwrap() > 0, "{reloading}");
}

#[test]
fn an_abstract_socket_is_reached() {
    let name = format!("numaloc-notify-{}", process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let socket = UnixDatagram::bind_addr(&address).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    Notifier::new(Some(format!("@{name}").into())).status("here");
    assert_eq!(said(&socket), "STATUS=here\n");
}

#[test]
fn the_watchdog_is_patted_twice_in_its_time() {
    let directory = tempfile::tempdir().unwrap();
    let (socket, notifier) = listening(&directory.path().join("notify"));
    let watchdog = Watchdog::new(notifier.clone(), Some(Duration::from_secs(30)));
    assert_eq!(watchdog.interval(), Some(Duration::from_secs(15)));
    watchdog.pat();
    assert_eq!(said(&socket), "WATCHDOG=1\n");

    for patience in [None, Some(Duration::ZERO)] {
        let asleep = Watchdog::new(notifier.clone(), patience);
        asleep.pat();
        assert_eq!(asleep.interval(), None);
    }
    assert!(is_silent(&socket));
}

#[test]
fn nobody_is_told_when_nobody_listens() {
    for notifier in [Notifier::default(), Notifier::new(Some(OsString::new()))] {
        notifier.ready("up");
        let watchdog = Watchdog::new(notifier, Some(Duration::from_secs(1)));
        watchdog.pat();
        assert_eq!(watchdog.interval(), None);
    }
    // A service manager that is gone is not a reason to fail either.
    Notifier::new(Some("/nowhere/at/all".into())).ready("up");
}

#[test]
fn only_the_watchdog_of_this_process_counts() {
    let notifier = Notifier::new(Some("/nowhere".into()));
    let interval = |usec: &str, pid: Option<String>| {
        notifier.watchdog_of(Some(usec.to_owned()), pid).interval()
    };
    let ours = process::id().to_string();
    assert_eq!(interval("2000000", None), Some(Duration::from_secs(1)));
    assert_eq!(interval("2000000", Some(ours)), Some(Duration::from_secs(1)));
    assert_eq!(interval("2000000", Some("1".into())), None);
    assert_eq!(interval("2000000", Some("x".into())), None);
    assert_eq!(interval("soon", None), None);
    assert_eq!(notifier.watchdog_of(None, None).interval(), None);
}

/// The dispatcher's task sends these messages, so it must not wait for a service manager that hangs.
#[test]
fn a_service_manager_that_does_not_read_holds_nobody_up() {
    let directory = tempfile::tempdir().unwrap();
    let (socket, notifier) = listening(&directory.path().join("notify"));
    let watchdog = Watchdog::new(notifier.clone(), Some(Duration::from_secs(30)));
    // These are many more messages than the queue of a socket holds (net.unix.max_dgram_qlen). If each waited, it would
    // take a second.
    for _ in 0..10_000 {
        watchdog.pat();
        notifier.status("still here");
    }
    assert_eq!(said(&socket), "WATCHDOG=1\n");
}
