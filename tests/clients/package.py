"""The package numaloc against a server that fails in the ways that docs/clients.md lists. The server is in this process.

    $(tests/clients/python) tests/clients/package.py
"""

import tempfile
import unittest
from concurrent import futures
from unittest import mock

import grpc
import numaloc
from google.protobuf import any_pb2
from google.rpc import code_pb2, error_details_pb2, status_pb2
from grpc_status import rpc_status
from numaloc.v1 import change_pb2, event_pb2, event_service_pb2, event_service_pb2_grpc
from numaloc.v1 import job_pb2, migration_service_pb2 as service, migration_service_pb2_grpc

PRESENT = change_pb2.RECORD_CHANGE_PRESENT
REMOVED = change_pb2.RECORD_CHANGE_REMOVED
CAUGHT_UP = change_pb2.RECORD_CHANGE_CAUGHT_UP


def failure(code, reason="", delay=None, **metadata):
    """An error as the daemon sends it."""
    details = []
    if reason:
        details.append(error_details_pb2.ErrorInfo(reason=reason, domain="numaloc.io", metadata=metadata))
    if delay is not None:
        retry = error_details_pb2.RetryInfo()
        retry.retry_delay.FromMilliseconds(int(delay * 1000))
        details.append(retry)
    packed = []
    for detail in details:
        packed.append(any_pb2.Any())
        packed[-1].Pack(detail)
    return status_pb2.Status(code=code, message="as asked for", details=packed)


class Script:
    """Answers each call with the next step: a list of answers, which an error may end."""

    def __init__(self, *steps):
        self.steps, self.requests = list(steps), []

    def stream(self, request, context):
        self.requests.append(request)
        for answer in self.steps.pop(0):
            if isinstance(answer, status_pb2.Status):
                context.abort_with_status(rpc_status.to_status(answer))
            yield answer

    def unary(self, request, context):
        return next(self.stream(request, context))


class Case(unittest.TestCase):
    def serve(self, add, base, **methods):
        """A channel to a server whose methods these are."""
        place = self.enterContext(tempfile.TemporaryDirectory())
        server = grpc.server(futures.ThreadPoolExecutor(2))
        add(type("Fake", (base,), {name: staticmethod(method) for name, method in methods.items()})(), server)
        address = f"unix:{place}/socket"
        server.add_insecure_port(address)
        server.start()
        self.addCleanup(lambda: server.stop(0).wait())
        self.slept = []
        self.enterContext(mock.patch("time.sleep", self.slept.append))
        return self.enterContext(numaloc.connect(address))

    def jobs(self, **methods):
        add = migration_service_pb2_grpc.add_MigrationServiceServicer_to_server
        return self.serve(add, migration_service_pb2_grpc.MigrationServiceServicer, **methods)


class Calls(Case):
    def create(self, *steps, **fields):
        script = Script(*steps)
        channel = self.jobs(CreateJob=script.unary)
        stub = migration_service_pb2_grpc.MigrationServiceStub(channel)
        try:
            result = numaloc.call(stub.CreateJob, service.CreateJobRequest(**fields))
        except grpc.RpcError as error:
            result = error
        return result, script

    def test_a_repeated_call_has_the_same_request_id(self):
        made = service.CreateJobResponse(job=job_pb2.Job(name="jobs/1"))
        steps = [[failure(code_pb2.UNAVAILABLE)], [failure(code_pb2.DEADLINE_EXCEEDED, "CALL_TIMED_OUT")], [made]]
        result, script = self.create(*steps)
        self.assertEqual(result.job.name, "jobs/1")
        ids = {request.request_id for request in script.requests}
        self.assertEqual((len(script.requests), len(ids), "" in ids), (3, 1, False))
        self.assertEqual(self.slept, [0.1, 0.2])

    def test_an_id_of_the_caller_is_kept(self):
        made = service.CreateJobResponse()
        _, script = self.create([made], request_id="mine")
        self.assertEqual(script.requests[0].request_id, "mine")

    def test_the_daemon_names_the_pause(self):
        made = service.CreateJobResponse()
        self.create([failure(code_pb2.RESOURCE_EXHAUSTED, "QUOTA_EXCEEDED", delay=1.5)], [made])
        self.assertEqual(self.slept, [1.5])

    def test_what_does_not_help_is_not_repeated(self):
        for code, reason in [
            (code_pb2.NOT_FOUND, "TARGET_NOT_FOUND"),
            (code_pb2.RESOURCE_EXHAUSTED, "QUOTA_EXCEEDED"),
            (code_pb2.ABORTED, "CONFLICTING_JOB"),
            (code_pb2.RESOURCE_EXHAUSTED, "STORE_FULL"),
        ]:
            with self.subTest(reason):
                error, script = self.create([failure(code, reason, resource="jobs/7")])
                self.assertEqual((len(script.requests), self.slept), (1, []))
                self.assertEqual(numaloc.reason(error), reason)
                self.assertEqual(numaloc.metadata(error), {"resource": "jobs/7"})

    def test_it_gives_up(self):
        with mock.patch("time.monotonic", side_effect=[0.0, 299.95, 299.95, 299.95]):
            error, script = self.create([failure(code_pb2.UNAVAILABLE)])
        self.assertEqual((error.code(), len(script.requests)), (grpc.StatusCode.UNAVAILABLE, 1))
        # The server of gRPC itself sends no reason.
        self.assertEqual((numaloc.reason(error), numaloc.metadata(error), numaloc.retry_delay(error)), ("", {}, None))


