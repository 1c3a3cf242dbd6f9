// Command events follows what the daemon does.
//
//	events ENDPOINT [AFTER [COUNT]]
//
// AFTER is the last event that was seen, events/0 for all that are kept; without it only later ones are told. It ends after
// COUNT events.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strconv"

	"numaloc.io/api/internal/daemon"
	pb "numaloc.io/api/numaloc/v1"
)

func main() {
	if len(os.Args) < 2 || len(os.Args) > 4 {
		log.Fatal("usage: events ENDPOINT [AFTER [COUNT]]")
	}
	var after string
	var count int
	var err error
	if len(os.Args) > 2 {
		after = os.Args[2]
	}
	if len(os.Args) > 3 {
		count, err = strconv.Atoi(os.Args[3])
	}
	if err == nil {
		err = follow(context.Background(), os.Args[1], after, count)
	}
	if err != nil {
		daemon.Fatal(err)
	}
}

func follow(ctx context.Context, endpoint, after string, count int) error {
	conn, err := daemon.Connect(endpoint)
	if err != nil {
		return err
	}
	defer conn.Close()
	events, err := pb.NewEventServiceClient(conn).WatchEvents(ctx, &pb.WatchEventsRequest{After: after})
	if err != nil {
		return err
	}
	for seen := 1; ; seen++ {
		answer, err := events.Recv()
		if err != nil {
			return err
		}
		// Keep event.Name: with it as AFTER none is missed or seen twice.
		event := answer.Event
		fmt.Println(event.Name, event.Type, event.Job, event.Message)
		if seen == count {
			return nil
		}
	}
}
