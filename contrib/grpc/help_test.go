package grpcbreaker

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/breakwater-go/breakwater/breaker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The server of the tests does what a message says, word by word:
//
//	say:X     answers with a message
//	header    sends the header
//	wait:3s   waits, or until the caller is gone
//	hang      waits until the caller is gone
//	fail:X    ends with the code X, "fail:Unavailable"; "fail:Unavailable:5s" with a RetryInfo
//
// and ends with OK. On streams each message of the client is one such list; "end" ends the stream.
type message = wrapperspb.StringValue

const service = "breakwater.test.Script"

var scriptService = grpc.ServiceDesc{
	ServiceName: service,
	HandlerType: (*any)(nil),
	Methods:     []grpc.MethodDesc{{MethodName: "Unary", Handler: serveUnary}},
	Streams: []grpc.StreamDesc{
		{StreamName: "Server", Handler: serveStream, ServerStreams: true},
		{StreamName: "Client", Handler: serveUpload, ClientStreams: true},
		{StreamName: "Both", Handler: serveStream, ServerStreams: true, ClientStreams: true},
	},
}

func serveUnary(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) { //nolint:revive // gRPC's order
	var in message
	if err := decode(&in); err != nil {
		return nil, err
	}
	answer := ""
	err := play(ctx, in.Value, func(text string) error { answer = text; return nil }, nil)
	return wrapperspb.String(answer), err
}

func serveStream(_ any, s grpc.ServerStream) error {
	for {
		var in message
		err := s.RecvMsg(&in)
		if errors.Is(err, io.EOF) || in.Value == "end" {
			return nil
		}
		if err != nil {
			return err
		}
		send := func(text string) error { return s.SendMsg(wrapperspb.String(text)) }
		if err := play(s.Context(), in.Value, send, s); err != nil {
			return err
		}
	}
}

// serveUpload plays the last message when the client has sent all.
func serveUpload(_ any, s grpc.ServerStream) error {
	script := ""
	for {
		var in message
		switch err := s.RecvMsg(&in); {
		case err == nil:
			script = in.Value
		case errors.Is(err, io.EOF):
			return play(s.Context(), script, func(text string) error { return s.SendMsg(wrapperspb.String(text)) }, s)
		default:
			return err
		}
	}
}

func play(ctx context.Context, script string, say func(string) error, s grpc.ServerStream) error {
	for word := range strings.FieldsSeq(script) {
		verb, arg, _ := strings.Cut(word, ":")
		if err := playWord(ctx, verb, arg, say, s); err != nil {
			return err
		}
	}
	return nil
}

func playWord(ctx context.Context, verb, arg string, say func(string) error, s grpc.ServerStream) error {
	switch verb {
	case "say":
		return say(arg)
	case "header":
		return s.SendHeader(metadata.MD{})
	case "wait":
		d, err := time.ParseDuration(arg)
		if err != nil {
			return err
		}
		return wait(ctx, d)
	case "hang":
		return wait(ctx, time.Hour)
	case "fail":
		return failure(arg)
	}
	return status.Errorf(codes.InvalidArgument, "no such word: %s", verb)
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	case <-time.After(d):
		return nil
	}
}

// failure is the error of "Unavailable" or "Unavailable:5s".
func failure(arg string) error {
	name, delay, _ := strings.Cut(arg, ":")
	for c := codes.OK; c <= codes.Unauthenticated; c++ {
		if c.String() != name {
			continue
		}
		st := status.New(c, "asked for")
		if d, err := time.ParseDuration(delay); err == nil {
			st, _ = st.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(d)})
		}
		return st.Err()
	}
	return status.Errorf(codes.InvalidArgument, "no such code: %s", name)
}

// A rig is a client with a Guard, and its server.
type rig struct {
	t     *testing.T
	guard *Guard
	conn  *grpc.ClientConn
	// lost is called when the server's process would die: all connections break.
	lost func()
}

// overLoopback is a rig on a real socket.
func overLoopback(t *testing.T, c Config, opts ...grpc.DialOption) *rig {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return newRig(t, c, l, l.Addr().String(), opts...)
}

