//! A Redis server in a container, spoken to as its clients do.

use super::{
    cri::{Container, Sandbox},
    rig::{Containerd, Running},
};
use crate::{
    app::until,
    cpus::cpus_of,
    truth::{Nodes, Truth, off, on},
};
use std::{
    io::{BufRead, BufReader, Write},
    net::TcpStream,
};

/// Bytes of the values that each server holds.
const DATA: u64 = 48 << 20;
/// Bytes of each value.
const VALUE: u64 = 16 << 10;
/// Bytes of a server that may be anywhere: stacks, buffers of clients, what its own threads touch meanwhile.
const SLACK: u64 = 1 << 20;

#[derive(Debug)]
pub struct Redis {
    pub container: Running,
    port: u16,
    digest: String,
}

impl Redis {
    /// Starts a server pinned to the CPUs of a node, and fills it, so that its memory is there.
    pub fn on_node(containerd: &Containerd, sandbox: &Sandbox, port: u16, node: u32) -> Self {
        let container = Container::redis(&format!("redis{port}"), port).on_cpus(&cpus_of(node));
        let redis = Self::listening(containerd.container(sandbox, &container), port);
        redis.populated().filled_on(node)
    }

    /// Fills it, so that its memory is there.
    pub fn populated(self) -> Self {
        // Few and large values: the digest costs most for each key, and an emulated CPU needs seconds for many.
        let values = DATA / VALUE;
        assert_eq!(self.says(&format!("DEBUG POPULATE {values} key {VALUE}")), "+OK");
        self
    }

    /// Has it read everything that it holds.
    pub fn reads_all(&self) {
        self.says("DEBUG DIGEST");
    }

    /// The server of a container that has just been started, once it listens.
    pub fn listening(container: Running, port: u16) -> Self {
        until("redis listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        Self { container, port, digest: String::new() }
    }

    /// Remembers what it has been filled with, and checks that its memory is on a node.
    pub fn filled_on(mut self, node: u32) -> Self {
        self.digest = self.says("DEBUG DIGEST");
        let nodes = self.nodes();
        assert!(on(&nodes, node) >= DATA, "{nodes:?}");
        assert!(off(&nodes, node) <= SLACK, "{nodes:?}");
        self
    }

    /// Sends a command and reads the first line of the answer.
    fn says(&self, command: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("redis listens");
        stream.write_all(format!("{command}\r\n").as_bytes()).expect("it reads");
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).expect("it answers");
        line.trim_end().to_owned()
    }

    /// Pins it to the CPUs of another node, as the kubelet does.
    pub fn pin(&self, containerd: &Containerd, node: u32) {
        let update = containerd.cri();
        containerd.expect("an update", update.pin(&self.container.id, &cpus_of(node)));
    }

    /// Where its own memory is, by numa_maps. The pages of its program and libraries are those of the image, which other containers
    /// map as well.
    pub fn nodes(&self) -> Nodes {
        Truth::of(self.container.pid).without_files().all()
    }

    /// Waits until its memory is on a node, and checks that it is the same data.
    pub fn comes_to(&self, node: u32) {
        let mut nodes = self.nodes();
        until(&format!("port {} is on node {node}", self.port), || {
            std::thread::sleep(std::time::Duration::from_millis(200));
            nodes = self.nodes();
            on(&nodes, node) >= DATA && off(&nodes, node) <= SLACK
        });
        self.has_its_data();
    }

    /// Asserts that its memory is where it was filled, and is the same.
    pub fn is_still_on(&self, node: u32) {
        let nodes = self.nodes();
        assert!(on(&nodes, node) >= DATA && off(&nodes, node) <= SLACK, "{nodes:?}");
        self.has_its_data();
    }

    fn has_its_data(&self) {
        assert_eq!(self.says("DEBUG DIGEST"), self.digest, "port {}", self.port);
    }
}
