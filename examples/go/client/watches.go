package client

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	pb "numaloc.io/api/numaloc/v1"
)

// Follow watches a job to its end, and passes it on after each change. It returns the job as it has ended.
func Follow(ctx context.Context, conn *grpc.ClientConn, job *pb.Job, each func(*pb.Job)) (*pb.Job, error) {
	watch := pb.NewMigrationServiceClient(conn).WatchJob
	// A new watch begins with the job as it is, so it needs no token.
	request := &pb.WatchJobRequest{Name: job.Name}
	err := continued(ctx, watch, request, func(update *pb.WatchJobResponse) error {
		// While it moves, an update has little more than the progress.
		if update.IsProgress {
			job.Progress = update.Job.Progress
		} else {
			job = update.Job
		}
		each(job)
		return nil
	})
	return job, err
}

// Events passes on all events after this one, each once; without it those from now on. Keep the name of the last event that you have taken in: with it
// as after none is missed or seen twice. It ends with the error of each. With CURSOR_OUT_OF_RANGE events are gone: read the present state,
// and continue after "last" of the error's metadata.
func Events(ctx context.Context, conn *grpc.ClientConn, after string, each func(*pb.Event) error) error {
	request := &pb.WatchEventsRequest{After: after}
	return continued(ctx, pb.NewEventServiceClient(conn).WatchEvents, request, func(answer *pb.WatchEventsResponse) error {
		request.After = answer.Event.Name
		return each(answer.Event)
	})
}

// Jobs passes on the jobs that meet the filter, by name: when all have come, and after each change. The map is the same each time. It ends with
// the error of each.
func Jobs(ctx context.Context, conn *grpc.ClientConn, filter *pb.JobFilter, each func(map[string]*pb.Job) error) error {
	request := &pb.WatchJobsRequest{Filter: filter}
	watch := pb.NewMigrationServiceClient(conn).WatchJobs
	known := map[string]*pb.Job{}
	for {
		// CAUGHT_UP is the end of the list: what has not come by then is gone.
		listed, complete := map[string]*pb.Job{}, false
		err := continued(ctx, watch, request, func(answer *pb.WatchJobsResponse) error {
			request.ResumeToken = answer.ResumeToken
			held := listed
			if complete {
				held = known
			}
			switch answer.Change {
			case pb.RecordChange_RECORD_CHANGE_PRESENT:
				held[answer.Job.Name] = answer.Job
			case pb.RecordChange_RECORD_CHANGE_REMOVED:
				delete(held, answer.Job.Name)
			case pb.RecordChange_RECORD_CHANGE_CAUGHT_UP:
				if !complete {
					clear(known)
					for name, job := range listed {
						known[name] = job
					}
					complete = true
				}
			}
			if !complete {
				return nil
			}
			return each(known)
		})
		if Reason(err) != "CURSOR_OUT_OF_RANGE" {
			return err
		}
		request.ResumeToken = ""
		pause, _ := RetryDelay(err)
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// stopped is an error of the function that takes answers in: the watch ends with it, whatever code it has.
type stopped struct{ error }

// continued passes on the answers of a watch, which is called again when it breaks: with the request as it is then.
func continued[Request proto.Message, Answer any](
	ctx context.Context, watch func(context.Context, Request, ...grpc.CallOption) (grpc.ServerStreamingClient[Answer], error),
	request Request, take func(*Answer) error,
) error {
	var tries pauses
	for {
		err := answers(ctx, watch, request, func(answer *Answer) error {
			tries = pauses{}
			return take(answer)
		})
		if own, is := err.(stopped); is {
			return own.error
		}
		if err == nil || !MayBeRepeated(err) || ctx.Err() != nil {
			return err
		}
		if err := tries.wait(ctx, err); err != nil {
			return err
		}
	}
}

func answers[Request, Answer any](
	ctx context.Context, watch func(context.Context, Request, ...grpc.CallOption) (grpc.ServerStreamingClient[Answer], error),
	request Request, take func(*Answer) error,
) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := watch(ctx, request)
	if err != nil {
		return err
	}
	for {
		answer, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := take(answer); err != nil {
			return stopped{err}
		}
	}
}
