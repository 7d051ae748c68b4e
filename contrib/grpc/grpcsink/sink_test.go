package grpcsink_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/breakwater-go/breakwater/contrib/grpc/grpcsink"
	"github.com/breakwater-go/breakwater/emit"
	"github.com/breakwater-go/breakwater/emit/emittest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const method = "/breakwater.test.Events/Publish"

// A consumer is a gRPC server that takes a Struct.
type consumer struct {
	mu    sync.Mutex
	hang  bool
	fault error
	taken []emit.Trigger
	keys  []string // of the metadata
}

func (c *consumer) serve(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) { //nolint:revive // gRPC's order
	var in structpb.Struct
	if err := decode(&in); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hang {
		c.mu.Unlock()
		<-ctx.Done()
		c.mu.Lock()
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	if c.fault != nil {
		return nil, c.fault
	}
	md, _ := metadata.FromIncomingContext(ctx)
	c.keys = append(c.keys, strings.Join(md["idempotency-key"], ","))
	c.taken = append(c.taken, triggerOf(&in))
	return &structpb.Struct{}, nil
}

func (c *consumer) set(hang bool, fault error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hang, c.fault = hang, fault
}

func (c *consumer) all() []emit.Trigger {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.taken)
}

// request is what a user's function does.
func request(t emit.Trigger) (*structpb.Struct, error) {
	attributes := map[string]any{}
	for name, value := range t.Attributes {
		attributes[name] = value
	}
	return structpb.NewStruct(map[string]any{
		"id": t.ID, "type": t.Type, "source": t.Source, "subject": t.Subject, "key": t.Key,
		"time": t.Time.Format(time.RFC3339Nano), "data": string(t.Data), "attributes": attributes,
	})
}

func triggerOf(s *structpb.Struct) emit.Trigger {
	text := func(name string) string { return s.GetFields()[name].GetStringValue() }
	t := emit.Trigger{
		ID: text("id"), Type: text("type"), Source: text("source"), Subject: text("subject"), Key: text("key"), Data: []byte(text("data")),
		Attributes: map[string]string{},
	}
	t.Time, _ = time.Parse(time.RFC3339Nano, text("time"))
	for name, value := range s.GetFields()["attributes"].GetStructValue().GetFields() {
		t.Attributes[name] = value.GetStringValue()
	}
	return t
}

// start serves c on a real socket and returns its method as a generated client has it.
func start(t *testing.T, c *consumer) func(context.Context, *structpb.Struct, ...grpc.CallOption) (*structpb.Struct, error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "breakwater.test.Events", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Publish", Handler: c.serve}},
	}, nil)
	served := make(chan error)
	go func() { served <- server.Serve(l) }()
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		server.Stop()
		<-served
	})
	return func(ctx context.Context, in *structpb.Struct, opts ...grpc.CallOption) (*structpb.Struct, error) {
		out := &structpb.Struct{}
		return out, conn.Invoke(ctx, method, in, out, opts...)
	}
}

func newSink(t *testing.T, c *consumer) *grpcsink.Sink {
	t.Helper()
	s, err := grpcsink.New(start(t, c), request, grpcsink.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func withRetryInfo(code codes.Code, d time.Duration) error {
	st, err := status.New(code, "asked for").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(d)})
	if err != nil {
		return err
	}
	return st.Err()
}

func TestContract(t *testing.T) {
	emittest.Sink(t, emittest.Sinks{Open: func(t *testing.T) emittest.Consumer {
		t.Helper()
		c := &consumer{}
		return emittest.Consumer{Sink: newSink(t, c), Taken: c.all, Set: func(a emittest.Answer) {
			fault := map[emittest.Answer]error{
				emittest.Reject: status.Error(codes.InvalidArgument, "no"),
				emittest.Fail:   status.Error(codes.Internal, "no"),
				emittest.Later:  withRetryInfo(codes.Unavailable, time.Second),
			}
			c.set(a == emittest.Hang, fault[a])
		}}
	}})
}