class Watches(Case):
    def test_a_job_is_followed_across_a_break(self):
        def answer(state, moved=0, is_progress=False):
            job = job_pb2.Job(name="jobs/1", state=state, progress=job_pb2.JobProgress(moved_bytes=moved))
            return service.WatchJobResponse(job=job, is_progress=is_progress)

        running, done = job_pb2.JOB_STATE_RUNNING, job_pb2.JOB_STATE_SUCCEEDED
        script = Script(
            [answer(running), answer(0, 5, True), failure(code_pb2.UNAVAILABLE, "UNAVAILABLE", delay=0.25)],
            [answer(running, 7), answer(done, 9)],
        )
        seen = [
            (job.state, job.progress.moved_bytes)
            for job in numaloc.follow(self.jobs(WatchJob=script.stream), job_pb2.Job(name="jobs/1"))
        ]
        self.assertEqual(seen, [(running, 0), (running, 5), (running, 7), (done, 9)])
        self.assertEqual(self.slept, [0.25])

    def test_events_continue_after_the_last_one(self):
        def event(number):
            return event_service_pb2.WatchEventsResponse(event=event_pb2.Event(name=f"events/{number}"))

        gone = failure(code_pb2.OUT_OF_RANGE, "CURSOR_OUT_OF_RANGE", last="events/9")
        script = Script([event(4), event(5), failure(code_pb2.UNAVAILABLE)], [failure(code_pb2.UNAVAILABLE)], [event(6), gone])
        add = event_service_pb2_grpc.add_EventServiceServicer_to_server
        channel = self.serve(add, event_service_pb2_grpc.EventServiceServicer, WatchEvents=script.stream)
        seen = []
        with self.assertRaises(grpc.RpcError) as raised:
            for each in numaloc.events(channel, "events/3"):
                seen.append(each.name)
        self.assertEqual(seen, ["events/4", "events/5", "events/6"])
        self.assertEqual([request.after for request in script.requests], ["events/3", "events/5", "events/5"])
        self.assertEqual(numaloc.metadata(raised.exception), {"last": "events/9"})
        # An answer begins the pauses again.
        self.assertEqual(self.slept, [0.1, 0.2])

    def test_records_continue_with_the_token_or_are_listed_again(self):
        def answer(change, name, token):
            job = job_pb2.Job(name=name) if name else None
            return service.WatchJobsResponse(change=change, job=job, resume_token=token)

        script = Script(
            [answer(PRESENT, "jobs/1", "a"), answer(PRESENT, "jobs/2", "b"), answer(CAUGHT_UP, "", "c"), failure(code_pb2.UNAVAILABLE)],
            [answer(REMOVED, "jobs/1", "d"), failure(code_pb2.OUT_OF_RANGE, "CURSOR_OUT_OF_RANGE", delay=0.5)],
            [answer(PRESENT, "jobs/3", "e"), answer(REMOVED, "jobs/8", "f"), answer(CAUGHT_UP, "", "g")],
        )
        watch = migration_service_pb2_grpc.MigrationServiceStub(self.jobs(WatchJobs=script.stream)).WatchJobs
        seen = [sorted(known) for known in numaloc.records(watch, service.WatchJobsRequest())]
        self.assertEqual(seen, [["jobs/1", "jobs/2"], ["jobs/2"], ["jobs/3"]])
        self.assertEqual([request.resume_token for request in script.requests], ["", "c", ""])
        self.assertEqual(self.slept, [0.1, 0.5])


if __name__ == "__main__":
    unittest.main()
