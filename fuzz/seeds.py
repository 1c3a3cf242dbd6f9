#!/usr/bin/env python3
"""Writes inputs from which fuzzing begins, a directory for each target: what is valid and has much in it. Without them a fuzzer takes
long until a request is one.

    fuzz/seeds.py DIRECTORY

Messages are written by their field numbers in proto/. A seed that is out of date is a bad beginning, and nothing worse.
"""

import os
import struct
import sys

TOP = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..")


def varint(number):
    """A number of protobuf."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(out + bytes([number]))


def message(fields):
    """A message: pairs of a field's number and its value. Several of one number are a list."""
    out = b""
    for number, value in fields:
        if isinstance(value, float):
            out += varint(number << 3 | 1) + struct.pack("<d", value)
        elif isinstance(value, int):
            out += varint(number << 3) + varint(value)
        else:
            value = value.encode() if isinstance(value, str) else value
            out += varint(number << 3 | 2) + varint(len(value)) + value
    return out


def labels(number, **pairs):
    """A map of texts."""
    return [(number, message([(1, key), (2, value)])) for key, value in pairs.items()]


MINUTE = message([(1, 60)])
NOW = message([(1, 1_700_000_000), (2, 5)])
SELECTOR = message(labels(1, app="web") + [(2, message([(1, "tier"), (2, 2), (3, "db")])), (3, "prod")])
TARGET = message([(1, b"\x01\x02"), (2, "/a"), (3, "b.service"), (4, "c1"), (5, "p-1"), (6, SELECTOR)])
POLICY = message([(3, 1), (6, 90), (7, 1 << 30), (8, 1), (10, 2), (11, message([(2, 5_000_000)])), (17, b"\x00\x01")])
LIMITS = message([(1, 16 << 20), (2, 2), (3, MINUTE), (4, 1 << 30)])
SPEC = message([(1, TARGET), (2, POLICY), (3, LIMITS)])
SCHEDULE = [(2, SPEC), (3, MINUTE), (4, message([(1, 6)])), (5, message([(1, 600)])), (6, 1)] + labels(20, team="db")
WORKLOAD = [
    (1, "workloads/w"), (2, "/a/b"), (3, "c1"), (4, "p-1"), (6, 3), (9, "prod"), (10, "node"), (11, MINUTE), (13, "e-1"),
] + labels(5, app="web")
ACCOUNT = message([(1, 8192), (2, 4096), (5, message([(1, 1), (2, 4096)]))])
OUTCOME = message([(1, ACCOUNT), (2, message([(1, message([(1, 7), (2, 9)])), (2, "app"), (3, ACCOUNT)])), (5, MINUTE)])
JOB = [
    (1, "jobs/7"), (2, SPEC), (3, 5), (6, "uid:0"), (7, "a-1"), (8, NOW), (9, NOW), (10, NOW),
    (11, message([(1, 8192), (2, 4096), (3, 8192), (4, NOW)])), (13, OUTCOME), (15, 0), (20, 7),
] + labels(19, team="db")
EVENT = [
    (1, "events/9"), (2, 1), (3, NOW), (4, "jobs/7"), (5, "schedules/3"), (6, TARGET), (7, b"\x01"), (8, b"\x00"),
    (9, 20.5), (10, 99.5), (11, 4096), (13, "done"), (20, "uid:0"),
]

CPU = message([(1, message([(1, 2048)])), (2, message([(1, 100000)])), (3, message([(1, 100000)])), (6, "0-3"), (7, "0")])
LINUX = message([(3, message([(1, message([(1, message([(1, 1 << 30)]))])), (2, CPU)])), (5, "kubepods-pod1.slice:cri:c1")])
ASKED = message([(1, "numaloc.io/policy"), (2, '{"interval": "60s", "spec": {"policy": {"profile": "gentle"}}}')])
POD = message([(1, "s1"), (2, "web-0"), (3, "p-1"), (4, "prod"), (6, ASKED), (8, message([(3, "/kubepods/pod1")]))] + labels(5, app="web"))
CONTAINER = message([(1, "c1"), (2, "s1"), (3, "server"), (4, 3), (11, LINUX), (12, 4711)] + labels(5, app="web"))


def call(method, payload):
    """A call as the target takes it: crates/numaloc-nri/src/fuzz.rs has the methods."""
    return bytes([method]) + struct.pack("<H", len(payload)) + payload


def entries(*of):
    return b"".join(struct.pack("=Q", entry) for entry in of)


PRESENT, EXCLUSIVE, OF_A_FILE = 1 << 63, 1 << 56, 1 << 61
SHARED = [PRESENT | OF_A_FILE | frame for frame in range(16)]
OWN = [PRESENT | EXCLUSIVE | frame for frame in range(16, 32)]


def files(name):
    with open(os.path.join(TOP, name), "rb") as file:
        return file.read()


