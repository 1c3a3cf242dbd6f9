//! The recipe for databases of docs/recipes.md as it is written: its blocks are typed into a shell, one after the other, for services of
//! Debian that have their memory on the wrong node. Where it is afterwards is read from the kernel.

use super::{
    real::{Pinned, Session, postgresql_on, redis, redis_on},
    *,
};
use crate::{
    page::{Page, Shell},
    settings::Setting,
    truth::{Nodes, Truth, off},
};

const PAGE: &str = "docs/recipes.md";
/// Memory that is found on the wrong node at least.
const REMOTE: u64 = 20 * MIB;

/// A database with its memory on node 1.
struct Database<'a> {
    server: &'a Pinned,
    /// The process that is looked at, and of it the memory that counts.
    pid: i32,
    nodes: fn(&Truth) -> Nodes,
    /// The block of its section that sets `unit`, and the others.
    unit: String,
    more: Vec<String>,
}

impl Database<'_> {
    fn nodes(&self) -> Nodes {
        (self.nodes)(&Truth::of(self.pid))
    }

    /// Asserts that an eighth of what was remote is remote still, at most.
    fn assert_home(&self, before: &Nodes, said: &str) {
        let after = self.nodes();
        assert!(off(&after, 0) <= off(before, 0) / 8, "{before:?}, then {after:?}: {said}");
        println!("{}: {before:?}, then {after:?}", self.server.unit);
    }

    /// Follows the recipe from its first to its last line.
    fn follows_the_recipe(&self) {
        let mut page = Page::section(PAGE, "A database: see, pin, move, keep, prove");
        let mut shell = Shell::start();
        shell.types(&self.unit);
        for block in &self.more {
            shell.types(block);
        }
        let named = shell.types("echo \"$unit\"");
        assert_eq!(named, self.server.unit);
        let before = self.nodes();
        assert!(off(&before, 0) >= REMOTE, "{named}: {before:?}");

        let seen = shell.types(&page.take("numalocctl locality"));
        assert!(seen.contains("NODE1 MiB"), "{seen}");
        let planned = shell.types(&page.take("systemctl set-property"));
        assert!(planned.contains("would move: "), "{planned}");
        let migrate = page.take("numalocctl migrate");
        let (code, said) = shell.tries(&migrate);
        assert!(matches!(code, 0 | 6), "{code}: {said}");
        self.assert_home(&before, &said);

        let created = shell.types(&page.take("numalocctl schedules create"));
        let schedule = created.split_whitespace().find(|word| word.starts_with("schedules/"));
        let schedule = schedule.unwrap_or_else(|| panic!("no name: {created}"));
        has_run(schedule, 1);
        // Something takes it away. The next run of the schedule, which is due in ten minutes, brings it back.
        let (code, said) = shell.tries(&format!("{migrate} --to 1"));
        assert!(matches!(code, 0 | 6), "{code}: {said}");
        let away = self.nodes();
        assert!(off(&away, 0) >= REMOTE, "{away:?}: {said}");
        shell.types(&format!("numalocctl schedules run {schedule}"));
        has_run(schedule, 2);
        self.assert_home(&away, "by the schedule");

        let proved = shell.types(&page.take("numalocctl locality"));
        // A line of each of the three.
        for line in ["movable: ", &named, "Total"] {
            assert!(proved.contains(line), "{line}: {proved}");
        }
        page.assert_tried();
    }
}

/// Waits until a schedule has made this number of jobs, and all of them have ended.
fn has_run(schedule: &str, times: usize) {
    until("the schedule has run", || {
        let text = ctl(&["jobs", "ls", "-o", "json"]);
        let document: Value = serde_json::from_str(&text).expect("JSON");
        let jobs = document["jobs"].as_array().cloned().unwrap_or_default();
        let of_schedule: Vec<_> = jobs.iter().filter(|job| job["schedule"] == schedule).collect();
        of_schedule.len() == times && of_schedule.iter().all(|job| job["end_time"].is_string())
    });
}

/// Bytes by node of all mappings but those of files.
fn own(truth: &Truth) -> Nodes {
    truth.without_files().all()
}

#[test]
fn postgresql_as_the_recipe_says() {
    let _balancing = Setting::numa_balancing(false);
    let system = System::new();
    system.install(1, &["numaloc"]);
    let server = postgresql_on(1);
    let mut session = Session::new();
    session.ask("drop table if exists kept");
    session.ask("create table kept as select id, repeat(md5(id::text), 8) words from generate_series(1, 140000) id");
    let sum = "select count(*), sum(hashtext(words)::bigint) from kept";
    let before = session.ask(sum);
    assert!(before.starts_with("140000|"), "{before}");
    let mut page = Page::section(PAGE, "PostgreSQL");
    // The buffers are shared by all of its processes. This one has used them.
    let pid = session.ask("select pg_backend_pid()").parse().expect("a pid");
    let (unit, rights) = (page.take("unit="), page.take("mkdir -p"));
    page.assert_tried();
    let database =
        Database { server: &server, pid, nodes: Truth::segments, unit, more: vec![rights] };
    database.follows_the_recipe();
    assert_eq!(session.ask(sum), before);
    session.ask("drop table kept");
}

#[test]
fn mariadb_as_the_recipe_says() {
    let _balancing = Setting::numa_balancing(false);
    let system = System::new();
    system.install(1, &["numaloc"]);
    let server = Pinned::start("mariadb.service", 1);
    let ask = |statement: &str| done("mariadb", &["-N", "-B", "-e", statement]);
    ask("create database if not exists numaloc");
    ask("drop table if exists numaloc.kept");
    // A table of numbers belongs to the database in use.
    ask(
        "use numaloc; create table kept engine=innodb as select seq id, repeat(md5(seq), 8) words from seq_1_to_140000",
    );
    let sum = "select count(*), sum(crc32(words)) from numaloc.kept";
    let before = ask(sum);
    assert!(before.starts_with("140000\t"), "{before}");
    let mut page = Page::section(PAGE, "MySQL and MariaDB");
    let unit = page.take("unit=");
    page.assert_tried();
    let database = Database { server: &server, pid: server.pid(), nodes: own, unit, more: vec![] };
    database.follows_the_recipe();
    assert_eq!(ask(sum), before);
    ask("drop database numaloc");
}

#[test]
fn redis_as_the_recipe_says() {
    let _balancing = Setting::numa_balancing(false);
    let system = System::new();
    system.install(1, &["numaloc"]);
    let server = redis_on(1);
    let digest = redis(&["debug", "digest"]);
    let mut page = Page::section(PAGE, "Redis and Valkey");
    let unit = page.take("unit=");
    page.assert_tried();
    let database = Database { server: &server, pid: server.pid(), nodes: own, unit, more: vec![] };
    database.follows_the_recipe();
    assert_eq!(redis(&["debug", "digest"]), digest);
}
