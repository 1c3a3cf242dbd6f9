#!/bin/sh
# Uses a daemon with grpcurl and without a proto file: lists its services, runs a job for a process to its end, and makes an
# invalid request. Prints what was shown. Ends at the first answer that is not as expected.
#
#     tests/clients/grpcurl.sh ENDPOINT PID
#
# ENDPOINT is unix:///PATH. Runs with busybox's sh; grpcurl is looked up on PATH.
set -eu

[ $# = 2 ] || { sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2 && exit 2; }
socket=${1#unix://} pid=$2
answer=$(mktemp)
trap 'rm -f "$answer"' EXIT

# Runs grpcurl and keeps its output in $answer, also on failure. A socket's path is not a valid :authority.
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

field() { # NAME: the first string with this name in the answer
    sed -n "s/^ *\"$1\": \"\([^\"]*\)\",\{0,1\}$/\1/p" "$answer" | head -n 1
}

ask "$socket" list || fail "listing failed"
has grpc.health.v1.Health grpc.reflection.v1.ServerReflection grpc.reflection.v1alpha.ServerReflection
for service in Daemon Event Locality Migration Schedule Workload; do
    has "numaloc.v1.${service}Service"
done
echo "ok: services are listed"

# grpcurl uses v1 if the server has it. These calls use each version directly.
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

# The same request again is answered with the same job.
call numaloc.v1.MigrationService/CreateJob "{\"spec\": {\"target\": {\"pids\": [$pid]}}, \"request_id\": \"grpcurl-$pid\"}"
has "\"name\": \"$job\"" '"existing": true'
echo "ok: the request is safe to repeat"

if ask -d '{"spec": {"target": {"pids": [0]}}}' "$socket" numaloc.v1.MigrationService/CreateJob; then
    fail "pid 0 was taken"
fi
has 'Code: InvalidArgument' google.rpc.BadRequest spec.target.pids google.rpc.ErrorInfo INVALID_FIELD
echo "ok: a bad field is named"
