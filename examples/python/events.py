"""Follows what the daemon does.

    events.py ENDPOINT [AFTER [COUNT]]

AFTER is the last event that was seen, `events/0` for all that are kept; without it only later ones are told. Ends after COUNT
events.
"""

import sys

from daemon import connect, end
from numaloc.v1 import event_pb2, event_service_pb2
from numaloc.v1.event_service_pb2_grpc import EventServiceStub


def main(endpoint, after="", count="0"):
    left = int(count)
    with connect(endpoint) as channel:
        request = event_service_pb2.WatchEventsRequest(after=after)
        for answer in EventServiceStub(channel).WatchEvents(request):
            event = answer.event
            # Keep event.name: with it as AFTER none is missed or seen twice.
            print(event.name, event_pb2.EventType.Name(event.type), event.job, event.message, flush=True)
            left -= 1
            if left == 0:
                break


if __name__ == "__main__":
    if not 2 <= len(sys.argv) <= 4:
        sys.exit(__doc__)
    end(main, *sys.argv[1:])
