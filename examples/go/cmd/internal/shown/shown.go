// Package shown has what the examples share: how they show a job, and how they end.
package shown

import (
	"context"
	"fmt"
	"log"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"numaloc.io/api/client"
	pb "numaloc.io/api/numaloc/v1"
)

// Fatal ends the program with an error and its reason.
func Fatal(err error) {
	if reason := client.Reason(err); reason != "" {
		log.Fatalf("%s: %s", reason, status.Convert(err).Message())
	}
	log.Fatal(err)
}

// Wait follows a job to its end, and shows how it goes.
func Wait(ctx context.Context, conn *grpc.ClientConn, job *pb.Job) (*pb.Job, error) {
	return client.Follow(ctx, conn, job, func(job *pb.Job) {
		fmt.Println(job.Name, job.State, job.GetProgress().GetMovedBytes(), "bytes moved")
	})
}

// Job shows a line for each member of the target, and returns an error if less was done than was asked for.
func Job(job *pb.Job) error {
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
