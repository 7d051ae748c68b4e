package consumer

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/emit"
	"github.com/breakwater-go/breakwater/emit/httpsink"
)

func start(t *testing.T) *Process {
	t.Helper()
	p, err := Start(child("consumer"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func become(t *testing.T, p *Process, b Behaviour) {
	t.Helper()
	if err := p.Become(b); err != nil {
		t.Fatal(err)
	}
}

func report(t *testing.T, p *Process) Report {
	t.Helper()
	r, err := p.Report(true)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(r.IDs)
	return r
}

// deliver sends triggers "key/ID" one after the other and returns the errors.
func deliver(t *testing.T, p *Process, names ...string) (errs []error) {
	t.Helper()
	sink, err := httpsink.New(httpsink.Config{URL: p.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer sink.CloseIdleConnections()
	for _, name := range names {
		key, id, _ := strings.Cut(name, "/")
		errs = append(errs, sink.Deliver(t.Context(), emit.Trigger{ID: id, Type: "t", Source: "s", Key: key, Data: []byte("{}")}))
	}
	return errs
}

// It takes triggers, and tells which, how often, and in which order of each key.
func TestTakes(t *testing.T) {
	p := start(t)
	for i, err := range deliver(t, p, "a/c-1", "a/c-3", "a/c-2", "b/c-4", "/c-5", "a/c-3") {
		if err != nil {
			t.Errorf("delivery %d: %v", i, err)
		}
	}
	got := report(t, p)
	if want := []string{"c-1", "c-2", "c-3", "c-4", "c-5"}; !slices.Equal(got.IDs, want) || got.Taken != 5 {
		t.Errorf("taken: got %d, %v, want %v", got.Taken, got.IDs, want)
	}
	if got.Calls != 6 || got.Duplicates != 1 || got.OutOfOrder != 1 {
		t.Errorf("calls, duplicates, out_of_order: got %d, %d, %d, want 6, 1, 1", got.Calls, got.Duplicates, got.OutOfOrder)
	}
}

func TestFails(t *testing.T) {
	p := start(t)
	become(t, p, Behaviour{Fail: true})
	if err := deliver(t, p, "/c-1")[0]; err == nil || !strings.Contains(err.Error(), "500") {
		t.Errorf("got %v, want a 500", err)
	}
	if got := report(t, p); got.Calls != 1 || got.Taken != 0 {
		t.Errorf("calls, taken: got %d, %d, want 1, 0", got.Calls, got.Taken)
	}
	become(t, p, Behaviour{})
	if err := deliver(t, p, "/c-1")[0]; err != nil {
		t.Errorf("mended: %v", err)
	}
}

// A call that hangs ends when the consumer is mended, and was not taken.
func TestHangs(t *testing.T) {
	p := start(t)
	become(t, p, Behaviour{Hang: true})
	ended := make(chan error, 1)
	go func() { ended <- deliver(t, p, "/c-1")[0] }()
	for report(t, p).Calls == 0 {
		select {
		case err := <-ended:
			t.Fatalf("it ended: %v", err)
		default:
		}
	}
	become(t, p, Behaviour{})
	if err := <-ended; err == nil {
		t.Error("got an answer, want a connection that is cut")
	}
	if got := report(t, p); got.Taken != 0 {
		t.Errorf("taken: got %v, want none", got.IDs)
	}
}

// What a slow consumer took it took, though its caller had gone: the next delivery is a duplicate.
func TestTakesWhatNobodyWaitsFor(t *testing.T) {
	p := start(t)
	become(t, p, Behaviour{P99: 300})
	sink, err := httpsink.New(httpsink.Config{URL: p.URL})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := sink.Deliver(ctx, emit.Trigger{ID: "c-1", Type: "t", Source: "s"}); err == nil {
		t.Fatal("got an answer in 20 ms, want none")
	}
	for end := time.Now().Add(10 * time.Second); report(t, p).Taken == 0; {
		if time.Now().After(end) {
			t.Fatal("it was not taken")
		}
	}
}

// What is no trigger is refused.
func TestNoTrigger(t *testing.T) {
	p := start(t)
	resp, err := http.Post(p.URL, "text/plain", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusBadRequest {
		t.Errorf("got %s, want 400", resp.Status)
	}
}

// It ends when its parent does, be it by kill -9.
func TestEndsWithItsParent(t *testing.T) {
	parent := child("parent")
	url := firstLine(t, parent)
	if !reachable(url) {
		t.Fatal("it does not serve")
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	for end := time.Now().Add(10 * time.Second); reachable(url); {
		if time.Now().After(end) {
			t.Fatal("it serves although its parent is gone")
		}
	}
}

func TestClose(t *testing.T) {
	p := start(t)
	for i := range 2 {
		if err := p.Close(); err != nil {
			t.Errorf("Close %d: %v", i+1, err)
		}
	}
	if reachable(p.URL) {
		t.Error("it serves although it was closed")
	}
	if err := p.Become(Behaviour{}); err == nil {
		t.Error("Become after Close: got nil, want an error")
	}
}

func TestStartOfWhatIsNoConsumer(t *testing.T) {
	c := child("consumer")
	c.Args = append(c.Args[:1], "-test.run=^$")
	c.Stderr = nil
	if _, err := Start(c); err == nil || !strings.Contains(err.Error(), "first line") {
		t.Errorf("got %v, want an error about the first line", err)
	}
}

// The latencies have the P99 that was asked for, and their shape is scaled with it.
func TestLatency(t *testing.T) {
	for _, tt := range []struct {
		b             Behaviour
		p50, p99, max float64 // ms
	}{
		{Behaviour{P99: 8}, 3.01, 8, 30},
		{Behaviour{P99: 900}, 339, 900, 3400},
		{Behaviour{P99: 8, SlowShare: 0.02, SlowP99: 900}, 3.05, 339, 3400}, // half of the slow ones are above the P99 of all
		{Behaviour{}, 0, 0, 0},
	} {
		rng := rand.New(rand.NewPCG(1, 1))
		all := make([]float64, 200_000)
		for i := range all {
			all[i] = tt.b.latency(rng).Seconds() * 1000
		}
		slices.Sort(all)
		near := func(got, want float64) bool { return got >= 0.95*want && got <= 1.05*want }
		p50, p99, most := all[len(all)/2], all[len(all)/100*99], all[len(all)-1]
		if !near(p50, tt.p50) || !near(p99, tt.p99) || most > tt.max {
			t.Errorf("%+v: got p50 %.2f, p99 %.2f, max %.0f; want %v, %v, at most %v", tt.b, p50, p99, most, tt.p50, tt.p99, tt.max)
		}
	}
}

// One that forgets counts what it took, and keeps no ID: a lab that is left alone does not grow.
func TestForgets(t *testing.T) {
	p, err := Start(exec.Command(os.Args[0], "consumer", "--forget"))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	deliver(t, p, "/a-1", "/a-2", "/a-2")
	if r := report(t, p); r.Taken != 3 || len(r.IDs) != 0 {
		t.Errorf("taken, IDs: got %d, %v, want 3 and none", r.Taken, r.IDs)
	}
}
