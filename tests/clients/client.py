"""Runs a job for a process to its end, as a client that knows nothing but what is generated from the proto files.

    $(tests/clients/python) tests/clients/client.py ENDPOINT PID

ENDPOINT is as gRPC writes it: unix:///run/numaloc/numalocd.sock. Prints one line of JSON; ends with 0 only if the job
SUCCEEDED.
"""

import json
import sys

import grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)
from numaloc.v1 import event_pb2, event_service_pb2, event_service_pb2_grpc
from numaloc.v1 import job_pb2, migration_service_pb2, migration_service_pb2_grpc
from numaloc.v1 import policy_pb2, target_pb2

# Seconds for one call: nothing here may hang, and a test machine is slow.
TIMEOUT = 60
WATCH_TIMEOUT = 300


def main(endpoint, pid):
    # A socket's path is not a valid :authority.
    options = [("grpc.default_authority", "localhost")]
    with grpc.insecure_channel(endpoint, options) as channel:
        report = run(channel, pid)
    print(json.dumps(report), flush=True)
    return 0 if report["state"] == "JOB_STATE_SUCCEEDED" else 1


def run(channel, pid):
    jobs = migration_service_pb2_grpc.MigrationServiceStub(channel)
    spec = policy_pb2.MigrationSpec(target=target_pb2.Target(pids=[pid]))
    request = migration_service_pb2.CreateJobRequest(spec=spec)
    job = jobs.CreateJob(request, timeout=TIMEOUT).job
    seen = []
    watched = jobs.WatchJob(
        migration_service_pb2.WatchJobRequest(name=job.name), timeout=WATCH_TIMEOUT
    )
    for update in watched:
        job = update.job
        state = job_pb2.JobState.Name(job.state)
        if state not in seen:
            seen.append(state)
    # The daemon keeps the job as the last update showed it.
    kept = jobs.GetJob(migration_service_pb2.GetJobRequest(name=job.name), timeout=TIMEOUT).job
    return {
        "job": kept.name,
        "state": job_pb2.JobState.Name(kept.state),
        "seen": seen,
        "message": kept.state_message,
        "moved_bytes": kept.outcome.account.moved_bytes,
        "processes": [process.process.pid for process in kept.outcome.processes],
        "events": events(channel, kept.name),
        "services": sorted(ProtoReflectionDescriptorDatabase(channel).get_services()),
        "refused": refused(jobs),
    }


def events(channel, job):
    request = event_service_pb2.ListEventsRequest(filter=event_pb2.EventFilter(job=job))
    stub = event_service_pb2_grpc.EventServiceStub(channel)
    found = stub.ListEvents(request, timeout=TIMEOUT).events
    return [event_pb2.EventType.Name(event.type) for event in found]


def refused(jobs):
    """The code that a job without a target is refused with."""
    try:
        jobs.CreateJob(migration_service_pb2.CreateJobRequest(), timeout=TIMEOUT)
    except grpc.RpcError as error:
        return error.code().name
    return "OK"


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
