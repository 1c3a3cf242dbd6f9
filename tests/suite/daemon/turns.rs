//! Clients of several users at once: none keeps another waiting by calls that take long.

use super::*;
use crate::scene::Scene;

/// Any user may connect; these users are viewers.
const VIEWERS: [u32; 3] = [12_001, 12_002, 12_003];

fn config() -> String {
    let grant = |uid| format!("[[grants]]\nuser = {uid}\nrole = \"viewer\"\n");
    let grants: String = VIEWERS.into_iter().map(grant).collect();
    format!("[listen]\nmode = \"0666\"\n{grants}")
}

/// Advice that is being waited for. It is ended when this value is dropped.
struct Waiting(Child);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.kill().and_then(|()| self.0.wait()).ok();
    }
}

#[test]
fn advice_of_two_viewers_holds_up_no_third() {
    let scene = Scene::remote(&["anon:8M"]);
    let daemon = Daemon::with(&config());
    let [one, other, third] = VIEWERS;
    let advise = |uid| {
        let mut command = daemon.ctl_as(uid, &["advise", "--seconds", "60"]);
        Waiting(command.stdout(Stdio::null()).spawn().expect("it starts"))
    };
    let mut waiting = [one, one, other, other].map(advise);
    // They ask as soon as they are connected (proc_pid_net(5): state 03). The daemon renames its socket once it listens, so the
    // kernel shows another name in the same directory.
    let socket = daemon.socket();
    let directory = socket.parent().expect("a directory").display().to_string();
    until("four are connected", || {
        let sockets = fs::read_to_string("/proc/net/unix").expect("it can be read");
        let of_daemon = sockets.lines().filter(|line| line.contains(&directory));
        of_daemon.filter(|line| line.split_whitespace().nth(5) == Some("03")).count() >= 4
    });
    let pid = scene.app.pid().to_string();
    let begin = Instant::now();
    let looked = daemon.ctl_as(third, &["locality", "--pid", &pid]).output().expect("it starts");
    let took = begin.elapsed();
    assert!(looked.status.success(), "{looked:?}");
    println!("answered after {took:?}");
    // They wait for a minute, so with one of their turns the third would have waited until one of them has its answer.
    let mut ended = waiting.iter_mut().map(|waiting| waiting.0.try_wait().expect("it is ours"));
    assert!(ended.all(|ended| ended.is_none()), "it has waited for the others");
    drop(waiting);
    scene.finish();
}
