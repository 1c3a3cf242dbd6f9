"""Brings the memory of a process home.

    migrate.py ENDPOINT PID
"""

import sys

import numaloc
from numaloc.v1 import migration_service_pb2 as service, policy_pb2, target_pb2
from numaloc.v1.migration_service_pb2_grpc import MigrationServiceStub
from shown import end, has_failed, show, wait


def main(endpoint, pid):
    with numaloc.connect(endpoint) as channel:
        spec = policy_pb2.MigrationSpec(target=target_pb2.Target(pids=[pid]))
        # It gets a request_id: sent again after a lost connection, it makes no second job.
        request = service.CreateJobRequest(spec=spec, on_conflict=service.CONFLICT_ACTION_JOIN)
        job = numaloc.call(MigrationServiceStub(channel).CreateJob, request).job
        job = wait(channel, job)
        show(job)
        return has_failed(job)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    end(main, sys.argv[1], int(sys.argv[2]))
