package gateway

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/emit"
)

// A gate is a Sink that tells when a trigger is there, and takes it when it is let.
type gate struct {
	came chan emit.Trigger
	let  chan struct{}
}

func newGate() *gate { return &gate{came: make(chan emit.Trigger, 10), let: make(chan struct{})} }

func (g *gate) Deliver(ctx context.Context, t emit.Trigger) error {
	g.came <- t
	select {
	case <-g.let:
		return context.Cause(ctx)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// patient is a consumer that may take long.
func patient(s emit.Sink) emit.Consumer {
	return emit.Consumer{Name: "billing", Sink: s, Timeout: 8 * time.Second, Slow: 7 * time.Second}
}

// A sender that goes away cuts nothing off: the delivery under way ends as it would have.
func TestTheSenderGoesAway(t *testing.T) {
	sink := newGate()
	router := newRouter(t, patient(sink))
	url, contexts := serveContexts(t, of(router))
	ctx, leave := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(event("1")))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", oneType)
	gone := make(chan error, 1)
	go func() {
		resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
		if err == nil {
			_ = resp.Body.Close()
		}
		gone <- err
	}()
	<-sink.came
	leave()
	if err := <-gone; err == nil {
		t.Fatal("the sender was answered")
	}
	<-(<-contexts).Done()
	close(sink.let)
	if err := router.Close(); err != nil {
		t.Fatal(err)
	}
	if s := router.Stats().Consumers[0]; s.Delivered != 1 || s.Emitted != 1 {
		t.Errorf("got %d delivered of %d, want 1 of 1", s.Delivered, s.Emitted)
	}
}

// A body that does not come is waited for no longer than ReadTimeout, and nothing of it is emitted; one that is cut off likewise.
func TestBodyDoesNotCome(t *testing.T) {
	sink := &taker{}
	c := of(newRouter(t, emit.Consumer{Name: "billing", Sink: sink}))
	c.ReadTimeout = 20 * time.Millisecond
	url := serve(t, c)
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	one := event("1")
	fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", oneType, len(one)+1, one)
	answer, err := io.ReadAll(conn)
	if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 408 ") {
		t.Errorf("got %s, %v", answer, err)
	}
	if got := sink.triggers(); len(got) != 0 {
		t.Errorf("emitted %v", got)
	}
}

// An answer may come later than ReadTimeout, which is for the body alone: the sender is not taken for gone.
func TestDeliveryLongerThanTheBody(t *testing.T) {
	sink := newGate()
	c := of(newRouter(t, patient(sink)))
	c.ReadTimeout = 20 * time.Millisecond
	url, contexts := serveContexts(t, c)
	gone := make(chan error, 1)
	go func() {
		<-sink.came
		<-time.After(50 * time.Millisecond)
		gone <- (<-contexts).Err()
		close(sink.let)
	}()
	if got := post(t, url, oneType, event("1")); got.status != 202 || got.Consumers[0].Outcome != emit.Delivered {
		t.Errorf("got %d %s", got.status, got.text)
	}
	if err := <-gone; err != nil {
		t.Errorf("while it was delivered: %v", err)
	}
}

// Who sends a large body before listening hears why it is not wanted.
func TestTurnedAwayIsHeard(t *testing.T) {
	url := serve(t, Config{Router: func() *emit.Router { return nil }})
	for range 5 {
		if got := post(t, url, "text/plain", strings.Repeat("x", 4<<20)); got.status != 404 {
			t.Errorf("got %d %s", got.status, got.text)
		}
	}
}

// What bodies may take at once is bounded (REQ-D10): one that exceeds it is told to come again, whether its length is told or not, and the room is
// given back.
func TestMemoryIsBounded(t *testing.T) {
	sink := newGate()
	c := of(newRouter(t, patient(sink)))
	c.MaxBody, c.MaxBatchBody, c.Memory = 40<<10, 40<<10, 40<<10
	url := serve(t, c)
	first := make(chan reply, 1)
	go func() { first <- post(t, url, oneType, event("1")) }()
	<-sink.came
	got := post(t, url, oneType, event("2"))
	if got.status != 503 || !strings.Contains(got.text, "too many events") {
		t.Errorf("got %d %s", got.status, got.text)
	}
	comesAgain(t, got, true)
	sink.let <- struct{}{}
	if got := <-first; got.status != 202 {
		t.Errorf("the first: got %d %s", got.status, got.text)
	}
	close(sink.let)
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, url, io.MultiReader(strings.NewReader(event("3")))) // chunked
	req.Header.Set("Content-Type", oneType)
	if got := do(t, req); got.status != 202 {
		t.Errorf("of no told length: got %d %s", got.status, got.text)
	}
	req, _ = http.NewRequestWithContext(t.Context(), http.MethodPost, url, io.MultiReader(strings.NewReader(strings.Repeat(" ", 41<<10))))
	req.Header.Set("Content-Type", oneType)
	if got := do(t, req); got.status != 413 {
		t.Errorf("too long, of no told length: got %d %s", got.status, got.text)
	}
}
