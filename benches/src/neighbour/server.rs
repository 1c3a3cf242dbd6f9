//! nginx on the node that the memory comes to: with one worker, and a page of one kilobyte.

use crate::movers::HOME;
use anyhow::{Context, Result, bail};
use numaloc_tests::cpus::pinned;
use std::{
    fs,
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// Longest time that nginx may take to start.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running nginx. It is killed when this is dropped.
#[derive(Debug)]
pub struct Server {
    child: Child,
    address: SocketAddr,
    _directory: TempDir,
}

impl Server {
    /// Starts it and waits until it answers.
    pub fn start(program: &str) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        // The kernel does not give the same port to others again soon.
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        fs::create_dir(directory.path().join("html"))?;
        fs::write(directory.path().join("html/index.html"), "x".repeat(1024))?;
        let path = directory.path().join("nginx.conf");
        fs::write(&path, configuration(directory.path(), address))?;
        let mut command = Command::new(program);
        command.arg("-p").arg(directory.path()).arg("-c").arg(&path).args(["-e", "stderr"]);
        command.stdin(Stdio::null());
        let child = pinned(HOME, || command.spawn()).with_context(|| program.to_owned())?;
        let mut server = Self { child, address, _directory: directory };
        let begin = Instant::now();
        while TcpStream::connect(address).is_err() {
            if let Some(status) = server.child.try_wait()? {
                bail!("nginx ended: {status}");
            }
            if begin.elapsed() > PATIENCE {
                bail!("nginx does not answer at {address}");
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }

    /// The address at which it answers.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Runs in the foreground as one process, uses no user that this machine may lack, and writes only in its own directory.
fn configuration(directory: &Path, address: SocketAddr) -> String {
    let directory = directory.display();
    let kinds = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let temporary: String =
        kinds.iter().map(|kind| format!("    {kind}_temp_path {directory}/{kind};\n")).collect();
    format!(
        "user root root;
daemon off;
master_process off;
pid {directory}/nginx.pid;
events {{ worker_connections 256; }}
http {{
    access_log off;
    keepalive_requests 100000000;
{temporary}    server {{
        listen {address};
        root {directory}/html;
    }}
}}
"
    )
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