// inMemory is a rig for a bubble of synctest.
func inMemory(t *testing.T, c Config, opts ...grpc.DialOption) *rig {
	t.Helper()
	l := bufconn.Listen(1 << 20)
	dial := grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) })
	return newRig(t, c, l, "passthrough:///memory", append(opts, dial)...)
}

func newRig(t *testing.T, c Config, l net.Listener, target string, opts ...grpc.DialOption) *rig {
	t.Helper()
	g := mustNew(t, c)
	server := grpc.NewServer()
	server.RegisterService(&scriptService, nil)
	served := make(chan error)
	go func() { served <- server.Serve(l) }()
	conn, err := grpc.NewClient(target, append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithChainUnaryInterceptor(g.Unary),
		grpc.WithChainStreamInterceptor(g.Stream),
	}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		server.Stop()
		<-served
	})
	return &rig{t: t, guard: g, conn: conn, lost: server.Stop}
}

func mustNew(t *testing.T, c Config) *Guard {
	t.Helper()
	g, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// breaker is that of the rig's service.
func (r *rig) breaker() *breaker.Breaker { return r.guard.Breaker(r.conn.Target() + "/" + service) }

func (r *rig) unary(ctx context.Context, script string, opts ...grpc.CallOption) (string, error) {
	var out message
	err := r.conn.Invoke(ctx, "/"+service+"/Unary", wrapperspb.String(script), &out, opts...)
	return out.Value, err
}

// open opens a stream of the method and sends script.
func (r *rig) open(ctx context.Context, method, script string) grpc.ClientStream {
	r.t.Helper()
	s, err := r.tryOpen(ctx, method)
	if err == nil && script != "" {
		err = s.SendMsg(wrapperspb.String(script))
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

func (r *rig) tryOpen(ctx context.Context, method string) (grpc.ClientStream, error) {
	for i := range scriptService.Streams {
		if desc := &scriptService.Streams[i]; desc.StreamName == method {
			return r.conn.NewStream(ctx, desc, "/"+service+"/"+method)
		}
	}
	panic("no method " + method)
}

// drain receives until the stream ends, and returns what ended it: nil for io.EOF.
func drain(s grpc.ClientStream) error {
	for {
		var m message
		switch err := s.RecvMsg(&m); {
		case err == nil:
		case errors.Is(err, io.EOF):
			return nil
		default:
			return err
		}
	}
}

func (r *rig) wantState(want breaker.State) {
	r.t.Helper()
	if got := r.breaker().State(); got != want {
		r.t.Fatalf("state: got %v, want %v (%v)", got, want, r.breaker().Stats().Reason)
	}
}

// wantCounts compares what was counted since the breaker was made.
func (r *rig) wantCounts(successes, failures, ignored uint64) {
	r.t.Helper()
	s := r.breaker().Stats()
	if s.Successes != successes || s.Failures != failures || s.Ignored != ignored {
		r.t.Errorf("successes, failures, ignored: got %d, %d, %d, want %d, %d, %d",
			s.Successes, s.Failures, s.Ignored, successes, failures, ignored)
	}
}

func wantCode(t *testing.T, err error, want codes.Code) {
	t.Helper()
	if got := status.Code(err); got != want {
		t.Errorf("code: got %v, want %v (%v)", got, want, err)
	}
}

// halfOpen opens the rig's breaker by failures and lets its open period pass.
func (r *rig) halfOpen() {
	r.t.Helper()
	r.fail(1)
	r.wantState(breaker.Open)
	after(time.Second)
	r.wantState(breaker.HalfOpen)
}

// after lets d pass in a bubble, with the timers that are due then.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (r *rig) fail(n int) {
	r.t.Helper()
	for range n {
		_, err := r.unary(r.t.Context(), "fail:Unavailable")
		wantCode(r.t, err, codes.Unavailable)
	}
}

// oneFailure opens at the first failure, for exactly a second.
func oneFailure() Config {
	return Config{Breaker: breaker.Config{
		Rules: []breaker.Rule{breaker.ConsecutiveFailures{Count: 1}},
		Open:  breaker.Backoff{Base: time.Second, Jitter: -1},
	}}
}

// never is a breaker that no number of failures opens.
func never() Config {
	return Config{Breaker: breaker.Config{Rules: []breaker.Rule{breaker.ConsecutiveFailures{Count: 1 << 30}}}}
}
