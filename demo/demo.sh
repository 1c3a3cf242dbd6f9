#!/usr/bin/env bash
# A Redis server has half of its data on the wrong NUMA node, and all of it comes home while clients send requests. Runs on this
# machine if it has several nodes, else in the NUMA machine of tests/vm.
#
#     demo/demo.sh
#
# NUMALOCCTL=PATH uses that program instead of building one. On a real machine it needs root.
set -euo pipefail

here=$(dirname "$(readlink -f "$0")")
root=$here/..
kernel=6.12

fail() {
    echo "demo: $*" >&2
    exit 1
}

build() { # prints where the program is
    echo "Building numalocctl, optimised: five to ten minutes on two cores the first time, seconds later." >&2
    (cd "$root" && cargo build --release -p numalocctl >&2) || fail "numalocctl does not build"
    local target
    target=$(cd "$root" && cargo metadata --format-version 1 --no-deps |
        grep -oE '"target_directory":"[^"]*"' | cut -d '"' -f 4)
    echo "$target/release/numalocctl"
}

# Counts the nodes with CPUs and memory: two are needed.
nodes() {
    local node count=0
    for node in /sys/devices/system/node/node[0-9]*; do
        [[ -n $(<"$node/cpulist") ]] || continue
        ! grep -q 'MemTotal: *0 kB' "$node/meminfo" || continue
        count=$((count + 1))
    done
    echo "$count"
}

# redis-tools contains Debian's server binary too, under another name. So no package has to be installed that starts a service.
server() { command -v redis-server || command -v redis-check-rdb || fail "redis-tools is missing: run setup.sh"; }

on_this_machine() {
    ((EUID == 0)) || fail "this machine has several NUMA nodes, and moving memory on them needs root"
    echo "On this machine, which has several NUMA nodes."
    NUMALOCCTL=$numalocctl REDIS_SERVER=$(server) exec "$here/scene.sh"
}

in_the_emulated_machine() {
    local program take=()
    for program in bash redis-cli redis-benchmark numactl taskset; do
        take+=(--bin "$(command -v "$program"):$program")
    done
    echo "In an emulated machine with two NUMA nodes (kernel $kernel), because this one has only one."
    echo "All of its memory is equally fast: what can be seen is where the memory is, not what that saves."
    echo "The first time its kernel and emulator are downloaded, about 100 MB; the scene then takes about a minute."
    exec "$root/tests/vm/run" --kernel "$kernel" --timeout 600 "${take[@]}" \
        --bin "$(server):redis-server" --bin "$numalocctl:numalocctl" --bin "$here/scene.sh:demo-scene" \
        --env REDIS_SERVER=redis-server --env NUMALOCCTL=numalocctl -- bash /usr/local/bin/demo-scene
}

numalocctl=${NUMALOCCTL:-$(build)}
if (($(nodes) > 1)); then on_this_machine; else in_the_emulated_machine; fi
