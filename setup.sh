#!/usr/bin/env bash
# Installs what building and testing numaloc needs on Debian; run as root, as often as wanted.
#
# No package here starts a service: the Redis server of the tests comes with redis-tools,
# whose redis-check-rdb is the server under another name.
set -euo pipefail

packages=(
    # building: the linker's compiler, and hwloc for the topology
    make gcc libc6-dev pkg-config libhwloc-dev libudev-dev
    # tests/vm: the emulator, and what unpacks kernels and packs the initramfs
    qemu-system-x86 busybox-static cpio kmod e2fsprogs zstd xz-utils binutils
    # what --systemd boots there; without systemd-sysv it leaves this machine's init alone
    systemd
    # and the bus, over which it answers others than root: without the package dbus nothing of it is started here
    dbus-daemon dbus-system-bus-common
    # what the tests move, and the tools that they compare with
    redis-tools numactl
    # fetching crates
    ca-certificates git
)
# tests/tools: clients of the daemon in Python and Go. An old Go will do, it fetches a newer one.
python3 -c 'import ensurepip, venv' 2>/dev/null || packages+=(python3-venv)
command -v go >/dev/null || packages+=(golang-go)
# tests/proto: fetching buf. Another npm than Debian's will do, too.
command -v npm >/dev/null || packages+=(npm)

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
    # The package lists may be missing or too old: one try with what is there, then an update.
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
