// Command migrate brings the memory of a process home.
//
//	migrate ENDPOINT PID
package main

import (
	"context"
	"log"
	"os"
	"strconv"

	"numaloc.io/api/client"
	"numaloc.io/api/cmd/internal/shown"
	pb "numaloc.io/api/numaloc/v1"
)

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: migrate ENDPOINT PID")
	}
	pid, err := strconv.ParseInt(os.Args[2], 10, 32)
	if err != nil {
		log.Fatal(err)
	}
	if err := run(context.Background(), os.Args[1], int32(pid)); err != nil {
		shown.Fatal(err)
	}
}

func run(ctx context.Context, endpoint string, pid int32) error {
	conn, err := client.Connect(endpoint)
	if err != nil {
		return err
	}
	defer conn.Close()
	// It gets a request_id: sent again after a lost connection, it makes no second job.
	made, err := client.Call(ctx, pb.NewMigrationServiceClient(conn).CreateJob, &pb.CreateJobRequest{
		Spec:       &pb.MigrationSpec{Target: &pb.Target{Pids: []int32{pid}}},
		OnConflict: pb.ConflictAction_CONFLICT_ACTION_JOIN,
	})
	if err != nil {
		return err
	}
	job, err := shown.Wait(ctx, conn, made.Job)
	if err != nil {
		return err
	}
	return shown.Job(job)
}
