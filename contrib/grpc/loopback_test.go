package grpcbreaker

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/breakwater-go/breakwater/breaker"
)

// serveHealth serves gRPC's own health service at an address of loopback until the returned func stops it.
func serveHealth(t *testing.T, addr string) (at string, stop func()) {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	healthpb.RegisterHealthServer(server, health.NewServer())
	served := make(chan error)
	go func() { served <- server.Serve(l) }()
	stop = sync.OnceFunc(func() {
		server.Stop()
		<-served
	})
	t.Cleanup(stop)
	return l.Addr().String(), stop
}

// told is a Guard's Config that hands each state entered to the channel.
func told(states chan<- breaker.State) Config {
	return Config{Breaker: breaker.Config{
		Open:     breaker.Backoff{Base: 50 * time.Millisecond, Max: 100 * time.Millisecond, Jitter: -1},
		Observer: breaker.Observer{OnTransition: func(tr breaker.Transition) { states <- tr.To }},
	}}
}

// A server on a real socket dies and comes back: calls and watches fail, then are refused, then one probe closes.
func TestServerDiesAndComesBack(t *testing.T) {
	addr, stop := serveHealth(t, "127.0.0.1:0")
	states := make(chan breaker.State, 1000)
	g := mustNew(t, told(states))
	conn, err := grpc.NewClient(addr,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithChainUnaryInterceptor(g.Unary),
		grpc.WithChainStreamInterceptor(g.Stream),
	)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	client := healthpb.NewHealthClient(conn)
	b := g.Breaker(addr + "/grpc.health.v1.Health")

	watches := watchTwice(t, client)
	stop()
	for _, w := range watches {
		_, err := w.Recv()
		wantCode(t, err, codes.Unavailable)
	}
	if got := b.Stats().Failures; got != 2 {
		t.Errorf("failures of the watches: got %d, want 2", got)
	}
	for b.State() == breaker.Closed {
		_, _ = client.Check(t.Context(), &healthpb.HealthCheckRequest{})
	}
	wantNext(t, states, breaker.Open)

	serveHealth(t, addr)
	for b.State() != breaker.Closed {
		wait(t.Context(), time.Millisecond)
		_, _ = client.Check(t.Context(), &healthpb.HealthCheckRequest{})
	}
	if _, err := client.Check(t.Context(), &healthpb.HealthCheckRequest{}); err != nil {
		t.Error(err)
	}
}

// watchTwice opens two watches and reads what each says first.
func watchTwice(t *testing.T, client healthpb.HealthClient) (watches []grpc.ServerStreamingClient[healthpb.HealthCheckResponse]) {
	t.Helper()
	for range 2 {
		w, err := client.Watch(t.Context(), &healthpb.HealthCheckRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Recv(); err != nil {
			t.Fatal(err)
		}
		watches = append(watches, w)
	}
	return watches
}

func wantNext(t *testing.T, states <-chan breaker.State, want breaker.State) {
	t.Helper()
	if got := <-states; got != want {
		t.Errorf("entered %v, want %v", got, want)
	}
}

// Counted under load, with streams that are cancelled while they end: each admitted call counts once.
func TestEachCallCountsOnce(t *testing.T) {
	r := overLoopback(t, never())
	const workers, calls = 8, 40
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for range calls {
				_, _ = r.unary(t.Context(), "say:x")
				_ = finish(r.open(t.Context(), "Server", "say:a fail:Unavailable"))
				ctx, cancel := context.WithCancel(t.Context())
				s := r.open(ctx, "Both", "say:a end")
				go cancel()
				_ = drain(s)
				cancel()
			}
		})
	}
	all.Wait()
	s := r.breaker().Stats()
	if s.Failures != workers*calls || s.Successes+s.Failures+s.Ignored != 3*workers*calls {
		t.Errorf("of %d calls: %+v", 3*workers*calls, s)
	}
}
