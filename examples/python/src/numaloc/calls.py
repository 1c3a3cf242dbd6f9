"""Calls that are repeated until their result is known."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from typing import Any, TypeVar

import grpc

from .errors import reason, retry_delay

# Seconds that one call may take.
TIMEOUT = 60.0
# Seconds before the second try, and the most before a later one. Each time it is twice as long.
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 30.0

Request = TypeVar("Request")
Answer = TypeVar("Answer")


def may_be_repeated(error: grpc.RpcError) -> bool:
    """Whether the same request may succeed later: docs/clients.md, Errors."""
    if reason(error) == "QUOTA_EXCEEDED":
        # Without a time, a record of the caller has to end first.
        return retry_delay(error) is not None
    return error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)


def pauses() -> Iterator[float]:
    """The seconds between tries, without an end."""
    pause = FIRST_PAUSE
    while True:
        yield pause
        pause = min(2 * pause, LONGEST_PAUSE)


def call(
    method: grpc.UnaryUnaryMultiCallable[Request, Answer], request: Request, *, give_up_after: float = 300.0, timeout: float = TIMEOUT
) -> Answer:
    """Makes a call, and repeats it while it may succeed later, for `give_up_after` seconds at most. The same request is sent each time: with a
    request_id, if it has such a field, so that a call whose answer was lost is not carried out twice."""
    message: Any = request
    if "request_id" in message.DESCRIPTOR.fields_by_name and not message.request_id:
        message.request_id = str(uuid.uuid4())
    until = time.monotonic() + give_up_after
    for pause in pauses():
        try:
            return method(request, timeout=timeout)
        except grpc.RpcError as error:
            named = retry_delay(error)
            pause = pause if named is None else named
            if not may_be_repeated(error) or time.monotonic() + pause > until:
                raise
        time.sleep(pause)
    raise AssertionError("pauses() has no end")
