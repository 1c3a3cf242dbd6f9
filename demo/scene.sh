#!/usr/bin/env bash
# The scene itself, on a machine with at least two NUMA nodes; demo.sh starts it. No result is hard-coded: whatever goes wrong
# (pages that stay, a failed request, different data) ends it with an exit code other than 0.
set -euo pipefail

server=${REDIS_SERVER:-redis-server}
ctl=${NUMALOCCTL:-numalocctl}
keys=${KEYS:-110000} # in each half; with their values of 1 KiB about 130 MiB
work=$(mktemp -d -t numaloc-demo.XXXXXX)
socket=$work/redis.sock
balancing=/proc/sys/kernel/numa_balancing
redis='' load='' balanced=''

say() { printf '\n# %s\n' "$*"; }

# Shows a command as one would type it, and runs it.
run() {
    echo "\$ numalocctl $*"
    "$ctl" "$@"
}

fail() {
    echo "demo: $*" >&2
    exit 1
}

# shellcheck disable=SC2317  # called by the trap
finish() {
    touch "$work/enough"
    [[ -z $load ]] || wait "$load" || true
    [[ -z $balanced ]] || echo "$balanced" >"$balancing"
    [[ -z $redis ]] || { kill "$redis" && wait "$redis"; } 2>/dev/null || true
    rm -rf "$work"
}
trap finish EXIT

cli() { redis-cli -s "$socket" "$@"; }

