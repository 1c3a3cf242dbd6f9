package client

import (
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"
)

// Reason is why a call was refused, for programs (docs/api.md, Errors): such as TARGET_NOT_FOUND. Empty: the daemon has not sent the error.
func Reason(err error) string {
	info, _ := detail[*errdetails.ErrorInfo](err)
	return info.GetReason()
}

// Metadata is what the error is about, such as "resource", by the keys that docs/api.md has for its reason.
func Metadata(err error) map[string]string {
	info, _ := detail[*errdetails.ErrorInfo](err)
	return info.GetMetadata()
}

// RetryDelay is the time after which the daemon wants the call to be repeated, if it names one.
func RetryDelay(err error) (time.Duration, bool) {
	info, is := detail[*errdetails.RetryInfo](err)
	return info.GetRetryDelay().AsDuration(), is
}

// detail returns the first detail of this kind.
func detail[Detail any](err error) (found Detail, is bool) {
	for _, each := range status.Convert(err).Details() {
		if found, is = each.(Detail); is {
			return found, true
		}
	}
	return found, false
}
