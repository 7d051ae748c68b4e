package grpcbreaker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/breakwater-go/breakwater/breaker"
)

// Stream is the interceptor of streams: a [grpc.StreamClientInterceptor].
func (g *Guard) Stream(
	ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	b := g.breakers.Get(g.key(ctx, cc.Target(), method))
	permit, err := b.Allow()
	if err != nil {
		return nil, refused(err)
	}
	s := newStream(ctx, g, desc, b, permit)
	err = s.await(func() (err error) {
		s.ClientStream, err = streamer(s.ctx, desc, cc, method, opts...)
		return err
	})
	if err != nil {
		return nil, s.end(err)
	}
	return s, nil
}

// A stream is a client's stream whose end is told to a breaker.
type stream struct {
	grpc.ClientStream
	guard   *Guard
	breaker *breaker.Breaker
	permit  breaker.Permit // belongs to whoever moves the stage on from running
	caller  context.Context
	ctx     context.Context // caller's, ended by an answer that does not come, and by the end
	cancel  context.CancelCauseFunc
	timeout time.Duration // for a wait until the server is heard; negative: none
	single  bool          // the server answers once, after the client's messages

	mu struct {
		sync.Mutex
		stage stage
		heard bool          // a header or a message came
		old   bool          // half a lease has passed
		asked time.Time     // when the time began for which the caller's deadline is judged
		stops []func() bool // of the timer and the AfterFunc; called by the end
	}
}

// A stage is how far the report of a stream got. It only grows.
type stage int

const (
	running stage = iota // nothing was reported
	settled              // it was heard and grew old: reported as a success
	ended
)

func newStream(ctx context.Context, g *Guard, desc *grpc.StreamDesc, b *breaker.Breaker, permit breaker.Permit) *stream {
	s := &stream{
		guard: g, breaker: b, permit: permit, caller: ctx,
		timeout: timeoutOf(ctx, g.config.AnswerTimeout), single: !desc.ServerStreams,
	}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	s.mu.asked = time.Now()
	s.keep(time.AfterFunc(g.config.Breaker.Probe.Lease/2, s.grow).Stop)
	s.keep(context.AfterFunc(ctx, func() { _ = s.end(status.FromContextError(ctx.Err()).Err()) }))
	return s
}

// keep has the end of the stream call stop, with no lock held: it asks the caller's context.
func (s *stream) keep(stop func() bool) {
	s.mu.Lock()
	over := s.mu.stage == ended
	s.mu.stops = append(s.mu.stops, stop)
	s.mu.Unlock()
	if over {
		stop()
	}
}

// RecvMsg receives a message, or the end of the stream.
func (s *stream) RecvMsg(m any) error {
	err := s.await(func() error { return s.ClientStream.RecvMsg(m) })
	switch {
	case err != nil:
		return s.end(err)
	case s.single:
		return s.end(nil) // gRPC has waited for the status too
	default:
		s.hear()
		return nil
	}
}

// Header waits for the header.
func (s *stream) Header() (metadata.MD, error) {
	var md metadata.MD
	err := s.await(func() (err error) {
		md, err = s.ClientStream.Header()
		return err
	})
	switch {
	case err != nil:
		err = s.end(err)
	case md != nil: // else the stream has ended, and RecvMsg says how
		s.hear()
	}
	return md, err
}

// SendMsg sends a message.
func (s *stream) SendMsg(m any) error {
	err := s.await(func() error { return s.ClientStream.SendMsg(m) })
	switch {
	case err == nil:
		s.sent()
	case !errors.Is(err, io.EOF): // on io.EOF RecvMsg says how the stream ended
		err = s.end(err)
	}
	return err
}

// CloseSend ends what the client sends.
func (s *stream) CloseSend() error {
	s.sent()
	return s.ClientStream.CloseSend()
}

// await bounds one wait for the server until it is heard (REQ-B11).
func (s *stream) await(wait func() error) error {
	returned := false
	stop := s.bound()
	defer func() {
		stop()
		if !returned {
			s.unwound()
		}
	}()
	err := wait()
	returned = true
	return err
}

// errSilent is why a stream is cancelled whose server was not heard in time.
var errSilent = errors.New("no answer")

func (s *stream) bound() (stop func() bool) {
	if s.timeout < 0 || s.isHeard() {
		return func() bool { return false }
	}
	return time.AfterFunc(s.timeout, func() {
		if !s.isHeard() {
			s.cancel(errSilent)
		}
	}).Stop
}

func (s *stream) isHeard() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.heard
}

// hear notes that the server has answered.
func (s *stream) hear() {
	s.mu.Lock()
	if s.mu.stage == running && !s.mu.heard {
		s.permit.Answered()
	}
	s.mu.heard = true
	settles := s.settleLocked()
	s.mu.Unlock()
	s.settle(settles)
}

// grow notes that half a lease has passed.
func (s *stream) grow() {
	s.mu.Lock()
	s.mu.old = true
	settles := s.settleLocked()
	s.mu.Unlock()
	s.settle(settles)
}

func (s *stream) settleLocked() bool {
	settles := s.mu.stage == running && s.mu.heard && s.mu.old
	if settles {
		s.mu.stage = settled
	}
	return settles
}

func (s *stream) settle(settles bool) {
	if settles {
		s.permit.DoneAs(breaker.Success, nil)
	}
}

// sent notes that the client has sent something. A server that answers only once is rightly silent until then.
func (s *stream) sent() {
	if !s.single {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.asked = time.Now()
}

// end reports the end of the stream, once, and returns what its caller is told.
func (s *stream) end(err error) error {
	if errors.Is(context.Cause(s.ctx), errSilent) && codeOf(err) == codes.Canceled {
		err = status.Error(codes.DeadlineExceeded, fmt.Sprintf("grpcbreaker: no answer within %v", s.timeout))
	}
	outcome := err
	if errors.Is(err, io.EOF) {
		outcome = nil
	}
	switch before, waited := s.finish(); before {
	case running:
		s.guard.report(s.caller, s.breaker, &s.permit, outcome, waited)
	case settled:
		s.breaks(outcome)
	default:
	}
	return err
}

// breaks reports the end of a stream that counts as a success already. Its permit is long used, and in half-open it is no
// probe (REQ-B8).
func (s *stream) breaks(err error) {
	if err == nil || s.breaker.State() != breaker.Closed {
		return
	}
	if permit, refused := s.breaker.Allow(); refused == nil {
		s.guard.report(s.caller, s.breaker, &permit, err, 0)
	}
}

// unwound reports a call of the stream that did not return (REQ-B10).
func (s *stream) unwound() {
	if before, _ := s.finish(); before == running {
		s.permit.DoneAs(breaker.Failure, errUnwound)
	}
}

// finish moves to the last stage and takes off what waits for it. It returns the stage before, and how long the server
// let the caller wait, 0 if it was heard.
func (s *stream) finish() (before stage, waited time.Duration) {
	s.mu.Lock()
	before, s.mu.stage = s.mu.stage, ended
	stops := s.mu.stops
	if !s.mu.heard {
		waited = time.Since(s.mu.asked)
	}
	s.mu.Unlock()
	for _, stop := range stops {
		stop()
	}
	s.cancel(nil)
	return before, waited
}
