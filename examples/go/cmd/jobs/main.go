// Command jobs shows which jobs the daemon has, and how many are in each state after each change, also while it is started again.
//
//	jobs ENDPOINT [COUNT]
//
// It ends after COUNT lines.
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
	if len(os.Args) < 2 || len(os.Args) > 3 {
		log.Fatal("usage: jobs ENDPOINT [COUNT]")
	}
	count := 0
	if len(os.Args) > 2 {
		var err error
		if count, err = strconv.Atoi(os.Args[2]); err != nil {
			log.Fatal(err)
		}
	}
	if err := watch(context.Background(), os.Args[1], count); !errors.Is(err, errEnough) {
		shown.Fatal(err)
	}
}

func watch(ctx context.Context, endpoint string, count int) error {
	conn, err := client.Connect(endpoint)
	if err != nil {
		return err
	}
	defer conn.Close()
	return client.Jobs(ctx, conn, nil, func(known map[string]*pb.Job) error {
		states := map[string]int{}
		for _, job := range known {
			states[job.State.String()]++
		}
		fmt.Println(len(known), "jobs", states)
		if count--; count == 0 {
			return errEnough
		}
		return nil
	})
}