def uncommented(text):
    """A sample of a configuration with its keys: `#key = value`."""
    lines = text.split(b"\n")
    return b"\n".join(line[1:] if line[:1] == b"#" and line[1:2] not in b" " else line for line in lines)


SEEDS = {
    "proto": [
        message([(1, SPEC), (2, "a-1"), (3, 2), (6, "nightly")] + labels(4, team="db")),
        message([(1, message(SCHEDULE)), (2, "a-1"), (4, "nightly")]),
        message([(1, message(WORKLOAD))]),
        message([(1, TARGET), (2, POLICY)]),
        message([(1, "jobs/7")]),
    ],
    "records": [
        message(JOB),
        message([(1, "schedules/3"), (7, 1), (10, NOW), (13, NOW), (14, NOW), (15, "uid:0"), (21, 3)] + SCHEDULE),
        message(WORKLOAD + [(7, NOW), (8, "uid:0"), (12, NOW)]),
        message(EVENT),
    ],
    "numa_maps": [
        b"55d1c000 default file=/usr/bin/a\\040b mapped=3 mapmax=2 N0=3 kernelpagesize_kB=4\n"
        b"7f0000000000 bind:1 anon=512 dirty=512 N1=512 kernelpagesize_kB=4\n"
        b"7f0000400000 prefer (many):0-1 huge anon=2 dirty=2 N1=2 kernelpagesize_kB=2048\n"
        b"7f0000900000 weighted interleave:0 anon=1 N0=1 kernelpagesize_kB=4\n",
        b"7f1c00000000-7f1c00021000 rw-p 00000000 00:00 0 \n"
        b"1000-2000 rw-s 00000000 00:01 77                 /memfd:x (deleted)\n"
        b"7f00-8f00 r-xp 00026000 fe:01 1234     /usr/lib/a b.so\n",
    ],
    "schemata": [
        b"    MB:0=100;1= 10\n    L3:0=7ff;1=f\n",
        b"    L3CODE:0=3\n    L3DATA:0=3\n        MB:0=2048;17=4294967295\n",
    ],
    "placements": [
        b"tiers:fast=0-1,8,slow=2,4,cold_after=2m,keep_fast=25%,free_fast=4G,beside_kernel=warn,watch=referenced",
        b"weighted:bandwidth:0,2",
        b"balance:0=3,1=1",
        b"anon>1G=interleave:0,2",
        b"memfd:x=weighted:0=3,1=1",
    ],
    "pagemap": [
        entries(*OWN, *SHARED, *[0] * 16, *SHARED, *[1, 2] * 16),
        entries(*[PRESENT | EXCLUSIVE | 0x8000 + page for page in range(1024)], *[0] * 1024, *[1] * 1024),
    ],
    "nri": [
        b"\x01" + call(0, message([(2, "containerd"), (3, "v2.0")])) + call(1, message([(1, POD), (2, CONTAINER)])),
        b"\x01" + call(2, message([(1, POD), (2, CONTAINER)])) + call(5, message([(1, POD), (2, CONTAINER)])),
        b"\x01" + call(4, message([(1, 5), (2, POD), (3, CONTAINER)])) + call(7, message([(1, POD), (2, CONTAINER)])),
        b"\x00" + struct.pack(">IIIIBB", 2, 10, 0, 1, 2, 0),
    ],
    "annotations": [
        b'\x00{"policy": "bestEffort", "migrateIntervalMinutes": 5}',
        b'\x01{"spec": {"policy": {"profile": "gentle", "nodes": {"node_ids": [1]}}, "limits": {"workers": 2}}, "interval": "1m"}',
        b'\x02{"main": {"policy": "none"}, "other": "bestEffort"}',
        b"\x03none",
        b"\x04numaloc.io/policy.container.",
        b'\x00{"clusterStrategy": {"lsClass": {"memoryLocality": {"policy": "bestEffort"}}}, "nodeStrategies": [{"nodeSelector": {}}]}',
        b'\x00{"phase": "Completed", "lastResult": {"completedTime": "2026-05-28T20:26:40Z", "result": "x"}}',
    ],
    "cluster": [
        files("crates/numaloc-agent/tests/pod.json"),
        files("crates/numaloc-agent/tests/pod.json") + b'\0{"data": {"resource-qos-config": "{}", "dsa-accelerate-config": "{}"}}',
    ],
    "configuration": [
        uncommented(files("systemd/numalocd.toml")),
        uncommented(files("systemd/nri.toml")),
        uncommented(files("systemd/agent.toml")),
        files("systemd/numaloc-nri.grant.toml"),
    ],
}

for target, seeds in SEEDS.items():
    directory = os.path.join(sys.argv[1], target)
    os.makedirs(directory, exist_ok=True)
    for number, seed in enumerate(seeds):
        with open(os.path.join(directory, f"seed-{number}"), "wb") as file:
            file.write(seed)