# The first two nodes that have CPUs and memory: "home" is where the server will be pinned.
pick_nodes() {
    local directory found=()
    for directory in $(printf '%s\n' /sys/devices/system/node/node[0-9]* | sort -V); do
        [[ -n $(<"$directory/cpulist") ]] || continue
        ! grep -q 'MemTotal: *0 kB' "$directory/meminfo" || continue
        found+=("${directory##*/node}")
    done
    ((${#found[@]} > 1)) || fail "two nodes with CPUs and memory are needed"
    home=${found[0]} away=${found[1]}
}

# The kernel's own balancing moves pages of a pinned process too, little by little, as they are used. It is off here, because the
# scene shows what numalocctl does, and is restored at the end.
pause_balancing() {
    [[ -r $balancing && $(<"$balancing") != 0 ]] || return 0
    balanced=$(<"$balancing")
    echo 0 >"$balancing"
    echo "(kernel.numa_balancing is 0 instead of $balanced while this runs)"
}

# The server's memory comes from the node that it runs on, without a memory policy: numalocctl does not move memory that an
# application has bound. So half of the data is loaded while it runs on one node, half on the other.
start_server() {
    ln -s "$(command -v "$server")" "$work/redis-server" # its name decides what it does
    numactl --cpunodebind="$away" "$work/redis-server" --port 0 --unixsocket "$socket" --save '' --appendonly no \
        --enable-debug-command yes --daemonize no --dir "$work" --logfile "$work/redis.log" &
    redis=$!
    for ((try = 0; try < 200; try++)); do
        [[ $(cli ping 2>/dev/null || true) != PONG ]] || return 0
        kill -0 "$redis" 2>/dev/null || break
        sleep 0.1
    done
    cat "$work/redis.log" >&2 || true
    fail "the server does not answer"
}

load_half() { # PREFIX
    [[ $(cli debug populate "$keys" "$1" 1024) == OK ]] || fail "the data cannot be loaded"
}

pin_home() { taskset -acp "$(</sys/devices/system/node/node"$home"/cpulist)" "$redis" >/dev/null; }

# Sends requests from before the first look until after the last one, to keys of their own in another database. Each run of
# redis-benchmark fails if one request fails.
run_load() {
    local runs=0
    while [[ ! -e $work/enough ]]; do
        redis-benchmark -s "$socket" -c 8 -n 4000 -r 1000 -d 256 -t set,get --dbnum 1 -q >"$work/load.log" 2>&1 ||
            { echo "run $runs: $(tr '\r' '\n' <"$work/load.log" | tail -n 3)" >>"$work/failed"; }
        runs=$((runs + 1))
        echo "$runs" >"$work/runs"
    done
}

start_load() {
    : >"$work/failed"
    echo 0 >"$work/runs"
    run_load &
    load=$!
}

stop_load() {
    touch "$work/enough"
    wait "$load"
    load=''
}

# Counters of the server itself.
requests() { cli info commandstats | tr -d '\r' | awk -F '[=,]' '/^cmdstat_(set|get):/ { n += $2 } END { print n + 0 }'; }
errors() { cli info stats | tr -d '\r' | awk -F: '/^(total_error_replies|rejected_connections):/ { n += $2 } END { print n + 0 }'; }

# A digest of all keys and values of the data. The load's own keys are in another database and are removed first.
checksum() {
    cli -n 1 flushdb sync >/dev/null
    echo "$(cli dbsize) keys, $(cli debug digest)"
}

# The kernel's own numbers: "HOME AWAY" in MiB, without pages of files.
truth() {
    awk -v home="N$home=" -v away="N$away=" '
        / file=/ { next }
        {
            size = 4
            for (i = 3; i <= NF; i++) if ($i ~ /^kernelpagesize_kB=/) size = substr($i, 19)
            for (i = 3; i <= NF; i++) {
                if (index($i, home) == 1) h += substr($i, length(home) + 1) * size
                if (index($i, away) == 1) a += substr($i, length(away) + 1) * size
            }
        }
        END { printf "%d %d\n", h / 1024, a / 1024 }' "/proc/$redis/numa_maps"
}

show_truth() {
    local on_home on_away
    read -r on_home on_away < <(truth)
    echo "the kernel's numa_maps: $on_home MiB on node $home, $on_away MiB on node $away (without files)"
}

# Percent of the movable memory that is local, by numalocctl's own report.
local_percent() {
    "$ctl" locality --pid "$redis" -o json |
        awk '/"total":/ { total = 1 } total && /"movable":/ { movable = 1 }
            movable && /"local_percent":/ { gsub(/[^0-9.]/, ""); print; exit }'
}

at_least() { awk -v value="$1" -v least="$2" 'BEGIN { exit !(value != "" && value + 0 >= least) }'; }

pick_nodes
pause_balancing
say "A Redis server was started on node $away, and pinned to node $home when half of its data was loaded."
start_server
load_half before
pin_home
load_half after
data=$(checksum)
echo "pid $redis, CPUs $(</sys/devices/system/node/node"$home"/cpulist) of node $home, ${data%%,*}"
failed_before=$(errors)
start_load
for ((try = 0; try < 600; try++)); do
    (($(requests) < 100)) || break
    sleep 0.1
done

say "Where its memory is."
run locality "$redis"
show_truth
percent_before=$(local_percent)

say "Bring it home while clients send requests. Libraries that they map, too, stay."
asked=$(requests)
begin=${EPOCHREALTIME/[.,]/}
# 6: a part is left, for example pages that a client had in hand just then. They may be movable when it has ended.
again=''
run migrate "$redis" || { (($? == 6)) && again=1; } || fail "the memory cannot be moved"
milliseconds=$(((${EPOCHREALTIME/[.,]/} - begin) / 1000))
answered=$(($(requests) - asked))

if [[ $again ]]; then
    stop_load
    say "The rest, once the clients have ended."
    run migrate "$redis"
fi

say "Where its memory is now."
run locality "$redis"
show_truth
percent_after=$(local_percent)

[[ -z $load ]] || stop_load
total=$(requests)
failed=$(($(errors) - failed_before + $(wc -l <"$work/failed")))
data_after=$(checksum)

say "What the clients and the data say."
echo "requests: $total in all, $answered of them during the migration of $milliseconds ms, $failed failed"
echo "data:     $data_after, as before"
[[ $failed == 0 ]] || fail "requests failed: $(cat "$work/failed")"
[[ $data == "$data_after" ]] || fail "the data is not what it was"
((answered > 0)) || fail "no request was answered during the migration"
# Shared libraries stay.
at_least "$percent_after" 95 || fail "not home: $percent_after % local"
at_least "$percent_before" 75 && fail "the scene is wrong: $percent_before % were local from the start"
read -r on_home on_away < <(truth)
((on_away * 99 <= on_home)) || fail "numa_maps shows $on_away MiB on node $away"
echo "Its own memory is home, and nothing was lost."
