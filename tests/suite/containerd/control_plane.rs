//! A control plane in this machine: etcd and kube-apiserver on loopback, as `tests/kubernetes/control-plane.sh` has
//! them on the host. It has no scheduler and no controller: pods name their node, and what controllers would make is
//! made here.

use super::rig::variable;
use numaloc_tests::DEADLINE;
use serde_json::{Value, json};
use std::{
    fs,
    io::Write,
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

const ETCD_PORT: u16 = 2379;
const PORT: u16 = 6443;

/// Both are killed when this value is dropped.
pub struct ControlPlane {
    children: Vec<Child>,
    pub dir: PathBuf,
}

impl ControlPlane {
    /// Starts it, and waits until it answers.
    pub fn start() -> Self {
        let dir = PathBuf::from("/mnt/disk/control-plane");
        // Objects of an earlier test of this machine would be there, with the same names.
        fs::remove_dir_all(&dir).ok();
        fs::create_dir_all(&dir).expect("a directory");
        let mut plane = Self { children: Vec::new(), dir };
        plane.spawn("etcd", &etcd_arguments(&plane.dir));
        let policy = json!({
            "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],
            "rules": [{"level": "Metadata"}],
        });
        plane.write("audit.yaml", &policy);
        plane.spawn("kube-apiserver", &apiserver_arguments(&plane.dir));
        plane.user("admin", &certificate("admin"));
        // Connections come before answers.
        plane.until_started("kube-apiserver listens", |_| {
            TcpStream::connect(("127.0.0.1", PORT)).is_ok()
        });
        plane.until_started("kube-apiserver is ready", |plane| {
            plane.kubectl(&["get", "--raw", "/readyz"]).status.success()
        });
        for namespace in ["default", "kube-system"] {
            let account = json!({
                "apiVersion": "v1", "kind": "ServiceAccount",
                "metadata": {"name": "default", "namespace": namespace},
            });
            plane.apply(&account);
        }
        plane
    }

    fn spawn(&mut self, name: &str, arguments: &[String]) {
        let log = fs::File::create(self.dir.join(format!("{name}.log"))).expect("a log");
        let child =
            Command::new(program(name)).args(arguments).stdin(Stdio::null()).stderr(log).spawn();
        self.children.push(child.expect("it starts"));
    }

    /// An emulated CPU needs a minute to start it, and several where the machine is busy: it may take as long as it logs what it does.
    fn until_started(&mut self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let (mut seen, mut since) = (String::new(), Instant::now());
        while !is_so(self) {
            self.assert_running();
            let log = self.log();
            if log != seen {
                (seen, since) = (log, Instant::now());
            }
            assert!(since.elapsed() < DEADLINE, "waited in vain: {what}");
            thread::sleep(Duration::from_secs(1));
        }
    }

    fn assert_running(&mut self) {
        let ended = self.children.iter_mut().any(|child| !matches!(child.try_wait(), Ok(None)));
        assert!(!ended, "{}", self.log());
    }

    /// The end of the API server's log.
    fn log(&self) -> String {
        let log = fs::read_to_string(self.dir.join("kube-apiserver.log")).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(30)..].join("\n")
    }

    fn write(&self, name: &str, value: &Value) -> PathBuf {
        let path = self.dir.join(name);
        fs::write(&path, value.to_string()).expect("a file");
        path
    }

    /// Writes a kubeconfig with these credentials, and returns its path.
    pub fn user(&self, name: &str, credentials: &Value) -> PathBuf {
        let cluster = json!({
            "server": format!("https://127.0.0.1:{PORT}"),
            "certificate-authority": key("ca.crt"),
        });
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": "test", "user": credentials}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        });
        self.write(&format!("{name}.json"), &config)
    }

    /// kubectl as an administrator.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(program("kubectl"));
        command.arg("--kubeconfig").arg(self.dir.join("admin.json"));
        command.arg("--cache-dir").arg(self.dir.join("cache")).args(arguments);
        command
    }

    pub fn kubectl(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("kubectl starts")
    }

    /// The output of a call of kubectl that has to succeed.
    pub fn get(&self, arguments: &[&str]) -> String {
        let output = self.kubectl(arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}: {}", self.log());
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    pub fn apply(&self, object: &Value) {
        let mut child = self
            .command(&["apply", "--server-side", "-f", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("kubectl starts");
        let mut stdin = child.stdin.take().expect("it is a pipe");
        stdin.write_all(object.to_string().as_bytes()).expect("it reads");
        drop(stdin);
        let status = child.wait().expect("it ends");
        assert!(status.success(), "{object}: {}", self.log());
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        for child in &mut self.children {
            child.kill().ok();
            child.wait().ok();
        }
        if thread::panicking() {
            eprintln!("the log of kube-apiserver:\n{}", self.log());
        }
    }
}

/// A program of Kubernetes or etcd, where `tests/vm/suite --kubelet` shows them.
pub fn program(name: &str) -> PathBuf {
    Path::new(&variable("NUMALOC_KUBERNETES")).join(name)
}

/// Path of a file in `tests/kubernetes/pki`.
pub fn key(name: &str) -> String {
    format!("{}/pki/{name}", variable("NUMALOC_KUBERNETES"))
}

/// Credentials that `tests/kubernetes/pki` has made.
pub fn certificate(name: &str) -> Value {
    json!({"client-certificate": key(&format!("{name}.crt")), "client-key": key(&format!("{name}.key"))})
}

fn etcd_arguments(dir: &Path) -> [String; 6] {
    let (client, peer) = (ETCD_PORT, ETCD_PORT + 1);
    [
        format!("--data-dir={}", dir.join("etcd").display()),
        "--unsafe-no-fsync".to_owned(),
        format!("--listen-client-urls=http://127.0.0.1:{client}"),
        format!("--advertise-client-urls=http://127.0.0.1:{client}"),
        format!("--listen-peer-urls=http://127.0.0.1:{peer}"),
        "--log-level=warn".to_owned(),
    ]
}

fn apiserver_arguments(dir: &Path) -> Vec<String> {
    let dir = dir.display();
    vec![
        format!("--etcd-servers=http://127.0.0.1:{ETCD_PORT}"),
        "--bind-address=127.0.0.1".to_owned(),
        // It is not advertised to clients. It may not be on loopback.
        "--advertise-address=192.0.2.1".to_owned(),
        "--endpoint-reconciler-type=none".to_owned(),
        format!("--secure-port={PORT}"),
        format!("--cert-dir={dir}/certs"),
        format!("--tls-cert-file={}", key("server.crt")),
        format!("--tls-private-key-file={}", key("server.key")),
        format!("--client-ca-file={}", key("ca.crt")),
        format!("--service-account-issuer=https://127.0.0.1:{PORT}"),
        format!("--service-account-signing-key-file={}", key("accounts.key")),
        format!("--service-account-key-file={}", key("accounts.key")),
        "--allow-privileged".to_owned(),
        "--authorization-mode=Node,RBAC".to_owned(),
        "--enable-admission-plugins=NodeRestriction".to_owned(),
        "--service-cluster-ip-range=10.96.0.0/16".to_owned(),
        format!("--audit-policy-file={dir}/audit.yaml"),
        format!("--audit-log-path={dir}/audit.log"),
    ]
}
