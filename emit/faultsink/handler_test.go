package faultsink_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/emit"
	"github.com/breakwater-go/breakwater/emit/emittest"
	"github.com/breakwater-go/breakwater/emit/faultsink"
	"github.com/breakwater-go/breakwater/emit/httpsink"
)

// kept is a Next that keeps what it got.
type kept struct {
	mu    sync.Mutex
	taken []emit.Trigger
}

func (k *kept) Deliver(_ context.Context, t emit.Trigger) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	t.Data = append([]byte(nil), t.Data...)
	k.taken = append(k.taken, t)
	return nil
}

func (k *kept) all() []emit.Trigger {
	k.mu.Lock()
	defer k.mu.Unlock()
	return append([]emit.Trigger(nil), k.taken...)
}

// open is a consumer of the suite behind the sink that wire makes of it.
func open(t *testing.T, wire func(*testing.T, *faultsink.Sink) emit.Sink) emittest.Consumer {
	t.Helper()
	k := &kept{}
	s, err := faultsink.New(faultsink.Config{Next: k})
	if err != nil {
		t.Fatal(err)
	}
	return emittest.Consumer{Sink: wire(t, s), Taken: k.all, Set: func(a emittest.Answer) {
		f := map[emittest.Answer]faultsink.Faults{
			emittest.Reject: {Rejects: 1}, emittest.Fail: {Errors: 1}, emittest.Hang: {Hangs: 1},
			emittest.Later: {Errors: 1, RetryAfter: time.Second},
		}
		if err := s.Set(f[a]); err != nil {
			t.Error(err)
		}
	}}
}

// A Sink keeps the contract of sinks.
func TestContract(t *testing.T) {
	emittest.Sink(t, emittest.Sinks{Bubble: true, Open: func(t *testing.T) emittest.Consumer {
		t.Helper()
		return open(t, func(_ *testing.T, s *faultsink.Sink) emit.Sink { return s })
	}})
}

// So does httpsink with a Handler as its consumer, on real sockets, in both modes.
func TestContractOverHTTP(t *testing.T) {
	for _, structured := range []bool{false, true} {
		emittest.Sink(t, emittest.Sinks{Open: func(t *testing.T) emittest.Consumer {
			t.Helper()
			return open(t, func(t *testing.T, s *faultsink.Sink) emit.Sink {
				t.Helper()
				return overHTTP(t, s, structured)
			})
		}})
	}
}

func overHTTP(t *testing.T, s *faultsink.Sink, structured bool) *httpsink.Sink {
	t.Helper()
	server := httptest.NewServer(faultsink.Handler{Sink: s})
	t.Cleanup(server.Close)
	sink, err := httpsink.New(httpsink.Config{URL: server.URL, Structured: structured})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sink.CloseIdleConnections)
	return sink
}

// A panic of the consumer breaks the connection: a failure, and the next one is delivered.
func TestPanicOverHTTP(t *testing.T) {
	s, err := faultsink.New(faultsink.Config{Faults: faultsink.Faults{Panics: 1}})
	if err != nil {
		t.Fatal(err)
	}
	sink := overHTTP(t, s, false)
	tr := emit.Trigger{ID: "1", Type: "t", Source: "/s"}
	if err := sink.Deliver(t.Context(), tr); err == nil || errors.Is(err, emit.ErrRejected) {
		t.Errorf("got %v", err)
	}
	if err := s.Set(faultsink.Faults{}); err != nil {
		t.Fatal(err)
	}
	if err := sink.Deliver(t.Context(), tr); err != nil || s.Stats().Panicked != 1 {
		t.Errorf("got %v, %+v", err, s.Stats())
	}
}

func TestHandlerRefusesWhatIsNoEvent(t *testing.T) {
	s, err := faultsink.New(faultsink.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for body, want := range map[string]int{"x": http.StatusBadRequest, strings.Repeat("x", 16<<20+1): http.StatusRequestEntityTooLarge} {
		w := httptest.NewRecorder()
		faultsink.Handler{Sink: s}.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(body)))
		if w.Code != want || s.Stats().Received != 0 {
			t.Errorf("%d bytes: got %d, %+v", len(body), w.Code, s.Stats())
		}
	}
}
