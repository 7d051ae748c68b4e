package playground

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/api"
)

// book is what was done to targets, and told of that.
type book struct {
	mu   sync.Mutex
	done []string
	told []string
	fail string // what fails: "begin pause r1"
}

func (b *book) do(what, kind, target string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	text := what + " " + kind + " " + target
	b.done = append(b.done, text)
	if text == b.fail {
		return errors.New("it cannot")
	}
	return nil
}

func (b *book) kind(name string, usual, lasts time.Duration) kind {
	return kind{
		name: name, says: "it is broken", usual: usual, lasts: lasts,
		begin: func(_ context.Context, t string, _ time.Duration) error { return b.do("begin", name, t) },
		mend:  func(_ context.Context, t string) error { return b.do("mend", name, t) },
	}
}

func (b *book) tell(target, fault, phase, text string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.told = append(b.told, fmt.Sprintf("%s %s %s %s %v", target, fault, phase, text, err))
}

func (b *book) want(t *testing.T, want ...string) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if !slices.Equal(b.done, want) {
		t.Errorf("done: got %q, want %q", b.done, want)
	}
}

// shelf are the faults of r1 and r2, under way until the test ends.
func shelf(t *testing.T, b *book) *faults {
	t.Helper()
	kinds := []kind{b.kind("pause", 0, 0), b.kind("lag", 5*time.Second, 0), b.kind("restart", 0, 3*time.Second)}
	f := newFaults([]target{{"r1", api.ScopeReplica, kinds}, {"r2", api.ScopeReplica, kinds}}, b.tell)
	ctx, stop := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() { f.run(ctx) })
	t.Cleanup(func() {
		stop()
		done.Wait()
	})
	return f
}

func inject(t *testing.T, f *faults, target, fault string, d time.Duration) {
	t.Helper()
	if err := f.inject(t.Context(), api.FaultRequest{Target: target, Fault: fault, Duration: d}); err != nil {
		t.Fatal(err)
	}
}

// A fault with a duration is mended once that has passed, not before, and told (REQ-O3); one without stays.
func TestDurationEndsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &book{}
		f := shelf(t, b)
		inject(t, f, "r1", "pause", 3*time.Second)
		inject(t, f, "r2", "lag", 0)
		time.Sleep(2999 * time.Millisecond)
		synctest.Wait()
		if got := f.inForce(); len(got) != 2 || got[0].Until.Sub(got[0].Since) != 3*time.Second || got[1].Until != nil || got[1].AmountMS != 5000 {
			t.Errorf("in force: got %+v, want pause of r1 for 3 s and lag of r2 by 5000 ms", got)
		}
		b.want(t, "begin pause r1", "begin lag r2")
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		b.want(t, "begin pause r1", "begin lag r2", "mend pause r1")
		if got := f.inForce(); len(got) != 1 || got[0].Target != "r2" {
			t.Errorf("in force: got %+v, want lag of r2 alone", got)
		}
		if last := b.told[len(b.told)-1]; !strings.HasPrefix(last, "r1 pause end") {
			t.Errorf("told last: got %q, want the end of pause of r1", last)
		}
	})
}

// A shorter duration that comes later ends first: the owner looks again.
func TestShorterDurationEndsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &book{}
		f := shelf(t, b)
		inject(t, f, "r1", "pause", time.Minute)
		synctest.Wait()
		inject(t, f, "r2", "restart", 0) // 3 s, its own
		time.Sleep(4 * time.Second)
		synctest.Wait()
		b.want(t, "begin pause r1", "begin restart r2", "mend restart r2")
	})
}

// A target has one fault at a time, and what is put in its place lasts as long as itself.
func TestOneFaultOfATarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &book{}
		f := shelf(t, b)
		inject(t, f, "r1", "pause", time.Second)
		inject(t, f, "r1", "lag", 0)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		b.want(t, "begin pause r1", "mend pause r1", "begin lag r1")
	})
}

// What cannot be mended stays in force and is tried again; what cannot be broken is mended at once.
func TestWhatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &book{fail: "mend pause r1"}
		f := shelf(t, b)
		inject(t, f, "r1", "pause", time.Second)
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		if len(f.inForce()) != 1 {
			t.Error("not in force although it could not be mended")
		}
		b.mu.Lock()
		b.fail = "begin lag r2"
		b.mu.Unlock()
		time.Sleep(again)
		synctest.Wait()
		b.want(t, "begin pause r1", "mend pause r1", "mend pause r1")
		if err := f.inject(t.Context(), api.FaultRequest{Target: "r2", Fault: "lag"}); err == nil || !strings.Contains(err.Error(), "lag of r2: it cannot") {
			t.Errorf("got %v, want that lag of r2 cannot be", err)
		}
		b.want(t, "begin pause r1", "mend pause r1", "mend pause r1", "begin lag r2", "mend lag r2")
		if got := f.inForce(); len(got) != 0 {
			t.Errorf("in force: got %+v, want none", got)
		}
	})
}

// On the way out everything is mended, and nothing is broken after that.
func TestEndMendsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &book{}
		f := shelf(t, b)
		inject(t, f, "r2", "pause", 0)
		inject(t, f, "r1", "lag", time.Hour)
		f.end(t.Context())
		b.want(t, "begin pause r2", "begin lag r1", "mend lag r1", "mend pause r2")
		if err := f.inject(t.Context(), api.FaultRequest{Target: "r1", Fault: "pause"}); !errors.Is(err, errEnded) {
			t.Errorf("got %v, want %v", err, errEnded)
		}
		if err := f.heal(t.Context(), func(context.Context) error { t.Error("the fleet was asked to heal"); return nil }); !errors.Is(err, errEnded) {
			t.Errorf("got %v, want %v", err, errEnded)
		}
	})
}

// A request is refused with every fault, each with its mend.
func TestWrongRequests(t *testing.T) {
	f := newFaults([]target{{"r1", api.ScopeReplica, []kind{(&book{}).kind("pause", 0, 0), (&book{}).kind("lag", time.Second, 0)}}}, nil)
	for _, tt := range []struct {
		asked api.FaultRequest
		want  []string // fields
	}{
		{api.FaultRequest{Target: "r9", Fault: "pause", Duration: 2 * time.Hour}, []string{"duration_s", "target"}},
		{api.FaultRequest{Target: "r1", Fault: "hang", Duration: -1}, []string{"duration_s", "fault"}},
		{api.FaultRequest{Target: "r1", Fault: "pause", Amount: 5}, []string{"amount_ms"}},
		{api.FaultRequest{Target: "r1", Fault: "lag", Amount: -5}, []string{"amount_ms"}},
		{api.FaultRequest{Target: "r1", Fault: "lag", Amount: 1e9, Duration: 2 * time.Hour}, []string{"duration_s", "amount_ms"}},
	} {
		err := f.inject(t.Context(), tt.asked)
		invalid, ok := errors.AsType[*api.InvalidError](err)
		if !ok {
			t.Errorf("%+v: got %v, want an *api.InvalidError", tt.asked, err)
			continue
		}
		var got []string
		for _, field := range invalid.Fields {
			got = append(got, field.Field)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%+v: got %q, want %q", tt.asked, got, tt.want)
		}
	}
}
