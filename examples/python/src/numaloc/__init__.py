"""Client of numalocd. The messages and services are in numaloc.v1, which is generated when the package is built.

    channel = numaloc.connect("unix:///run/numaloc/numalocd.sock")
    job = numaloc.call(MigrationServiceStub(channel).CreateJob, CreateJobRequest(...)).job
    for job in numaloc.follow(channel, job):
        print(job.state_message)

docs/clients.md of the repository has the rules that these functions keep.
"""

import grpc

from .calls import TIMEOUT, call, may_be_repeated
from .errors import metadata, reason, retry_delay
from .watches import events, follow, records

__all__ = ["TIMEOUT", "call", "connect", "events", "follow", "may_be_repeated", "metadata", "reason", "records", "retry_delay"]


def connect(endpoint: str) -> grpc.Channel:
    """A connection for all calls, to an endpoint such as unix:///run/numaloc/numalocd.sock. Close it at the end."""
    # A socket's path makes no valid :authority.
    return grpc.insecure_channel(endpoint, [("grpc.default_authority", "localhost")])
