//! A client that sends its requests when they are due, and measures from then on. A late answer makes those behind it late too,
//! as it does for users.

use crate::movers::AWAY;
use anyhow::{Context, Result, ensure};
use numaloc_tests::cpus::pinned;
use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    process::{Child, ChildStdout, Command, Stdio},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

/// Time for making connections, in which nothing is counted.
const WARMUP: Duration = Duration::from_millis(300);
/// Time for measuring the most that the server can do.
const CALIBRATION: Duration = Duration::from_secs(2);

/// The requests of the client.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Address and port of the server.
    #[arg(long)]
    address: SocketAddr,
    /// Requests a second, over all connections.
    #[arg(long)]
    rate: u32,
    /// Number of connections, each with a thread.
    #[arg(long)]
    connections: u32,
}

/// The client itself. Says when it begins to count, and prints the milliseconds of each answer when its input ends.
pub fn run(args: &Args) -> Result<()> {
    let begin = Instant::now();
    let stop = &AtomicBool::new(false);
    let times = thread::scope(|scope| -> Result<Vec<f64>> {
        let of = |index| scope.spawn(move || ask(args, begin, index, stop));
        let threads: Vec<_> = (0..args.connections).map(of).collect();
        thread::sleep(WARMUP);
        println!("counting");
        io::stdout().flush()?;
        io::copy(&mut io::stdin(), &mut io::sink())?;
        stop.store(true, Relaxed);
        let times = threads.into_iter().map(|thread| thread.join().expect("it does not panic"));
        Ok(times.collect::<Result<Vec<_>>>()?.concat())
    })?;
    let mut output = io::stdout().lock();
    times.iter().try_for_each(|time| writeln!(output, "{time}"))?;
    Ok(output.flush()?)
}

/// Sends every n-th request, all over one connection. `n` is the number of connections.
fn ask(args: &Args, begin: Instant, index: u32, stop: &AtomicBool) -> Result<Vec<f64>> {
    let each = Duration::from_secs(1) / args.rate;
    let mut stream = TcpStream::connect(args.address)?;
    stream.set_nodelay(true)?;
    let mut due = begin + each * index;
    let mut times = Vec::new();
    while !stop.load(Relaxed) {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        answer(&mut stream)?;
        if due >= begin + WARMUP {
            times.push(due.elapsed().as_secs_f64() * 1e3);
        }
        due += each * args.connections;
    }
    Ok(times)
}

/// Answers a second that one connection gets when it sends each request as soon as the last is answered.
pub fn capacity(address: SocketAddr) -> Result<f64> {
    let (begin, mut answers) = (Instant::now(), 0);
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    while begin.elapsed() < CALIBRATION {
        answer(&mut stream)?;
        answers += 1;
    }
    Ok(f64::from(answers) / begin.elapsed().as_secs_f64())
}

/// Sends one request and reads all of its answer.
fn answer(stream: &mut TcpStream) -> Result<()> {
    stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
    let (mut text, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let read = stream.read(&mut buffer)?;
        ensure!(read > 0, "the server closed the connection");
        text.extend_from_slice(&buffer[..read]);
        let Some(end) = text.windows(4).position(|bytes| bytes == b"\r\n\r\n") else { continue };
        let head = std::str::from_utf8(&text[..end])?;
        ensure!(head.starts_with("HTTP/1.1 200 "), "the server answers: {head}");
        let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
        let length: usize = length.context("an answer without Content-Length")?.parse()?;
        if text.len() >= end + 4 + length {
            return Ok(());
        }
    }
}

/// The measuring side: a running client, in a process of its own.
#[derive(Debug)]
pub struct Client {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Client {
    /// Starts a client on the other node's CPUs and waits until it counts. The client has a real-time priority, so that it waits
    /// only for the server.
    pub fn start(address: SocketAddr, rate: u32, connections: u32) -> Result<Self> {
        let mut command = Command::new("chrt");
        command.args(["--fifo", "1"]).arg(std::env::current_exe()?).arg("client");
        command.args(["--address", &address.to_string(), "--rate", &rate.to_string()]);
        command.args(["--connections", &connections.to_string()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = pinned(AWAY, || command.spawn()).context("chrt (util-linux)")?;
        let output = BufReader::new(child.stdout.take().context("it has an output")?);
        let mut client = Self { child, output };
        let mut line = String::new();
        client.output.read_line(&mut line)?;
        ensure!(line.trim() == "counting", "the client has ended at once");
        Ok(client)
    }

    /// Ends the client. Returns the milliseconds of each answer.
    pub fn end(mut self) -> Result<Vec<f64>> {
        drop(self.child.stdin.take());
        let mut text = String::new();
        self.output.read_to_string(&mut text)?;
        ensure!(self.child.wait()?.success(), "the client failed");
        Ok(text.lines().map(str::parse).collect::<Result<_, _>>()?)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
