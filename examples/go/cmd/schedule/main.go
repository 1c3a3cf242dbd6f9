// Command schedule declares a container, and keeps its memory home by a schedule that is run at once.
//
//	schedule ENDPOINT CGROUP
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"
	"numaloc.io/api/client"
	"numaloc.io/api/cmd/internal/shown"
	pb "numaloc.io/api/numaloc/v1"
)

const source = "example"

var labels = map[string]string{"example": "go"}

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: schedule ENDPOINT CGROUP")
	}
	if err := run(context.Background(), os.Args[1], os.Args[2]); err != nil {
		shown.Fatal(err)
	}
}

// declare names all containers that this client knows: others of its set are forgotten, and these when it is silent for a
// minute.
func declare(ctx context.Context, conn *grpc.ClientConn, containers ...*pb.Workload) error {
	set, err := pb.NewWorkloadServiceClient(conn).ReplaceWorkloads(ctx)
	if err != nil {
		return err
	}
	part := &pb.ReplaceWorkloadsRequest{
		Source: source, Ttl: durationpb.New(time.Minute), Workloads: containers, Last: true,
	}
	if err := set.Send(part); err != nil {
		return err
	}
	_, err = set.CloseAndRecv()
	return err
}

func run(ctx context.Context, endpoint, cgroup string) error {
	conn, err := client.Connect(endpoint)
	if err != nil {
		return err
	}
	defer conn.Close()
	container := &pb.Workload{Name: "workloads/example", Cgroup: cgroup, Labels: labels}
	if err := declare(ctx, conn, container); err != nil {
		return err
	}
	schedules := pb.NewScheduleServiceClient(conn)
	made, err := client.Call(ctx, schedules.CreateSchedule, &pb.CreateScheduleRequest{
		Schedule: &pb.Schedule{
			Spec: &pb.MigrationSpec{
				// What is registered with these labels later is meant, too.
				Target: &pb.Target{Labels: &pb.LabelSelector{MatchLabels: labels}},
				Policy: &pb.Policy{Emit: pb.Emit_EMIT_ALWAYS},
			},
			Interval: durationpb.New(10 * time.Minute),
		},
	})
	if err != nil {
		return err
	}
	name := made.Schedule.Name
	started, err := client.Call(ctx, schedules.RunSchedule, &pb.RunScheduleRequest{Name: name})
	if err != nil {
		return err
	}
	job, err := shown.Wait(ctx, conn, started.Job)
	if err != nil {
		return err
	}
	// A client that stays says from time to time that it is there.
	renewed, err := client.Call(ctx, pb.NewWorkloadServiceClient(conn).RenewWorkloads, &pb.RenewWorkloadsRequest{Source: source})
	if err != nil {
		return err
	}
	fmt.Println(renewed.WorkloadCount, "workloads renewed")
	gone := &pb.DeleteScheduleRequest{Name: name, AllowMissing: true}
	if _, err := client.Call(ctx, schedules.DeleteSchedule, gone); err != nil {
		return err
	}
	if err := declare(ctx, conn); err != nil {
		return err
	}
	return shown.Job(job)
}
