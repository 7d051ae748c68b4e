// Package retryinfo reads what a server asks for by google.rpc.RetryInfo. Its function may be called from any goroutine.
package retryinfo

import (
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"
)

// Delay is that of the first RetryInfo in the details of err's status, 0 if there is none.
func Delay(err error) time.Duration {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.RetryInfo); ok {
			return max(0, info.GetRetryDelay().AsDuration())
		}
	}
	return 0
}
