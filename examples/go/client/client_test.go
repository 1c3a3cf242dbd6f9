package client

import (
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"
	pb "numaloc.io/api/numaloc/v1"
)

// failure is an error as the daemon sends it. A delay of zero is none.
func failure(code codes.Code, reason string, delay time.Duration, metadata map[string]string) error {
	var details []protoadapt.MessageV1
	if reason != "" {
		details = append(details, &errdetails.ErrorInfo{Reason: reason, Domain: "numaloc.io", Metadata: metadata})
	}
	if delay != 0 {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(delay)})
	}
	failed, err := status.New(code, "as asked for").WithDetails(details...)
	if err != nil {
		panic(err)
	}
	return failed.Err()
}

// script answers each call with the next step: a list of answers, which an error may end.
type script[Request, Answer any] struct {
	steps    [][]any
	requests []*Request
}

func (s *script[Request, Answer]) stream(request *Request, stream grpc.ServerStreamingServer[Answer]) error {
	s.requests = append(s.requests, request)
	step := s.steps[0]
	s.steps = s.steps[1:]
	for _, each := range step {
		if err, is := each.(error); is {
			return err
		}
		if err := stream.Send(each.(*Answer)); err != nil {
			return err
		}
	}
	return nil
}

type fake struct {
	pb.UnimplementedMigrationServiceServer
	pb.UnimplementedEventServiceServer
	create script[pb.CreateJobRequest, pb.CreateJobResponse]
	job    script[pb.WatchJobRequest, pb.WatchJobResponse]
	jobs   script[pb.WatchJobsRequest, pb.WatchJobsResponse]
	events script[pb.WatchEventsRequest, pb.WatchEventsResponse]
}

func (f *fake) CreateJob(_ context.Context, request *pb.CreateJobRequest) (*pb.CreateJobResponse, error) {
	f.create.requests = append(f.create.requests, request)
	step := f.create.steps[0][0]
	f.create.steps = f.create.steps[1:]
	if err, is := step.(error); is {
		return nil, err
	}
	return step.(*pb.CreateJobResponse), nil
}

func (f *fake) WatchJob(request *pb.WatchJobRequest, stream grpc.ServerStreamingServer[pb.WatchJobResponse]) error {
	return f.job.stream(request, stream)
}

func (f *fake) WatchJobs(request *pb.WatchJobsRequest, stream grpc.ServerStreamingServer[pb.WatchJobsResponse]) error {
	return f.jobs.stream(request, stream)
}

func (f *fake) WatchEvents(request *pb.WatchEventsRequest, stream grpc.ServerStreamingServer[pb.WatchEventsResponse]) error {
	return f.events.stream(request, stream)
}

// serve starts the server, and returns a connection to it and the pauses that were made.
func serve(t *testing.T, f *fake) (*grpc.ClientConn, *[]time.Duration) {
	path := t.TempDir() + "/s"
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	pb.RegisterMigrationServiceServer(server, f)
	pb.RegisterEventServiceServer(server, f)
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	conn, err := Connect("unix://" + path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	var slept []time.Duration
	before := sleep
	sleep = func(_ context.Context, pause time.Duration) error {
		slept = append(slept, pause)
		return nil
	}
	t.Cleanup(func() { sleep = before })
	return conn, &slept
}

func same[Value comparable](t *testing.T, what string, got, want []Value) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %v, not %v", what, got, want)
	}
}

func TestARepeatedCallHasTheSameRequestID(t *testing.T) {
	f := &fake{}
	f.create.steps = [][]any{
		{failure(codes.Unavailable, "", 0, nil)},
		{failure(codes.DeadlineExceeded, "CALL_TIMED_OUT", 0, nil)},
		{failure(codes.ResourceExhausted, "QUOTA_EXCEEDED", 1500*time.Millisecond, nil)},
		{&pb.CreateJobResponse{Job: &pb.Job{Name: "jobs/1"}}},
	}
	conn, slept := serve(t, f)
	made, err := Call(t.Context(), pb.NewMigrationServiceClient(conn).CreateJob, &pb.CreateJobRequest{})
	if err != nil || made.Job.Name != "jobs/1" {
		t.Fatal(made, err)
	}
	ids := map[string]bool{}
	for _, request := range f.create.requests {
		ids[request.RequestId] = true
	}
	if len(f.create.requests) != 4 || len(ids) != 1 || ids[""] {
		t.Error(ids)
	}
	same(t, "pauses", *slept, []time.Duration{100 * time.Millisecond, 200 * time.Millisecond, 1500 * time.Millisecond})
}

func TestAnIDOfTheCallerIsKept(t *testing.T) {
	f := &fake{}
	f.create.steps = [][]any{{&pb.CreateJobResponse{}}}
	conn, _ := serve(t, f)
	if _, err := Call(t.Context(), pb.NewMigrationServiceClient(conn).CreateJob, &pb.CreateJobRequest{RequestId: "mine"}); err != nil {
		t.Fatal(err)
	}
	same(t, "ids", []string{f.create.requests[0].RequestId}, []string{"mine"})
}

