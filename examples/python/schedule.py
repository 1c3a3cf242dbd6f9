"""Declares a container, and keeps its memory home by a schedule that is run at once.

    schedule.py ENDPOINT CGROUP
"""

import sys

from daemon import TIMEOUT, connect, end, has_failed, show, wait
from google.protobuf.duration_pb2 import Duration
from numaloc.v1 import policy_pb2, schedule_pb2, schedule_service_pb2 as schedules
from numaloc.v1 import target_pb2, workload_pb2, workload_service_pb2 as workloads
from numaloc.v1.schedule_service_pb2_grpc import ScheduleServiceStub
from numaloc.v1.workload_service_pb2_grpc import WorkloadServiceStub

SOURCE = "example"
LABELS = {"example": "python"}


def declare(channel, containers):
    """All containers that this client knows: others of its set are forgotten, and these when it is silent for a minute."""
    parts = [
        workloads.ReplaceWorkloadsRequest(
            source=SOURCE, ttl=Duration(seconds=60), workloads=containers, last=True
        )
    ]
    return WorkloadServiceStub(channel).ReplaceWorkloads(iter(parts), timeout=TIMEOUT)


def main(endpoint, cgroup):
    with connect(endpoint) as channel:
        container = workload_pb2.Workload(name="workloads/example", cgroup=cgroup, labels=LABELS)
        declare(channel, [container])
        stub = ScheduleServiceStub(channel)
        wanted = schedule_pb2.Schedule(
            spec=policy_pb2.MigrationSpec(
                # What is registered with these labels later is meant, too.
                target=target_pb2.Target(labels=target_pb2.LabelSelector(match_labels=LABELS)),
                policy=policy_pb2.Policy(emit=policy_pb2.EMIT_ALWAYS),
            ),
            interval=Duration(seconds=600),
        )
        request = schedules.CreateScheduleRequest(schedule=wanted, request_id="example")
        schedule = stub.CreateSchedule(request, timeout=TIMEOUT).schedule
        run = stub.RunSchedule(schedules.RunScheduleRequest(name=schedule.name), timeout=TIMEOUT)
        job = wait(channel, run.job)
        show(job)
        # A client that stays says from time to time that it is there.
        renewed = WorkloadServiceStub(channel).RenewWorkloads(
            workloads.RenewWorkloadsRequest(source=SOURCE), timeout=TIMEOUT
        )
        print(renewed.workload_count, "workloads renewed")
        stub.DeleteSchedule(schedules.DeleteScheduleRequest(name=schedule.name), timeout=TIMEOUT)
        declare(channel, [])
        return has_failed(job)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    end(main, *sys.argv[1:])
