#!/usr/bin/env bash
# Installs what building and testing numaloc needs on Debian. Run it as root; it may be run again at any time.
#
#     ./setup.sh [--all]      --all: also what only make test-all needs
#
# No package here starts a service. The Redis server of the tests comes with redis-tools: its redis-check-rdb is the same program
# as the server under another name.
set -euo pipefail

packages=(
    # building: gcc, which Rust links with, and hwloc for the topology
    make gcc libc6-dev pkg-config libhwloc-dev libudev-dev
    # tests/vm: the emulator, and tools that unpack kernels and pack the initramfs
    qemu-system-x86 busybox-static cpio kmod e2fsprogs zstd xz-utils binutils
    # systemd, which --systemd boots in the emulated machine; without systemd-sysv the package leaves this machine's init alone
    systemd
    # the message bus, over which systemd answers users other than root; without the package dbus no bus is started here
    dbus-daemon dbus-system-bus-common
    # the application that the tests move, and the tool that they compare with
    redis-tools numactl
    # file systems of which tests move the page cache
    btrfs-progs xfsprogs
    # persistent memory as memory of a node
    daxctl
    # applications that check their own memory, while the tests move it
    stress-ng stressapptest memtester
    # tests/containerd: what runc needs; containerd and runc themselves are unpacked and not installed, as they would start a service
    libseccomp2
    # packaging: the libraries that a program needs, as Debian's packages name them
    dpkg-dev
    # packaging/apt-directory: the lists that apt reads, and their signatures
    apt-utils gpg gpg-agent
    # Debian systems for tests/vm/run --debian
    mmdebstrap
    # a terminal for the tests of numalocctl top
    tmux
    # fuzz: libFuzzer is C++
    g++
    # fetching crates
    ca-certificates git
)
# tests/tools: clients of the daemon in Python and Go. An old Go is enough, because it fetches a newer one.
python3 -c 'import ensurepip, venv' 2>/dev/null || packages+=(python3-venv)
command -v go >/dev/null || packages+=(golang-go)
# tests/proto and tests/dashboards: npm fetches buf, and the types of Grafana. An npm that does not come from Debian is fine, too.
command -v npm >/dev/null || packages+=(npm)

# tests/packages: what checks packages; and a second measure of persistent memory. They bring more than a hundred others along.
[[ ${1:-} != --all ]] || packages+=(lintian rpm fio)

missing=()
for package in "${packages[@]}"; do
    [[ $(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null) == installed ]] || missing+=("$package")
done

if ((${#missing[@]})); then
    echo "setup: installing ${#missing[@]} Debian packages (one to three minutes): ${missing[*]}"
    if ((EUID != 0)); then
        echo "setup: not root; run: apt-get install --no-install-recommends ${missing[*]}" >&2
        exit 1
    fi
    export DEBIAN_FRONTEND=noninteractive
    install=(apt-get install -y -q --no-install-recommends -o Acquire::Retries=3 "${missing[@]}")
    # apt's hundreds of lines are of interest only when it fails.
    log=$(mktemp -t numaloc-setup.XXXXXX)
    # The package lists may be missing or too old. So try with them as they are, and update them if that fails.
    if ! { "${install[@]}" || { apt-get update -q -o Acquire::Retries=3 && "${install[@]}"; }; } >"$log" 2>&1; then
        tail -n 20 "$log" >&2
        echo "setup: apt-get failed; all that it said is in $log" >&2
        exit 1
    fi
    rm "$log"
fi

if ! command -v cargo >/dev/null && [[ ! -x ${CARGO_HOME:-$HOME/.cargo}/bin/cargo ]]; then
    cat >&2 <<'EOF'
setup: cargo is missing, and Debian's is too old. Install Rust with rustup
(https://rustup.rs), or put an existing toolchain's bin directory on PATH; then run this again.
EOF
    exit 1
fi
echo "setup: all there"
