// Package daemon has what the examples share: how to reach numalocd, how to wait for a job, and how to read an error.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	pb "numaloc.io/api/numaloc/v1"
)

// Connect reaches the daemon at an endpoint such as unix:///run/numaloc/numalocd.sock.
func Connect(endpoint string) (*grpc.ClientConn, error) {
	// A socket's path makes no valid :authority.
	return grpc.NewClient(endpoint, grpc.WithAuthority("localhost"),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
}

// Reason is why a call was refused, for programs (docs/api.md, Errors): such as TARGET_NOT_FOUND. Empty: not by the daemon.
func Reason(err error) string {
	for _, detail := range status.Convert(err).Details() {
		if info, is := detail.(*errdetails.ErrorInfo); is {
			return info.Reason
		}
	}
	return ""
}

// Fatal ends the program with an error and its reason.
func Fatal(err error) {
	if reason := Reason(err); reason != "" {
		log.Fatalf("%s: %s", reason, status.Convert(err).Message())
	}
	log.Fatal(err)
}

// Wait follows a job to its end: the stream ends with it.
func Wait(ctx context.Context, conn *grpc.ClientConn, job *pb.Job) (*pb.Job, error) {
	updates, err := pb.NewMigrationServiceClient(conn).WatchJob(ctx, &pb.WatchJobRequest{Name: job.Name})
	if err != nil {
		return nil, err
	}
	for {
		update, err := updates.Recv()
		if errors.Is(err, io.EOF) {
			return job, nil
		}
		if err != nil {
			return nil, err
		}
		// While it moves, an update has little more than the progress.
		if update.IsProgress {
			job.Progress = update.Job.Progress
		} else {
			job = update.Job
		}
		fmt.Println(job.Name, job.State, job.GetProgress().GetMovedBytes(), "bytes moved")
	}
}

// Show prints a line for each member of the target, and says if not all is well.
func Show(job *pb.Job) error {
	for _, member := range job.Members {
		account := member.GetAccount()
		fmt.Println("moved", account.GetMovedBytes(), "of", account.GetFoundBytes(), "remote bytes to nodes",
			member.HomeNodeIds)
	}
	switch job.State {
	case pb.JobState_JOB_STATE_SUCCEEDED:
		return nil
	case pb.JobState_JOB_STATE_SKIPPED:
		// There was nothing to move.
		fmt.Println(job.Name, job.State, job.StateMessage)
		return nil
	default:
		return fmt.Errorf("%s: %v: %s", job.Name, job.State, job.StateMessage)
	}
}
