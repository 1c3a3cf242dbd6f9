"""What the examples share: how to reach the daemon, and how to wait for a job."""

import grpc
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
