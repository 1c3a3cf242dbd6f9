// Command events follows what the daemon does, also while it is started again.
//
//	events ENDPOINT [AFTER [COUNT]]
//
// AFTER is the last event that was seen, events/0 for all that are kept; without it only later ones are shown. It ends after
// COUNT events.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strconv"

	"numaloc.io/api/client"
	"numaloc.io/api/cmd/internal/shown"
	pb "numaloc.io/api/numaloc/v1"
)

var errEnough = errors.New("enough")

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
	if !errors.Is(err, errEnough) {
		shown.Fatal(err)
	}
}

func follow(ctx context.Context, endpoint, after string, count int) error {
	conn, err := client.Connect(endpoint)
	if err != nil {
		return err
	}
	defer conn.Close()
	return client.Events(ctx, conn, after, func(event *pb.Event) error {
		// Keep event.Name: with it as AFTER none is missed or seen twice.
		fmt.Println(event.Name, event.Type, event.Job, event.Message)
		if count--; count == 0 {
			return errEnough
		}
		return nil
	})
}
