package client

import (
	"context"
	"crypto/rand"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

const (
	// Timeout is the time that one call may take.
	Timeout = time.Minute
	// The time before the second try, and the most before a later one. Each time it is twice as long.
	firstPause, longestPause = 100 * time.Millisecond, 30 * time.Second
)

// sleep is replaced by tests.
var sleep = func(ctx context.Context, pause time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(pause):
		return nil
	}
}

// MayBeRepeated says whether the same request may succeed later: docs/clients.md, Errors.
func MayBeRepeated(err error) bool {
	if Reason(err) == "QUOTA_EXCEEDED" {
		// Without a time, a record of the caller has to end first.
		_, is := RetryDelay(err)
		return is
	}
	code := status.Code(err)
	return code == codes.Unavailable || code == codes.DeadlineExceeded
}

// pauses are the times between tries.
type pauses struct{ next time.Duration }

// wait waits before the next try: as long as the error says, or longer each time.
func (p *pauses) wait(ctx context.Context, err error) error {
	p.next = min(max(2*p.next, firstPause), longestPause)
	pause := p.next
	if named, is := RetryDelay(err); is {
		pause = named
	}
	return sleep(ctx, pause)
}

// Call makes a call, and repeats it while it may succeed later, until the context ends. The same request is sent each time: with a request_id, if it
// has such a field, so that a call whose answer was lost is not carried out twice.
func Call[Request proto.Message, Answer any](
	ctx context.Context, method func(context.Context, Request, ...grpc.CallOption) (Answer, error), request Request,
) (Answer, error) {
	message := request.ProtoReflect()
	if field := message.Descriptor().Fields().ByName("request_id"); field != nil && !message.Has(field) {
		message.Set(field, protoreflect.ValueOfString(rand.Text()))
	}
	var tries pauses
	for {
		answer, err := once(ctx, method, request)
		if err == nil || !MayBeRepeated(err) || ctx.Err() != nil {
			return answer, err
		}
		if tries.wait(ctx, err) != nil {
			return answer, err
		}
	}
}

func once[Request, Answer any](
	ctx context.Context, method func(context.Context, Request, ...grpc.CallOption) (Answer, error), request Request,
) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	return method(ctx, request)
}
