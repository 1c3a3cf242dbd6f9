"""Watches that continue where they broke: while the daemon is started again, or after a lost connection."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import grpc

from numaloc.v1 import change_pb2, event_pb2, event_service_pb2, job_pb2, migration_service_pb2
from numaloc.v1.event_service_pb2_grpc import EventServiceStub
from numaloc.v1.migration_service_pb2_grpc import MigrationServiceStub

from .calls import may_be_repeated, pauses
from .errors import reason, retry_delay


def follow(channel: grpc.Channel, job: job_pb2.Job) -> Iterator[job_pb2.Job]:
    """The job after each change; the last one is the job as it has ended."""
    watch = MigrationServiceStub(channel).WatchJob
    # A new watch begins with the job as it is, so it needs no token.
    for update in continued(watch, lambda: migration_service_pb2.WatchJobRequest(name=job.name)):
        # While it moves, an update has little more than the progress.
        if update.is_progress:
            job.progress.CopyFrom(update.job.progress)
        else:
            job = update.job
        yield job


def events(channel: grpc.Channel, after: str = "") -> Iterator[event_pb2.Event]:
    """All events after this one, each once; without it those from now on. Keep the name of the last event that you have taken in: with it as `after`
    none is missed or seen twice. CURSOR_OUT_OF_RANGE is raised: events are gone, so read the present state, and continue after `last` of its metadata."""
    last = after
    for answer in continued(EventServiceStub(channel).WatchEvents, lambda: event_service_pb2.WatchEventsRequest(after=last)):
        last = answer.event.name
        yield answer.event


def records(watch: Callable[..., Iterator[Any]], request: Any) -> Iterator[dict[str, Any]]:
    """The jobs, schedules or workloads that meet the request's filter, by name: when all have come, and after each change. `watch` is WatchJobs,
    WatchSchedules or WatchWorkloads of a stub. The dictionary is the same each time."""
    # CAUGHT_UP is the end of the list: what has not come by then is gone.
    known: dict[str, Any] = {}
    listed: dict[str, Any] | None = {}
    while True:
        try:
            for answer in continued(watch, lambda: request):
                request.resume_token = answer.resume_token
                held = known if listed is None else listed
                # One at most: CAUGHT_UP has none.
                for record in (value for field, value in answer.ListFields() if field.message_type):
                    if answer.change == change_pb2.RECORD_CHANGE_PRESENT:
                        held[record.name] = record
                    elif answer.change == change_pb2.RECORD_CHANGE_REMOVED:
                        held.pop(record.name, None)
                if answer.change == change_pb2.RECORD_CHANGE_CAUGHT_UP and listed is not None:
                    known.clear()
                    known.update(listed)
                    listed = None
                if listed is None:
                    yield known
            return
        except grpc.RpcError as error:
            if reason(error) != "CURSOR_OUT_OF_RANGE":
                raise
            time.sleep(retry_delay(error) or 0)
            request.resume_token = ""
            listed = {}


def continued(watch: Callable[..., Iterator[Any]], request: Callable[[], Any]) -> Iterator[Any]:
    """The answers of a watch, which is called again when it breaks: with the request that there is then."""
    tries = pauses()
    while True:
        try:
            for answer in watch(request()):
                tries = pauses()
                yield answer
            return
        except grpc.RpcError as error:
            if not may_be_repeated(error):
                raise
            pause, named = next(tries), retry_delay(error)
        time.sleep(pause if named is None else named)
