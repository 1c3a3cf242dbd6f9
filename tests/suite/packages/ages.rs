//! The daemon through what a host goes through in years: a disk that is full or read-only at the start, a clock that jumps, a week without power,
//! and an upgrade that is taken back. Nothing that was acknowledged is lost, nothing runs in a storm, and nothing is removed for time in
//! which the daemon did not look.

use super::*;
use nix::mount::{MsFlags, mount, umount};
use std::{
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

const STATE: &str = "/var/lib/numaloc";
const SCHEDULES: usize = 500;
const DAY: u64 = 24 * 3600;

/// The wall clock of the machine. It goes right again when this is dropped.
struct Clock {
    begin: u64,
    since: Instant,
}

impl Clock {
    fn now() -> Self {
        let begin = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
        Self { begin, since: Instant::now() }
    }

    /// Sets its clock ahead by `seconds`.
    fn set_ahead(&self, seconds: u64) {
        let now = self.begin + self.since.elapsed().as_secs() + seconds;
        done("date", &["-s", &format!("@{now}")]);
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        let now = self.begin + self.since.elapsed().as_secs();
        run("date", &["-s", &format!("@{now}")]);
    }
}

fn is_active() -> bool {
    property("numalocd.service", "ActiveState") == "active"
}

/// Starts the daemon, and does not wait for it.
fn start() {
    systemctl(&["start", "--no-block", "numalocd.service"]);
}

/// Number of restarts by systemd since it was last started by hand.
fn restarts() -> u32 {
    property("numalocd.service", "NRestarts").parse().expect("a number")
}

/// The state directory on a small file system of its own.
struct SmallState;

impl SmallState {
    fn new() -> Self {
        let owner = fs::metadata(STATE).expect("it has been started");
        let options = format!("size=4m,mode=0700,uid={},gid={}", owner.uid(), owner.gid());
        mount(Some("none"), STATE, Some("tmpfs"), MsFlags::empty(), Some(&*options))
            .expect("tmpfs");
        Self
    }

    fn remount(&self, flags: MsFlags) {
        let none = None::<&str>;
        mount(none, STATE, none, MsFlags::MS_REMOUNT | flags, Some("size=4m"))
            .expect("mounted again");
    }
}

impl Drop for SmallState {
    fn drop(&mut self) {
        run("systemctl", &["stop", "numalocd.service", "numalocd.socket"]);
        umount(STATE).ok();
    }
}

/// A schedule whose target does not exist.
fn schedule(paused: bool) -> v1::Schedule {
    let target = v1::Target { cgroups: vec!["/numaloc-none".to_owned()], ..v1::Target::default() };
    let spec = v1::MigrationSpec { target: Some(target), ..v1::MigrationSpec::default() };
    let hour = Some(prost_types::Duration { seconds: 3600, nanos: 0 });
    v1::Schedule {
        spec: Some(spec),
        interval: hour,
        ttl_after_gone: hour,
        paused,
        ..Default::default()
    }
}

fn make(client: &Client, schedule: v1::Schedule) {
    let request = v1::CreateScheduleRequest { schedule: Some(schedule), ..Default::default() };
    client.runtime.block_on(client.schedules().create_schedule(request)).expect("it is taken");
}

/// All schedules. Each call has a connection of its own: the daemon may have been started again.
fn schedules(system: &System) -> Vec<v1::Schedule> {
    let client = system.client();
    let request = v1::ListSchedulesRequest { page_size: 1000, ..Default::default() };
    let listed = client.runtime.block_on(client.schedules().list_schedules(request));
    listed.expect("a list").into_inner().schedules
}

/// The number of the last event: how many there were.
fn events(system: &System) -> u64 {
    let client = system.client();
    let request = v1::ListEventsRequest { page_size: 1000, ..Default::default() };
    let listed = client.runtime.block_on(client.events().list_events(request));
    let events = listed.expect("a list").into_inner().events;
    let number = |event: &v1::Event| event.name.strip_prefix("events/")?.parse().ok();
    events.iter().filter_map(number).max().unwrap_or(0)
}

#[test]
fn a_disk_that_is_full_or_read_only_at_the_start_comes_back() {
    let system = System::new();
    system.install(1, &["numaloc"]);
    systemctl(&["stop", "numalocd.service"]);
    let small = SmallState::new();
    start();
    until("it runs on an empty disk", is_active);
    make(&system.client(), schedule(true));
    systemctl(&["stop", "numalocd.service"]);

    // Full: what is there can be read, and changes are refused until there is room.
    let ballast = Path::new(STATE).join("ballast");
    let mut file = fs::File::create(&ballast).expect("room");
    while std::io::Write::write_all(&mut file, &[1; 4096]).is_ok() {}
    start();
    until("it runs on a full disk, or is tried again", || is_active() || restarts() > 2);
    println!("on a full disk: active {}, {} restarts", is_active(), restarts());
    drop(file);
    fs::remove_file(&ballast).expect("ours");
    until("it runs once there is room", is_active);
    assert_eq!(schedules(&system).len(), 1);
    make(&system.client(), schedule(true));
    systemctl(&["stop", "numalocd.service"]);

    // Read-only: it is tried again until it can be written, and systemd never gives it up.
    small.remount(MsFlags::MS_RDONLY);
    start();
    until("it is tried again and again", || restarts() >= 7);
    assert!(!is_active());
    small.remount(MsFlags::empty());
    until("it runs once it can write", is_active);
    assert_eq!(schedules(&system).len(), 2);
}

#[test]
fn a_week_without_power_and_a_clock_that_jumps_start_no_storm() {
    let clock = Clock::now();
    let system = System::new();
    system.install(1, &["numaloc"]);
    let client = system.client();
    (0..SCHEDULES).for_each(|_| make(&client, schedule(false)));
    let gone = |schedule: &v1::Schedule| schedule.state() == v1::ScheduleState::TargetGone;
    until("all targets have been looked for", || schedules(&system).iter().all(gone));
    let before = events(&system);
    assert!(before >= SCHEDULES as u64);

    systemctl(&["stop", "numalocd.service"]);
    clock.set_ahead(7 * DAY);
    start();
    until("it is back", is_active);
    thread::sleep(Duration::from_secs(5));
    let kept = schedules(&system).len();
    assert_eq!(kept, SCHEDULES, "some were removed for time in which the daemon was stopped");
    assert!(events(&system) <= before + 10, "{} events more", events(&system) - before);

    // A day ahead, as before NTP has set it, and back.
    for days in [8, 6, 7] {
        clock.set_ahead(days * DAY);
        thread::sleep(Duration::from_secs(5));
        assert_eq!(schedules(&system).len(), SCHEDULES, "{days} days ahead");
        assert!(events(&system) <= before + 10, "{} events more", events(&system) - before);
    }
    make(&system.client(), schedule(true));
    assert_eq!(schedules(&system).len(), SCHEDULES + 1, "it takes no changes any more");
}
