//! `web`: requests as a browser sends them, and requests that must be refused. tests/web/check opens the page in a
//! browser.

mod crowd;
mod hosts;
mod reports;

use hosts::{crowd, hostile, named};

use crate::{
    answers::{job, live},
    fake::{Fake, Script},
    run::{fails, finish, interrupt, program, refused, text, until},
};
use numaloc_api::v1::{self, JobState};
use serde_json::{Value, json};
use std::{
    fs,
    io::{BufRead, BufReader, Read, Write, stdin},
    net::TcpStream,
    os::unix::{fs::PermissionsExt, net::UnixStream},
    process::{Child, Command},
};

/// A program that serves the page.
pub struct Web {
    child: Option<Child>,
    /// Host and port, and the token that the page sends.
    address: String,
    token: String,
}

impl Web {
    /// As a page that has been opened.
    fn start(command: Command) -> Self {
        let mut web = Self::unopened(command);
        web.token = web.enter();
        web
    }

    /// With the token that the program prints.
    fn unopened(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let (address, token) = line.trim().split_once("/#token=").expect(&line);
        let address = address.strip_prefix("http://").unwrap().to_owned();
        Self { child: Some(child), address, token: token.to_owned() }
    }

    /// Exchanges the token that was printed for that of the page.
    fn enter(&self) -> String {
        let (status, document) = self.post("session", json!({}));
        assert_eq!(status, 200, "{document}");
        document["token"].as_str().expect("a token").to_owned()
    }

    pub fn by(fake: &Fake) -> Self {
        Self::start(fake.command("web --delay 100ms"))
    }

    /// Sends a request, and returns the status, the head and the body of the answer.
    fn send(&self, head: &str, body: &str) -> (u16, String, String) {
        let stream = TcpStream::connect(&self.address).unwrap();
        exchange(stream, head, body)
    }

    fn head(&self, request: &str) -> String {
        format!(
            "{request} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n",
            self.address, self.token
        )
    }

    fn get(&self, path: &str) -> (u16, Value) {
        let (status, _, body) = self.send(&self.head(&format!("GET /api/{path}")), "");
        (status, serde_json::from_str(&body).expect(&body))
    }

    fn post(&self, path: &str, body: Value) -> (u16, Value) {
        let head = self.head(&format!("POST /api/{path}")) + "Content-Type: application/json\r\n";
        let (status, _, body) = self.send(&head, &body.to_string());
        (status, serde_json::from_str(&body).expect(&body))
    }

    /// Waits until a view is as it should be, and returns it.
    pub fn shows(&self, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        let mut view = Value::Null;
        until(what, || {
            let seen = view["serial"].as_u64().unwrap_or(0);
            view = self.get(&format!("view?seen={seen}")).1;
            is(&view)
        });
        view
    }

