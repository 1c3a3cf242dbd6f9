#!/bin/sh
# Drives a daemon with grpcurl and no proto file: looks round, runs a job for a process to its end, and makes a mistake.
# Says what it has shown; ends at the first thing that is not as it should be.
#
#     tests/clients/grpcurl.sh ENDPOINT PID
#
# ENDPOINT is unix:///PATH. Runs with busybox's sh; grpcurl is looked up on PATH.
set -eu

[ $# = 2 ] || { sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2 && exit 2; }
socket=${1#unix://} pid=$2
answer=$(mktemp)
trap 'rm -f "$answer"' EXIT

# grpcurl with what it says, also on failure, in $answer. A socket's path makes no valid :authority.
ask() { grpcurl -plaintext -unix -authority localhost -max-time 300 "$@" >"$answer" 2>&1; }

call() { # METHOD [JSON]
    ask -d "${2:-{\}}" "$socket" "$1" || fail "$1 failed"
}

fail() {
    echo "grpcurl.sh: $*; the answer was:" >&2
    cat "$answer" >&2
    exit 1
}

has() { # TEXT...: each of them is in the answer
    for text in "$@"; do
        grep -qF -- "$text" "$answer" || fail "no $text"
    done
}

field() { # NAME: the first string of that name in the answer
    sed -n "s/^ *\"$1\": \"\([^\"]*\)\",\{0,1\}$/\1/p" "$answer" | head -n 1
}

ask "$socket" list || fail "listing failed"
has grpc.health.v1.Health grpc.reflection.v1.ServerReflection grpc.reflection.v1alpha.ServerReflection
for service in Daemon Event Locality Migration Schedule Workload; do
    has "numaloc.v1.${service}Service"
done
echo "ok: services are listed"

# grpcurl asks by v1 where it is there; these calls speak each version as any other method.
for version in v1 v1alpha; do
    call grpc.reflection.$version.ServerReflection/ServerReflectionInfo '{"list_services": ""}'
    has '"name": "numaloc.v1.MigrationService"'
done
echo "ok: both versions of reflection list services"

ask "$socket" describe numaloc.v1.CreateJobRequest || fail "describing failed"
has '.numaloc.v1.MigrationSpec spec = 1' 'string request_id = 2' 'Makes the request safe to repeat' 'field_behavior) = REQUIRED'
echo "ok: a message is described, with its comments and options"

call grpc.health.v1.Health/Check
has SERVING
call numaloc.v1.LocalityService/GetTopology
has '"nodes": [' '"totalBytes": "'
echo "ok: it is healthy and shows its nodes"

call numaloc.v1.MigrationService/CreateJob "{\"spec\": {\"target\": {\"pids\": [$pid]}}, \"request_id\": \"grpcurl-$pid\"}"
job=$(field name)
case $job in jobs/*) ;; *) fail "no name of a job" ;; esac
call numaloc.v1.MigrationService/WatchJob "{\"name\": \"$job\"}"
has "\"name\": \"$job\"" '"state": "JOB_STATE_SUCCEEDED"'
call numaloc.v1.MigrationService/GetJob "{\"name\": \"$job\"}"
has '"state": "JOB_STATE_SUCCEEDED"' '"movedBytes": "' '"flows": ['
echo "ok: $job moved $(field movedBytes) bytes"

# The same request once more is answered with the same job.
call numaloc.v1.MigrationService/CreateJob "{\"spec\": {\"target\": {\"pids\": [$pid]}}, \"request_id\": \"grpcurl-$pid\"}"
has "\"name\": \"$job\"" '"existing": true'
echo "ok: the request is safe to repeat"

if ask -d '{"spec": {"target": {"pids": [0]}}}' "$socket" numaloc.v1.MigrationService/CreateJob; then
    fail "pid 0 was taken"
fi
has 'Code: InvalidArgument' google.rpc.BadRequest spec.target.pids google.rpc.ErrorInfo INVALID_FIELD
echo "ok: a bad field is named"
