//! Other users of the machine who connect to the page keep its owner out of nothing.

use super::*;
use crate::run::signal;
use std::{
    collections::VecDeque,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

/// Another user of this machine has no token, and needs none to connect.
#[test]
fn those_who_ask_and_do_not_read_keep_the_owner_out_of_nothing() {
    let fake = Fake::start(script());
    let web = Web::by(&fake);
    let request = format!("GET /page.js HTTP/1.1\r\nHost: {}\r\n\r\n", web.address);
    let flood = request.repeat(2000);
    let held: Vec<TcpStream> = (0..64)
        .map(|_| {
            let mut stream = TcpStream::connect(&web.address).unwrap();
            // It is as much as the server takes before it waits for this client to read.
            stream.set_write_timeout(Some(Duration::from_millis(20))).unwrap();
            let _ = stream.write_all(flood.as_bytes());
            stream
        })
        .collect();
    // Long before any time limit of the server ends.
    let stream = TcpStream::connect(&web.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(8))).unwrap();
    let begin = Instant::now();
    let (status, ..) = exchange(stream, &web.head("GET /api/job?name=jobs/42"), "");
    println!("answered in {:?}", begin.elapsed());
    assert_eq!(status, 200);
    drop(held);
    // One request of theirs is answered, however many they send.
    let mut stream = TcpStream::connect(&web.address).unwrap();
    stream.write_all(request.repeat(3).as_bytes()).unwrap();
    let mut answers = Vec::new();
    let _ = stream.read_to_end(&mut answers);
    let answers = String::from_utf8_lossy(&answers);
    assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), 1);
    assert!(answers.to_ascii_lowercase().contains("connection: close"));
    web.end();
}

/// Opens connections one after the other, sends a request on each, and reads nothing, until `stop`. The last 64 stay
/// open.
fn connect_again_and_again(address: &str, stop: &AtomicBool, opened: &AtomicUsize) {
    let request = format!("GET /page.js HTTP/1.1\r\nHost: {address}\r\n\r\n");
    let mut held = VecDeque::new();
    while !stop.load(Relaxed) {
        // It may be closed already, and then another one follows.
        if let Ok(mut stream) = TcpStream::connect(address) {
            let _ = stream.write_all(request.as_bytes());
            held.push_back(stream);
            opened.fetch_add(1, Relaxed);
        }
        if held.len() > 64 {
            held.pop_front();
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Connections of another user take the places of one another, and the owner's next one is among them until it has
/// shown the token.
#[test]
fn those_who_connect_again_and_again_keep_the_owner_out_of_nothing() {
    let fake = Fake::start(script());
    let web = Web::by(&fake);
    let (stop, opened) = (AtomicBool::new(false), AtomicUsize::new(0));
    let (mut longest, mut statuses) = (Duration::ZERO, Vec::new());
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| connect_again_and_again(&web.address, &stop, &opened));
        }
        until("they come", || opened.load(Relaxed) > 500);
        for _ in 0..50 {
            let begin = Instant::now();
            statuses.push(web.get("job?name=jobs/42").0);
            longest = longest.max(begin.elapsed());
        }
        stop.store(true, Relaxed);
    });
    println!("answered in {longest:?} at most, beside {} connections", opened.load(Relaxed));
    assert_eq!(statuses, [200; 50]);
    web.end();
}

/// The kernel drops connections that it has no room for, and the client tries again after a second.
#[test]
fn many_connections_wait_to_be_accepted_and_the_owners_among_them() {
    let fake = Fake::start(script());
    let web = Web::by(&fake);
    let child = web.child.as_ref().unwrap();
    signal(child, "STOP");
    let address = web.address.parse().unwrap();
    let connect = || TcpStream::connect_timeout(&address, Duration::from_millis(900));
    let held: Vec<_> = (0..500).map(|_| connect().expect("it waits to be accepted")).collect();
    let mut owner = connect().unwrap();
    let head = web.head("GET /api/job?name=jobs/42");
    owner.write_all(format!("{head}Content-Length: 0\r\n\r\n").as_bytes()).unwrap();
    signal(child, "CONT");
    let mut answer = [0; 15];
    owner.read_exact(&mut answer).unwrap();
    assert_eq!(answer, *b"HTTP/1.1 200 OK");
    drop(held);
    web.end();
}