func TestWhatDoesNotHelpIsNotRepeated(t *testing.T) {
	for reason, code := range map[string]codes.Code{
		"TARGET_NOT_FOUND": codes.NotFound, "QUOTA_EXCEEDED": codes.ResourceExhausted, "CONFLICTING_JOB": codes.Aborted,
	} {
		f := &fake{}
		f.create.steps = [][]any{{failure(code, reason, 0, map[string]string{"resource": "jobs/7"})}}
		conn, slept := serve(t, f)
		_, err := Call(t.Context(), pb.NewMigrationServiceClient(conn).CreateJob, &pb.CreateJobRequest{})
		if Reason(err) != reason || Metadata(err)["resource"] != "jobs/7" || len(*slept) != 0 {
			t.Error(reason, err, *slept)
		}
	}
	if plain := status.Error(codes.NotFound, "of gRPC itself"); Reason(plain) != "" || len(Metadata(plain)) != 0 {
		t.Error("it has a reason")
	}
}

func TestAJobIsFollowedAcrossABreak(t *testing.T) {
	answer := func(state pb.JobState, moved int64, isProgress bool) *pb.WatchJobResponse {
		job := &pb.Job{Name: "jobs/1", State: state, Progress: &pb.JobProgress{MovedBytes: moved}}
		return &pb.WatchJobResponse{Job: job, IsProgress: isProgress}
	}
	running, done := pb.JobState_JOB_STATE_RUNNING, pb.JobState_JOB_STATE_SUCCEEDED
	f := &fake{}
	f.job.steps = [][]any{
		{answer(running, 0, false), answer(0, 5, true), failure(codes.Unavailable, "UNAVAILABLE", 250*time.Millisecond, nil)},
		{answer(running, 7, false), answer(done, 9, false)},
	}
	conn, slept := serve(t, f)
	var moved []int64
	job, err := Follow(t.Context(), conn, &pb.Job{Name: "jobs/1"}, func(job *pb.Job) {
		moved = append(moved, job.Progress.MovedBytes)
	})
	if err != nil || job.State != done {
		t.Fatal(job, err)
	}
	same(t, "moved", moved, []int64{0, 5, 7, 9})
	same(t, "pauses", *slept, []time.Duration{250 * time.Millisecond})
}

func TestEventsContinueAfterTheLastOne(t *testing.T) {
	event := func(name string) *pb.WatchEventsResponse {
		return &pb.WatchEventsResponse{Event: &pb.Event{Name: name}}
	}
	broken := failure(codes.Unavailable, "", 0, nil)
	gone := failure(codes.OutOfRange, "CURSOR_OUT_OF_RANGE", 0, map[string]string{"last": "events/9"})
	f := &fake{}
	f.events.steps = [][]any{{event("events/4"), event("events/5"), broken}, {broken}, {event("events/6"), gone}}
	conn, slept := serve(t, f)
	var seen []string
	err := Events(t.Context(), conn, "events/3", func(event *pb.Event) error {
		seen = append(seen, event.Name)
		return nil
	})
	if Metadata(err)["last"] != "events/9" {
		t.Error(err)
	}
	same(t, "events", seen, []string{"events/4", "events/5", "events/6"})
	var after []string
	for _, request := range f.events.requests {
		after = append(after, request.After)
	}
	same(t, "after", after, []string{"events/3", "events/5", "events/5"})
	// An answer begins the pauses again.
	same(t, "pauses", *slept, []time.Duration{100 * time.Millisecond, 200 * time.Millisecond})
}

func TestAWatchEndsWithTheErrorOfWhoTakes(t *testing.T) {
	f := &fake{}
	f.events.steps = [][]any{{&pb.WatchEventsResponse{Event: &pb.Event{Name: "events/1"}}}}
	conn, slept := serve(t, f)
	// Also if that looks like one of the connection.
	own := status.Error(codes.Unavailable, "own")
	err := Events(t.Context(), conn, "", func(*pb.Event) error { return own })
	if !errors.Is(err, own) || len(*slept) != 0 {
		t.Error(err, *slept)
	}
}

func TestJobsContinueWithTheTokenOrAreListedAgain(t *testing.T) {
	answer := func(change pb.RecordChange, name, token string) *pb.WatchJobsResponse {
		response := &pb.WatchJobsResponse{Change: change, ResumeToken: token}
		if name != "" {
			response.Job = &pb.Job{Name: name}
		}
		return response
	}
	present, removed := pb.RecordChange_RECORD_CHANGE_PRESENT, pb.RecordChange_RECORD_CHANGE_REMOVED
	caughtUp := pb.RecordChange_RECORD_CHANGE_CAUGHT_UP
	f := &fake{}
	f.jobs.steps = [][]any{
		{answer(present, "jobs/1", "a"), answer(present, "jobs/2", "b"), answer(caughtUp, "", "c"), failure(codes.Unavailable, "", 0, nil)},
		{answer(removed, "jobs/1", "d"), failure(codes.OutOfRange, "CURSOR_OUT_OF_RANGE", 500*time.Millisecond, nil)},
		{answer(present, "jobs/3", "e"), answer(removed, "jobs/8", "f"), answer(caughtUp, "", "g")},
	}
	conn, slept := serve(t, f)
	var seen []string
	err := Jobs(t.Context(), conn, nil, func(known map[string]*pb.Job) error {
		names := slices.Sorted(maps.Keys(known))
		seen = append(seen, names...)
		seen = append(seen, ";")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "jobs", seen, []string{"jobs/1", "jobs/2", ";", "jobs/2", ";", "jobs/3", ";"})
	var tokens []string
	for _, request := range f.jobs.requests {
		tokens = append(tokens, request.ResumeToken)
	}
	same(t, "tokens", tokens, []string{"", "c", ""})
	same(t, "pauses", *slept, []time.Duration{100 * time.Millisecond, 500 * time.Millisecond})
}