    /// Ends it by Ctrl-C.
    pub fn end(mut self) {
        let child = self.child.take().unwrap();
        interrupt(&child);
        text(&finish(child), 0);
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn exchange(mut stream: impl Read + Write, head: &str, body: &str) -> (u16, String, String) {
    let length = body.len();
    let request = format!("{head}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}");
    // At once: a request that is refused by its head alone may be answered, and closed, before its body is written.
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head.to_ascii_lowercase(), body.to_owned())
}

fn script() -> Script {
    let jobs = vec![job(JobState::Running, 100)];
    Script { live: Some(live()), jobs, ..Script::default() }
}

#[test]
fn a_page_is_served_with_what_top_and_jobs_show() {
    let fake = Fake::start(script());
    let web = Web::by(&fake);
    let view = web.shows("jobs", |view| view["jobs"].is_array());
    assert_eq!(view["top"]["workloads"][0]["cgroup"], "/redis");
    assert_eq!(view["top"]["processes"][0]["comm"], "redis-server");
    for rows in ["processes", "workloads"] {
        assert_eq!(view["top"][rows][0]["job"], "jobs/nri-5 50 %", "as the daemon says, {rows}");
    }
    assert_eq!(view["jobs"][0]["name"], "jobs/42");
    let listed = text(&fake.run("jobs ls -o wide"), 0);
    let target = view["targets"]["jobs/42"].as_str().expect("a target");
    assert!(!target.is_empty() && listed.contains(target), "{target}: {listed}");
    assert!(view["jobs"][0].get("plan").is_none_or(Value::is_null), "plans are large");
    assert_eq!(view["status"]["caller"], "uid:0");
    let (status, advice) = web.get("advice");
    assert_eq!(
        (status, &advice["findings"][0]["commands"][0]),
        (200, &json!("numalocctl migrate --cgroup /redis"))
    );
    assert_eq!(advice["findings"][0]["migrates"], json!({"cgroup": "/redis"}));
    assert_eq!(advice["findings"][1]["migrates"], Value::Null);
    let (status, text) = web.get("job?name=jobs/42");
    assert!(
        status == 200 && text["text"].as_str().unwrap().starts_with("jobs/42 running"),
        "{text}"
    );
    assert_eq!(web.get("job?name=jobs/1").0, 404);
    let schedule = &view["schedules"][0];
    assert_eq!((&schedule["name"], &schedule["interval"]), (&json!("schedules/7"), &json!("30s")));
    assert_eq!(view["schedules"].as_array().unwrap().len(), 200, "of a thousand");
    let (status, text) = web.get("schedule?name=schedules/7");
    assert!(
        status == 200 && text["text"].as_str().unwrap().starts_with("schedules/7 waiting"),
        "{text}"
    );
    assert_eq!(web.post("watch", json!({"pid": 4711, "start": 90_000})).0, 200);
    web.shows("the detail", |view| view["detail"]["mappings"][0]["name"] == "[heap]");
    web.end();
}

#[test]
fn nobody_else_is_answered() {
    let fake = Fake::start(script());
    let web = Web::by(&fake);
    let host = format!("Host: {}\r\n", web.address);
    let token = format!("Authorization: Bearer {}\r\n", web.token);
    let status =
        |line: &str, headers: &str| web.send(&format!("{line} HTTP/1.1\r\n{headers}"), "").0;
    let view = "GET /api/view";
    assert_eq!(status(view, &(host.clone() + &token)), 200);
    assert_eq!(status(view, &host), 401);
    assert_eq!(status(view, &format!("{host}Authorization: Bearer {}x\r\n", web.token)), 401);
    assert_eq!(status(view, &format!("{host}Cookie: token={}\r\n", web.token)), 401);
    assert_eq!(status(view, &format!("Host: evil.example\r\n{token}")), 403);
    assert_eq!(status("GET /", "Host: evil.example\r\n"), 403);
    assert_eq!(status(view, &format!("{host}{token}Origin: http://evil.example\r\n")), 403);
    assert_eq!(status(view, &format!("{host}{token}Origin: null\r\n")), 403);
    assert_eq!(status(view, &format!("{host}{token}Sec-Fetch-Site: cross-site\r\n")), 403);
    assert_eq!(status("GET /etc/passwd", &(host.clone() + &token)), 404);
    assert_eq!(status("GET /etc/passwd", &host), 401, "who may ask comes first");
    assert_eq!(status("POST /", &(host.clone() + &token)), 405);
    assert_eq!(status("POST /api/plan", &(host.clone() + &token)), 415);
    let (status, head, page) = web.send(&format!("GET / HTTP/1.1\r\n{host}"), "");
    assert!(status == 200 && !page.contains(&web.token));
    for words in
        ["default-src 'none'; script-src 'self'", "frame-ancestors 'none'", "nosniff", "no-store"]
    {
        assert!(head.contains(words), "{words}: {head}");
    }
    let long = " ".repeat(20_000);
    let head = web.head("POST /api/plan") + "Content-Type: application/json\r\n";
    assert_eq!(web.send(&head, &long).0, 413);
}

#[test]
fn what_is_printed_opens_the_page_once() {
    let fake = Fake::start(script());
    let mut web = Web::unopened(fake.command("web --delay 100ms"));
    assert_eq!(web.get("view").0, 401, "it shows nothing by itself");
    assert_eq!(web.post("plan", json!({"cgroup": "/redis"})).0, 401);
    let foreign = web.head("POST /api/session") + "Sec-Fetch-Site: cross-site\r\n";
    assert_eq!(web.send(&foreign, "{}").0, 403, "and is not used up by another page");
    let token = web.enter();
    let (status, refused) = web.post("session", json!({}));
    let why = refused["error"].as_str().expect("why");
    assert!(status == 401 && why.starts_with("this address has been opened already"), "{why}");
    assert!(why.contains("start numalocctl web again"), "{why}");
    assert_eq!(web.get("view").0, 401);
    web.token = token;
    assert_eq!(web.get("view").0, 200);
    assert_eq!(web.post("session", json!({})).0, 401, "the page's own opens nothing");
    web.end();
}

#[test]
fn a_page_that_is_read_only_moves_and_cancels_nothing() {
    let fake = Fake::start(script());
    let web = Web::start(fake.command("web --read-only --delay 100ms"));
    let view = web.shows("the host", |view| view["jobs"].is_array());
    assert_eq!(view["host"]["is_read_only"], true);
    // Of the daemon's host, which is not this one.
    assert_eq!(view["top"]["page_bytes"], 1 << 16);
    let changes = [
        ("plan", json!({"cgroup": "/redis"})),
        ("migrate", json!({"plan": 1, "confirmed": true})),
        ("migration/cancel", json!({"confirmed": true})),
        ("job/cancel", json!({"job": "jobs/42", "confirmed": true})),
    ];
    for (path, body) in changes {
        let (status, refused) = web.post(path, body);
        let why = refused["error"].as_str().expect("why");
        assert!(status == 403 && why.starts_with("this page is read-only"), "{path}: {why}");
    }
    assert_eq!(web.post("watch", json!({"pid": 4711, "start": 90_000})).0, 200);
    web.shows("a process closely", |view| view["detail"]["mappings"][0]["name"] == "[heap]");
    for call in ["CreateJob", "CancelJob", "PlanMigration"] {
        assert!(fake.seen(call).is_empty(), "{call}");
    }
    web.end();
}

#[test]
fn changes_are_made_after_a_confirmation() {
    let fake = Fake::start(script());
    let web = Web::by(&fake);
    assert_eq!(web.post("job/cancel", json!({"job": "jobs/42"})).0, 400);
    assert_eq!(
        web.post("migrate", json!({"plan": 1, "confirmed": true})).0,
        409,
        "nothing is planned"
    );
    let (status, begun) = web.post("plan", json!({"cgroup": "/redis"}));
    assert_eq!(status, 200, "{begun}");
    let view = web.shows("the plan", |view| view["migration"]["stage"] == "asked");
    assert!(view["migration"]["text"].as_str().unwrap().contains("600.0 MiB"), "{view}");
    let plan = view["migration"]["plan"].clone();
    assert_eq!(begun["plan"], plan, "the page waits for this one: {begun}");
    assert_eq!(web.post("migrate", json!({"plan": plan})).0, 400);
    assert_eq!(web.post("migrate", json!({"plan": 77, "confirmed": true})).0, 409);
    assert!(fake.seen("CreateJob").is_empty() && fake.seen("CancelJob").is_empty());
    assert_eq!(web.post("migrate", json!({"plan": plan, "confirmed": true})).0, 200);
    web.shows("the job", |view| {
        view["migration"]["job"].as_str().is_some_and(|job| job.starts_with("jobs/42"))
    });
    assert_eq!(fake.seen("CreateJob").len(), 1);
    assert_eq!(web.post("plan", json!({"cgroup": "/redis"})).0, 409, "one after the other");
    assert_eq!(web.post("migration/cancel", json!({"confirmed": true})).0, 200);
    until("the cancel", || fake.seen("CancelJob").len() == 1);
    assert_eq!(web.post("job/cancel", json!({"job": "jobs/42", "confirmed": true})).0, 200);
    assert_eq!(fake.seen("CancelJob").len(), 2);
    web.end();
}

#[test]
fn a_daemon_that_is_started_again_is_found_again() {
    let mut fake = Fake::start(script());
    let web = Web::by(&fake);
    web.shows("the host", |view| view["jobs"].is_array() && view["trouble"].is_null());
    fake.stop();
    let view = web.shows("the trouble", |view| view["trouble"].is_string());
    assert_eq!(view["top"]["workloads"][0]["cgroup"], "/redis", "what it said last stays");
    let jobs = vec![v1::Job { name: "jobs/43".into(), ..job(JobState::Running, 0) }];
    fake.start_again(Script { jobs, ..script() });
    web.shows("the new daemon", |view| {
        view["trouble"].is_null() && view["jobs"][0]["name"] == "jobs/43"
    });
    web.end();
}

#[test]
fn a_socket_is_for_its_user_and_is_removed() {
    let fake = Fake::start(script());
    let path = fake.folder().join("web.sock");
    let line = format!("web --listen unix://{}", path.display());
    let mut child = fake.command(&line).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), format!("unix://{}", path.display()));
    let tunnel = lines.next().unwrap().unwrap();
    let (_, url) = tunnel.split_once("http://").expect(&tunnel);
    let (host, token) = url.split_once("/#token=").expect(&tunnel);
    assert!(tunnel.contains(&format!("-o ExitOnForwardFailure=yes -L {host}:")), "{tunnel}");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let ask = |headers: &str| {
        let stream = UnixStream::connect(&path).unwrap();
        exchange(stream, &format!("GET /api/view HTTP/1.1\r\n{headers}"), "").0
    };
    let head = |line: &str, token: &str| {
        format!("{line} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n")
    };
    let stream = UnixStream::connect(&path).unwrap();
    let (status, _, page) = exchange(stream, &head("POST /api/session", token), "{}");
    let page: Value = serde_json::from_str(&page).expect(&page);
    let token = page["token"].as_str().expect("a token");
    assert_eq!(status, 200);
    // As through ssh -L.
    assert_eq!(ask(&format!("Host: {host}\r\nAuthorization: Bearer {token}\r\n")), 200);
    assert_eq!(ask(&format!("Host: {host}\r\n")), 401);
    refused(&line, &fake.run(&line), 2, "web.sock exists: remove it");
    interrupt(&child);
    text(&finish(child), 0);
    assert!(!path.exists());
}

