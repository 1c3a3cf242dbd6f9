// Command migrate brings the memory of a process home.
//
//	migrate ENDPOINT PID
package main

import (
	"context"
	"crypto/rand"
	"log"
	"os"
	"strconv"

	"numaloc.io/api/internal/daemon"
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
		daemon.Fatal(err)
	}
}

func run(ctx context.Context, endpoint string, pid int32) error {
	conn, err := daemon.Connect(endpoint)
	if err != nil {
		return err
	}
	defer conn.Close()
	made, err := pb.NewMigrationServiceClient(conn).CreateJob(ctx, &pb.CreateJobRequest{
		Spec: &pb.MigrationSpec{Target: &pb.Target{Pids: []int32{pid}}},
		// The same request may be sent again after a lost connection: it makes no second job.
		RequestId:  rand.Text(),
		OnConflict: pb.ConflictAction_CONFLICT_ACTION_JOIN,
	})
	if err != nil {
		return err
	}
	job, err := daemon.Wait(ctx, conn, made.Job)
	if err != nil {
		return err
	}
	return daemon.Show(job)
}
