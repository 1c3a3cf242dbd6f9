"""Follows what the daemon does, also while it is started again.

    events.py ENDPOINT [AFTER [COUNT]]

AFTER is the last event that was seen, `events/0` for all that are kept; without it only later ones are shown. Ends after COUNT
events.
"""

import sys
from itertools import islice

import numaloc
from numaloc.v1 import event_pb2
from shown import end


def main(endpoint, after="", count=""):
    with numaloc.connect(endpoint) as channel:
        for event in islice(numaloc.events(channel, after), int(count) if count else None):
            # Keep event.name: with it as AFTER none is missed or seen twice.
            print(event.name, event_pb2.EventType.Name(event.type), event.job, event.message, flush=True)


if __name__ == "__main__":
    if not 2 <= len(sys.argv) <= 4:
        sys.exit(__doc__)
    end(main, *sys.argv[1:])