#[test]
fn what_cannot_be_is_refused_first() {
    fails("web --listen 0.0.0.0:80", 2, "not an address of the loopback interface");
    fails("web -o json", 2, "one form of output");
    fails("web --report a.pdf", 2, "expected an HTML file");
    fails("web --report /no/such/a.html --standalone", 1, "cannot write /no/such/a.html");
    fails("web --report a.html --read-only", 2, "cannot be used with");
    fails("web --report a.html --listen 127.0.0.1:0", 2, "cannot be used with");
}

/// For tests/web/check: a page of a host with a thousand workloads. Prints its address, and then obeys lines: `stop`
/// and `start` the daemon, `report FILE`, `seen CALL`, `page read-only`, `page named` (a host with ten workloads). Ends
/// with its input.
#[test]
#[ignore = "tests/web/check starts it"]
fn for_a_browser() {
    let host = || Script { live: Some(crowd()), ..hostile() };
    let mut fake = Fake::start(host());
    let shop = Fake::start(named());
    let mut pages = Vec::new();
    let mut page = |fake: &Fake, options: &str| {
        let web = Web::unopened(fake.command(&format!("web --delay 500ms {options}")));
        println!("page http://{}/#token={}", web.address, web.token);
        pages.push(web);
    };
    page(&fake, "");
    for line in stdin().lines() {
        match line.unwrap().split_once(' ').unwrap() {
            ("daemon", "stop") => fake.stop(),
            ("daemon", _) => {
                let jobs = vec![v1::Job { name: "jobs/43".into(), ..job(JobState::Running, 0) }];
                fake.start_again(Script { jobs, ..host() });
            }
            ("report", file) => {
                text(&fake.run(&format!("web --delay 100ms --report {file}")), 0);
            }
            ("compare", files) => {
                let (before, after) = files.split_once(' ').unwrap();
                let line = format!("web --delay 100ms --report {after} --before {before}");
                text(&shop.run(&line), 0);
            }
            ("report-named", file) => {
                text(&shop.run(&format!("web --delay 100ms --report {file}")), 0);
            }
            ("page", "named") => page(&shop, ""),
            ("page", _) => page(&fake, "--read-only"),
            (_, call) => println!("{} {call}", fake.seen(call).len()),
        }
        println!("done");
    }
}

/// Without a daemon this program looks itself.
#[test]
fn a_page_needs_no_daemon() {
    let mut command = program();
    command.args(["web", "--standalone", "--delay", "100ms", "--cpu-budget", "50"]);
    let web = Web::start(command);
    let own = std::process::id();
    let is_own = |row: &Value| row["pid"] == own;
    let has_own = |view: &Value| view["top"]["processes"].as_array().unwrap().iter().any(is_own);
    let view = web.shows("this process", has_own);
    assert_eq!((&view["host"]["has_jobs"], &view["jobs"]), (&json!(false), &Value::Null));
    assert_eq!(web.post("job/cancel", json!({"job": "jobs/1", "confirmed": true})).0, 400);
    web.end();
}
