"""The package numaloc with a real daemon, which is started again meanwhile.

    $(tests/clients/python) tests/clients/restart.py NUMALOCD
"""

import subprocess
import sys
import tempfile

import grpc
import numaloc
from google.protobuf.duration_pb2 import Duration
from numaloc.v1 import daemon_service_pb2, policy_pb2, schedule_pb2, schedule_service_pb2 as service, target_pb2
from numaloc.v1.daemon_service_pb2_grpc import DaemonServiceStub
from numaloc.v1.schedule_service_pb2_grpc import ScheduleServiceStub


def wanted(cgroup, request_id=""):
    spec = policy_pb2.MigrationSpec(target=target_pb2.Target(cgroups=[cgroup]))
    schedule = schedule_pb2.Schedule(spec=spec, interval=Duration(seconds=3600), paused=True)
    return service.CreateScheduleRequest(schedule=schedule, request_id=request_id)


def main(program):
    with tempfile.TemporaryDirectory() as place:
        endpoint = f"unix://{place}/socket"
        arguments = [program, "--socket", f"{place}/socket", "--state-dir", f"{place}/state"]
        log = open(f"{place}/log", "w", encoding="utf-8")
        daemon = subprocess.Popen(arguments, stderr=log)
        try:
            with numaloc.connect(endpoint) as channel:
                stub = ScheduleServiceStub(channel)
                # The daemon is not there yet: the call waits for it.
                numaloc.call(DaemonServiceStub(channel).GetStatus, daemon_service_pb2.GetStatusRequest())
                first = numaloc.call(stub.CreateSchedule, wanted("/numaloc-first", "first")).schedule.name
                known = numaloc.records(stub.WatchSchedules, service.WatchSchedulesRequest())
                assert set(next(known)) == {first}

                daemon.terminate()
                assert daemon.wait() == 0, daemon.returncode
                daemon = subprocess.Popen(arguments, stderr=log)
                # Its answer could have been lost: the same id makes no second schedule.
                again = numaloc.call(stub.CreateSchedule, wanted("/numaloc-first", "first")).schedule.name
                assert again == first, again
                second = numaloc.call(stub.CreateSchedule, wanted("/numaloc-second")).schedule.name
                gone = service.DeleteScheduleRequest(name=first, allow_missing=True)
                numaloc.call(stub.DeleteSchedule, gone)
                # The token is of the run before: all records are listed again, and what is gone is left out.
                assert set(next(each for each in known if set(each) == {second})) == {second}
                try:
                    numaloc.call(stub.GetSchedule, service.GetScheduleRequest(name=first))
                    raise AssertionError("it is still there")
                except grpc.RpcError as error:
                    assert numaloc.reason(error) == "RESOURCE_NOT_FOUND", error
                    assert numaloc.metadata(error) == {"resource": first}, error
        finally:
            daemon.terminate()
            daemon.wait()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
