"""Brings the memory of a process home.

    migrate.py ENDPOINT PID
"""

import sys
import uuid

from daemon import TIMEOUT, connect, end, has_failed, show, wait
from numaloc.v1 import migration_service_pb2 as service, policy_pb2, target_pb2
from numaloc.v1.migration_service_pb2_grpc import MigrationServiceStub


def main(endpoint, pid):
    with connect(endpoint) as channel:
        spec = policy_pb2.MigrationSpec(target=target_pb2.Target(pids=[pid]))
        request = service.CreateJobRequest(
            spec=spec,
            # The same request may be sent again after a lost connection: it makes no second job.
            request_id=str(uuid.uuid4()),
            on_conflict=service.CONFLICT_ACTION_JOIN,
        )
        job = MigrationServiceStub(channel).CreateJob(request, timeout=TIMEOUT).job
        job = wait(channel, job)
        show(job)
        return has_failed(job)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    end(main, sys.argv[1], int(sys.argv[2]))
