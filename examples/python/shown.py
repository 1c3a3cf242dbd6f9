"""What the examples share: how they show a job, and how they end."""

import sys

import grpc
import numaloc
from numaloc.v1 import job_pb2


def wait(channel, job):
    """Follows a job to its end, and shows how it goes."""
    for job in numaloc.follow(channel, job):
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


def end(main, *arguments):
    """Runs a program, and ends with its exit code."""
    try:
        sys.exit(main(*arguments))
    except grpc.RpcError as error:
        sys.exit(f"{numaloc.reason(error) or error.code().name}: {error.details()}")
    except KeyboardInterrupt:
        sys.exit(130)