// What each code means (REQ-E15), and that the status can be read from the error.
func TestCodes(t *testing.T) {
	c := &consumer{}
	sink := newSink(t, c)
	rejections := []codes.Code{
		codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.PermissionDenied, codes.Unauthenticated,
		codes.FailedPrecondition, codes.OutOfRange,
	}
	for code := codes.Canceled; code <= codes.Unauthenticated+1; code++ {
		for _, delay := range []time.Duration{0, time.Minute, 1000 * time.Hour} {
			fault := status.Error(code, "asked for")
			if delay > 0 {
				fault = withRetryInfo(code, delay)
			}
			c.set(false, fault)
			err := sink.Deliver(t.Context(), emit.Trigger{ID: "1"})
			want := time.Duration(0)
			if code == codes.Unavailable || code == codes.ResourceExhausted {
				want = min(delay, grpcsink.MaxRetryAfter)
			}
			got := time.Duration(0)
			if later, ok := errors.AsType[*emit.LaterError](err); ok {
				got = later.After
			}
			if err == nil || errors.Is(err, emit.ErrRejected) != slices.Contains(rejections, code) || got != want || status.Code(err) != code {
				t.Errorf("%v with %v: got %v (%v)", code, delay, err, got)
			}
		}
	}
}

// The ID travels with each delivery, encoded where metadata cannot hold it.
func TestIdempotencyKey(t *testing.T) { // REQ-E8
	c := &consumer{}
	sink := newSink(t, c)
	for _, id := range []string{"4711", "4711", "ü 1"} {
		if err := sink.Deliver(t.Context(), emit.Trigger{ID: id}); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"4711", "4711", "%C3%BC%201"}; !slices.Equal(c.keys, want) {
		t.Errorf("got %v, want %v", c.keys, want)
	}
}

// A trigger without a request is rejected and not sent.
func TestNoRequest(t *testing.T) {
	fault := errors.New("no such type")
	sent := false
	sink, err := grpcsink.New(func(context.Context, int, ...grpc.CallOption) (int, error) { sent = true; return 0, nil },
		func(emit.Trigger) (int, error) { return 0, fault }, grpcsink.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := sink.Deliver(t.Context(), emit.Trigger{}); !errors.Is(err, emit.ErrRejected) || !errors.Is(err, fault) || sent {
		t.Errorf("got %v", err)
	}
}

// The end of the context is in the error, beside the status.
func TestContextEnds(t *testing.T) {
	c := &consumer{hang: true}
	sink := newSink(t, c)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := sink.Deliver(ctx, emit.Trigger{}); !errors.Is(err, context.DeadlineExceeded) || status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("got %v", err)
	}
}

func TestConfigFaults(t *testing.T) {
	_, err := grpcsink.New[int, int](nil, nil, grpcsink.Config{IdempotencyKey: "Key-bin"})
	for _, want := range []string{"needs a method", `IdempotencyKey is "Key-bin"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
	for _, key := range []string{"grpc-x", "x-bin", "X", "a b"} {
		if _, err := grpcsink.New(func(context.Context, int, ...grpc.CallOption) (int, error) { return 0, nil },
			func(emit.Trigger) (int, error) { return 0, nil }, grpcsink.Config{IdempotencyKey: key}); err == nil {
			t.Errorf("%q is taken", key)
		}
	}
}

func ExampleNew() {
	// As a generated client has it: func(ctx, *PublishRequest, ...grpc.CallOption) (*PublishResponse, error).
	publish := func(_ context.Context, req *structpb.Struct, _ ...grpc.CallOption) (*structpb.Struct, error) {
		if req.GetFields()["type"].GetStringValue() != "order.paid" {
			return nil, status.Error(codes.InvalidArgument, "unknown type")
		}
		return &structpb.Struct{}, nil
	}
	sink, err := grpcsink.New(publish, func(t emit.Trigger) (*structpb.Struct, error) {
		return structpb.NewStruct(map[string]any{"id": t.ID, "type": t.Type, "data": string(t.Data)})
	}, grpcsink.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, kind := range []string{"order.paid", "order.seen"} {
		fmt.Println(sink.Deliver(context.Background(), emit.Trigger{ID: "1", Type: kind}))
	}
	// Output:
	// <nil>
	// grpcsink: emit: rejected by the consumer: rpc error: code = InvalidArgument desc = unknown type
}
