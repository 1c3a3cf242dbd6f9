"""Declares a container, and keeps its memory home by a schedule that is run at once.

    schedule.py ENDPOINT CGROUP
"""

import sys

import numaloc
from google.protobuf.duration_pb2 import Duration
from numaloc.v1 import policy_pb2, schedule_pb2, schedule_service_pb2 as schedules
from numaloc.v1 import target_pb2, workload_pb2, workload_service_pb2 as workloads
from numaloc.v1.schedule_service_pb2_grpc import ScheduleServiceStub
from numaloc.v1.workload_service_pb2_grpc import WorkloadServiceStub
from shown import end, has_failed, show, wait

SOURCE = "example"
LABELS = {"example": "python"}


def declare(channel, containers):
    """All containers that this client knows: others of its set are forgotten, and these when it is silent for a minute."""
    parts = [
        workloads.ReplaceWorkloadsRequest(
            source=SOURCE, ttl=Duration(seconds=60), workloads=containers, last=True
        )
    ]
    return WorkloadServiceStub(channel).ReplaceWorkloads(iter(parts), timeout=numaloc.TIMEOUT)


def main(endpoint, cgroup):
    with numaloc.connect(endpoint) as channel:
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
        schedule = numaloc.call(stub.CreateSchedule, schedules.CreateScheduleRequest(schedule=wanted)).schedule
        run = numaloc.call(stub.RunSchedule, schedules.RunScheduleRequest(name=schedule.name))
        job = wait(channel, run.job)
        show(job)
        # A client that stays says from time to time that it is there.
        renew = workloads.RenewWorkloadsRequest(source=SOURCE)
        renewed = numaloc.call(WorkloadServiceStub(channel).RenewWorkloads, renew)
        print(renewed.workload_count, "workloads renewed")
        delete = schedules.DeleteScheduleRequest(name=schedule.name, allow_missing=True)
        numaloc.call(stub.DeleteSchedule, delete)
        declare(channel, [])
        return has_failed(job)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    end(main, *sys.argv[1:])
