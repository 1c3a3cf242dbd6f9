"""What the examples share: how to reach the daemon, how to wait for a job, and how to read an error."""

import sys

import grpc
from google.rpc import error_details_pb2
from grpc_status import rpc_status
from numaloc.v1 import job_pb2, migration_service_pb2, migration_service_pb2_grpc

# Seconds that one call may take.
TIMEOUT = 60


def connect(endpoint):
    # A socket's path makes no valid :authority.
    return grpc.insecure_channel(endpoint, [("grpc.default_authority", "localhost")])


def wait(channel, job):
    """Follows a job to its end: the stream ends with it."""
    jobs = migration_service_pb2_grpc.MigrationServiceStub(channel)
    for update in jobs.WatchJob(migration_service_pb2.WatchJobRequest(name=job.name)):
        # While it moves, an update has little more than the progress.
        if update.is_progress:
            job.progress.CopyFrom(update.job.progress)
        else:
            job = update.job
        print(job.name, job_pb2.JobState.Name(job.state), job.progress.moved_bytes, "bytes moved")
    return job


def has_failed(job):
    """Whether less was done than was asked for. A job with nothing to move is SKIPPED."""
    return job.state not in (job_pb2.JOB_STATE_SUCCEEDED, job_pb2.JOB_STATE_SKIPPED)


def show(job):
    """The state with its reason, and one line for each member of the target."""
    print(job.name, job_pb2.JobState.Name(job.state), job.state_message)
    for member in job.members:
        account = member.account
        print(
            "moved", account.moved_bytes, "of", account.found_bytes, "remote bytes",
            "to nodes", list(member.home_node_ids),
            "left", {left.reason: left.bytes for left in account.left},
        )


def reason(error):
    """Why a call was refused, for programs (docs/api.md, Errors): such as TARGET_NOT_FOUND. Empty: not by the daemon."""
    status = rpc_status.from_call(error)
    info = error_details_pb2.ErrorInfo()
    for detail in status.details if status else ():
        if detail.Unpack(info):
            return info.reason
    return ""


def end(main, *arguments):
    """Runs a program, and ends with its exit code."""
    try:
        sys.exit(main(*arguments))
    except grpc.RpcError as error:
        sys.exit(f"{reason(error) or error.code().name}: {error.details()}")
