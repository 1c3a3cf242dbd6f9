"""Shows which jobs the daemon has, and how many are in each state after each change, also while it is started again.

    jobs.py ENDPOINT [COUNT]

Ends after COUNT lines.
"""

import sys
from collections import Counter
from itertools import islice

import numaloc
from numaloc.v1 import job_pb2, migration_service_pb2
from numaloc.v1.migration_service_pb2_grpc import MigrationServiceStub
from shown import end


def main(endpoint, count=""):
    with numaloc.connect(endpoint) as channel:
        watch = MigrationServiceStub(channel).WatchJobs
        jobs = numaloc.records(watch, migration_service_pb2.WatchJobsRequest())
        for known in islice(jobs, int(count) if count else None):
            states = Counter(job_pb2.JobState.Name(job.state) for job in known.values())
            print(len(known), "jobs", dict(sorted(states.items())), flush=True)


if __name__ == "__main__":
    if not 2 <= len(sys.argv) <= 3:
        sys.exit(__doc__)
    end(main, *sys.argv[1:])
