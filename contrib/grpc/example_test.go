package grpcbreaker_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/breakwater-go/breakwater/breaker"
	grpcbreaker "github.com/breakwater-go/breakwater/contrib/grpc"
)

// A Guard before all calls of a connection. Nobody listens here: after five failures nothing more is sent.
func Example() {
	guard, err := grpcbreaker.New(grpcbreaker.Config{})
	if err != nil {
		log.Fatal(err) // every fault of the configuration
	}
	conn, err := grpc.NewClient("127.0.0.1:1",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithChainUnaryInterceptor(guard.Unary),
		grpc.WithChainStreamInterceptor(guard.Stream),
	)
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()

	client := healthpb.NewHealthClient(conn)
	for range 5 {
		_, err = client.Check(context.Background(), &healthpb.HealthCheckRequest{})
		fmt.Println(status.Code(err), errors.Is(err, breaker.ErrOpen))
	}
	_, err = client.Check(context.Background(), &healthpb.HealthCheckRequest{})
	fmt.Println(status.Code(err), errors.Is(err, breaker.ErrOpen))
	// Output:
	// Unavailable false
	// Unavailable false
	// Unavailable false
	// Unavailable false
	// Unavailable false
	// Unavailable true
}

// Internal counts too, by a service whose handlers answer so when their database is gone.
func ExampleClassify() {
	config := grpcbreaker.Config{Breaker: breaker.Config{
		Classify: func(err error) breaker.Outcome {
			if status.Code(err) == codes.Internal {
				return breaker.Failure
			}
			return grpcbreaker.Classify(err)
		},
	}}
	for _, code := range []codes.Code{codes.Internal, codes.Unknown, codes.NotFound} {
		fmt.Println(code, config.Breaker.Classify(status.Error(code, "")))
	}
	// Output:
	// Internal failure
	// Unknown ignored
	// NotFound success
}

// A subscription may be silent until there is something to tell, so its stream has no answer timeout.
func ExampleWithCallTimeout() {
	guard, err := grpcbreaker.New(grpcbreaker.Config{AnswerTimeout: time.Second})
	if err != nil {
		log.Fatal(err)
	}
	conn, err := grpc.NewClient("127.0.0.1:1",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithChainStreamInterceptor(guard.Stream),
	)
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()

	ctx := grpcbreaker.WithCallTimeout(context.Background(), -1)
	_, err = healthpb.NewHealthClient(conn).Watch(ctx, &healthpb.HealthCheckRequest{})
	fmt.Println(status.Code(err)) // nobody listens here
	// Output: Unavailable
}

// When a call was refused, and when to try again.
func ExampleRefusedError() {
	call := func() error { return nil } // any call of a client with a Guard
	if refusal, ok := errors.AsType[grpcbreaker.RefusedError](call()); ok {
		fmt.Println(refusal.Name, refusal.RetryAfter())
	}
	// Output:
}
