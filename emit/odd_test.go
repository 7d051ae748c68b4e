package emit_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/emit"
)

// An panicsError is what a nil pointer of an error type is.
type panicsError struct{}

func (*panicsError) Error() string { panic("nil error") }

// An error whose methods panic is a failure like a panic, live and at a replay.
func TestErrorsThatPanic(t *testing.T) {
	for name, err := range map[string]error{
		"a nil LaterError": (*emit.LaterError)(nil),
		"Error":            &panicsError{},
		"an Err of it":     &emit.LaterError{After: time.Second, Err: &panicsError{}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &target{do: func(context.Context, emit.Trigger) error { return err }}
				r := one(t, c)
				emitWant(t, r, trigger("1"), emit.Stored, emit.ReasonFailed)
				<-time.After(500 * time.Millisecond)
				c.set(nil)
				settled(t, r, "a", time.Minute)
				if n := stats(t, r, "a").Replayed; n != 1 {
					t.Errorf("replayed %d", n)
				}
			})
		})
	}
}

// An oddStore is one that misbehaves.
type oddStore struct {
	emit.DeadLetters
	claim  func(emit.DeadLetters, context.Context, string, emit.Filter, int) ([]emit.Letter, error)
	append func(emit.DeadLetters, context.Context, emit.Letter) ([]emit.Letter, error)
	unpark func(emit.DeadLetters, context.Context, string, emit.Filter) (int, error)
	settle func(emit.DeadLetters, context.Context, string, []emit.Settlement) error
}

func (s *oddStore) Settle(ctx context.Context, consumer string, results []emit.Settlement) error {
	if s.settle != nil {
		return s.settle(s.DeadLetters, ctx, consumer, results)
	}
	return s.DeadLetters.Settle(ctx, consumer, results)
}

func (s *oddStore) Claim(ctx context.Context, consumer string, f emit.Filter, n int) ([]emit.Letter, error) {
	if s.claim != nil {
		return s.claim(s.DeadLetters, ctx, consumer, f, n)
	}
	return s.DeadLetters.Claim(ctx, consumer, f, n)
}

func (s *oddStore) Append(ctx context.Context, l emit.Letter) ([]emit.Letter, error) {
	if s.append != nil {
		return s.append(s.DeadLetters, ctx, l)
	}
	return s.DeadLetters.Append(ctx, l)
}

func (s *oddStore) Unpark(ctx context.Context, consumer string, f emit.Filter) (int, error) {
	if s.unpark != nil {
		return s.unpark(s.DeadLetters, ctx, consumer, f)
	}
	return s.DeadLetters.Unpark(ctx, consumer, f)
}

func with(s emit.DeadLetters) func(*emit.Consumer) {
	return func(k *emit.Consumer) { k.DeadLetters = s }
}

// A store that gives one letter out twice is not believed.
func TestLetterClaimedTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &oddStore{DeadLetters: newRing(t, emit.RingConfig{})}
		s.claim = func(d emit.DeadLetters, ctx context.Context, consumer string, f emit.Filter, n int) ([]emit.Letter, error) {
			letters, err := d.Claim(ctx, consumer, f, n)
			return slices.Concat(letters, letters), err
		}
		c := &target{}
		r := one(t, c, with(s))
		for _, id := range []string{"1", "2", "3"} {
			if _, err := r.HandOver(t.Context(), trigger(id)); err != nil {
				t.Fatal(err)
			}
		}
		settled(t, r, "a", time.Minute)
		if got := c.taken(); len(got) != 3 {
			t.Errorf("taken %v", got)
		}
	})
}

// A store that stores and fails all the same is counted without an overflow.
func TestStoredAndFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &oddStore{DeadLetters: newRing(t, emit.RingConfig{})}
		s.append = func(d emit.DeadLetters, ctx context.Context, l emit.Letter) ([]emit.Letter, error) {
			_, _ = d.Append(ctx, l)
			return nil, errors.New("the answer was lost")
		}
		c := &target{}
		r := one(t, c, with(s))
		_, _ = r.HandOver(t.Context(), trigger("1"))
		go r.Replay(t.Context(), "a", emit.Filter{})
		<-time.After(time.Second)
		if got := stats(t, r, "a"); got.Stored > 1 || got.Replayed != 1 {
			t.Errorf("stored %d, replayed %d", got.Stored, got.Replayed)
		}
	})
}

// A consumer that is well again is found so although its store fails: live triggers are the probes.
func TestRecoversBesideAStoreThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var broken atomic.Bool
		s := &oddStore{DeadLetters: newRing(t, emit.RingConfig{})}
		s.claim = func(d emit.DeadLetters, ctx context.Context, consumer string, f emit.Filter, n int) ([]emit.Letter, error) {
			if broken.Load() {
				return nil, errors.New("no disk")
			}
			return d.Claim(ctx, consumer, f, n)
		}
		s.append = func(d emit.DeadLetters, ctx context.Context, l emit.Letter) ([]emit.Letter, error) {
			if broken.Load() {
				return nil, errors.New("no disk")
			}
			return d.Append(ctx, l)
		}
		c := &target{do: fails}
		r := one(t, c, with(s))
		for range 100 {
			_, _ = r.Emit(t.Context(), trigger(""))
			<-time.After(2 * time.Millisecond)
		}
		broken.Store(true)
		c.set(nil)
		took := 0
		for range 1000 {
			if x, _ := r.Emit(t.Context(), trigger("")); x.Of("a").Outcome == emit.Delivered {
				took++
			}
			<-time.After(20 * time.Millisecond)
		}
		if took < 500 {
			t.Errorf("of 1000 emits to a consumer that is well %d were delivered; breaker %v", took, r.Breaker("a").State())
		}
	})
}

// One attempt that never ends, a probe or a replay, does not keep the lane from finding out that the consumer is well.
func TestAttemptThatNeverEnds(t *testing.T) {
	for _, replay := range []bool{false, true} {
		for _, bulkhead := range []int{16, 4} {
			synctest.Test(t, func(t *testing.T) { attemptThatNeverEnds(t, replay, bulkhead) })
		}
	}
}

func attemptThatNeverEnds(t *testing.T, replay bool, bulkhead int) {
	t.Helper()
	release := make(chan struct{})
	var once atomic.Bool
	hangs := func(context.Context, emit.Trigger) error {
		if once.CompareAndSwap(false, true) {
			<-release // whatever its context says
		}
		return nil
	}
	c := &target{do: fails}
	r := one(t, c, func(k *emit.Consumer) { k.Bulkhead = bulkhead })
	if replay {
		c.set(hangs)
		_, _ = r.HandOver(t.Context(), trigger("hangs"))
		<-time.After(time.Second)
		c.set(fails)
	}
	for range 100 {
		_, _ = r.Emit(t.Context(), trigger(""))
		<-time.After(2 * time.Millisecond)
	}
	c.set(hangs)
	<-time.After(2 * time.Minute)
	if got := stats(t, r, "a"); got.Depth.Letters != 1 {
		t.Errorf("replay %v, bulkhead %d: %d letters left, breaker %v", replay, bulkhead, got.Depth.Letters, r.Breaker("a").State())
	}
	close(release)
	settled(t, r, "a", time.Minute)
}

// A Slow that no delivery has the time for is refused, also beside rules that know no latency.
func TestSlowOverTimeout(t *testing.T) {
	for _, slow := range []time.Duration{200 * time.Millisecond, 300 * time.Millisecond} {
		_, err := emit.New(emit.Config{Consumers: []emit.Consumer{{
			Name: "a", Sink: &target{}, Timeout: 200 * time.Millisecond, Slow: slow,
			Breaker: breaker.Config{Rules: []breaker.Rule{breaker.ConsecutiveFailures{}}},
		}}})
		if !contains(err, "give less than Timeout") {
			t.Errorf("Slow %v: got %v", slow, err)
		}
	}
}

// Types that would get a consumer nothing are refused.
func TestNoTypes(t *testing.T) {
	for _, types := range [][]string{{""}, {"a", ""}} {
		_, err := emit.New(emit.Config{Consumers: []emit.Consumer{{Name: "a", Sink: &target{}, Types: types}}})
		if !contains(err, "Types has an empty one") {
			t.Errorf("%q: got %v", types, err)
		}
	}
}

// An Observer may emit, also a trigger of the key that it is told of.
func TestObserverEmits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &target{do: fails}
		var r *emit.Router
		var again atomic.Bool
		emits := func(l emit.Letter) {
			if again.CompareAndSwap(false, true) {
				_, _ = r.Emit(t.Context(), keyed(l.Trigger.Key, 99))
			}
		}
		r = newRouter(t, emit.Config{
			Consumers: []emit.Consumer{{Name: "a", Sink: c, Ordered: true}},
			Observer:  emit.Observer{OnStored: emits},
		})
		emitWant(t, r, keyed("k", 1), emit.Stored, emit.ReasonFailed)
		if n := stats(t, r, "a").Depth.Letters; n != 2 {
			t.Errorf("%d letters", n)
		}
	})
}

// A goroutine that ends in Degrade, in a store or in an Observer holds its key no longer, and its trigger is kept.
func TestGoexitHoldsNoKey(t *testing.T) {
	for name, change := range map[string]func(*emit.Config, *oddStore, func()){
		"degrade": func(c *emit.Config, _ *oddStore, exit func()) {
			c.Consumers[0].Degrade = func(context.Context, emit.Trigger, emit.Reason) error { exit(); return errDown }
		},
		"observer": func(c *emit.Config, _ *oddStore, exit func()) {
			c.Observer.OnStored = func(emit.Letter) { exit() }
		},
		"store": func(_ *emit.Config, s *oddStore, exit func()) {
			s.append = func(d emit.DeadLetters, ctx context.Context, l emit.Letter) ([]emit.Letter, error) {
				evicted, err := d.Append(ctx, l)
				exit()
				return evicted, err
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &target{do: fails}
				s := &oddStore{DeadLetters: newRing(t, emit.RingConfig{})}
				config := emit.Config{Consumers: []emit.Consumer{{Name: "a", Sink: c, Ordered: true, DeadLetters: s}}}
				var once atomic.Bool
				change(&config, s, func() {
					if once.CompareAndSwap(false, true) {
						runtime.Goexit()
					}
				})
				r := newRouter(t, config)
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					_, _ = r.Emit(t.Context(), keyed("k", 1))
				}()
				<-ended
				emitWant(t, r, keyed("k", 2), emit.Stored, emit.ReasonBehind)
				c.set(nil)
				settled(t, r, "a", time.Minute)
				if got := c.taken(); !slices.Equal(got, []string{"k#1", "k#2"}) {
					t.Errorf("taken %v", got)
				}
			})
		})
	}
}

// A Sink that ends its goroutine ends that of its lane only, where a trigger has several: the receipt still tells of it. On the caller's
// goroutine it ends that, once the others have ended.
func TestGoexitOfOneOfSeveral(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		exits := &target{do: func(context.Context, emit.Trigger) error { runtime.Goexit(); return nil }}
		slow := &target{do: takes(10 * time.Millisecond)}
		r := newRouter(t, emit.Config{Consumers: []emit.Consumer{{Name: "a", Sink: exits, Types: []string{"order.paid"}}, {Name: "b", Sink: slow}, {Name: "c", Sink: exits, Types: []string{"last"}}}})
		receipt, err := r.Emit(t.Context(), trigger("1"))
		if got := receipt.Of("a"); err != nil || got.Outcome != emit.Stored {
			t.Errorf("got %v, %v", got, err)
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = r.Emit(t.Context(), emit.Trigger{Type: "last"})
		}()
		<-ended
		if got := stats(t, r, "b"); got.Delivered != 2 {
			t.Errorf("the caller's goroutine ended before the others: %d delivered", got.Delivered)
		}
	})
}

// Replay ends where the last letter that it waits for was evicted by another consumer's.
func TestReplayOfWhatWasEvicted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRing(t, emit.RingConfig{Letters: 2, Reserved: -1})
		down := &target{do: fails}
		r := newRouter(t, emit.Config{DeadLetters: s, Consumers: []emit.Consumer{
			{Name: "a", Sink: down, Types: []string{"a"}}, {Name: "b", Sink: down, Types: []string{"b"}},
		}})
		for _, name := range []string{"a", "b"} {
			if err := r.Breaker(name).Force(breaker.ForcedOpen, "test"); err != nil {
				t.Fatal(err)
			}
		}
		_, _ = r.Emit(t.Context(), emit.Trigger{Type: "a", Priority: "idle-ping"})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		ended := make(chan error)
		go func() { _, err := r.Replay(ctx, "a", emit.Filter{}); ended <- err }()
		synctest.Wait()
		for range 2 {
			_, _ = r.Emit(t.Context(), emit.Trigger{Type: "b"})
		}
		if err := <-ended; err != nil {
			t.Errorf("got %v", err)
		}
	})
}

// A letter that is sent back is counted for its key however the lane's goroutine looks meanwhile.
func TestUnparkBesideAnEmptyStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &target{do: func(context.Context, emit.Trigger) error { return emit.ErrRejected }}
		s := &oddStore{DeadLetters: newRing(t, emit.RingConfig{})}
		r := one(t, c, with(s), ordered)
		emitWant(t, r, keyed("k", 1), emit.Stored, emit.ReasonRejected)
		s.unpark = func(d emit.DeadLetters, ctx context.Context, consumer string, f emit.Filter) (int, error) {
			// another letter comes and goes while this store takes its time
			c.set(nil)
			_, _ = r.HandOver(ctx, keyed("other", 1))
			<-time.After(10 * time.Second)
			return d.Unpark(ctx, consumer, f)
		}
		c.set(fails)
		go r.Replay(t.Context(), "a", emit.Filter{Parked: new(true)})
		<-time.After(9 * time.Second)
		c.set(fails)
		<-time.After(time.Second + time.Microsecond)
		emitWant(t, r, keyed("k", 2), emit.Stored, emit.ReasonBehind)
		c.set(nil)
		settled(t, r, "a", time.Minute)
	})
}

func ordered(k *emit.Consumer) { k.Ordered = true }

// A letter that was evicted is taken off its key once, also where all keys were forgotten before its store answered.
func TestEvictedBesideAnEmptyStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := &target{do: fails}
		s := &oddStore{DeadLetters: newRing(t, emit.RingConfig{Letters: 2, Reserved: -1})}
		var r *emit.Router
		s.append = func(d emit.DeadLetters, ctx context.Context, l emit.Letter) ([]emit.Letter, error) {
			evicted, err := d.Append(ctx, l)
			if len(evicted) > 0 && l.Consumer == "b" {
				<-time.After(time.Second) // the lane of a finds nothing meanwhile
				_, _ = r.Emit(ctx, emit.Trigger{ID: "k#2", Type: "a", Key: "k", Priority: "compliance"})
			}
			return evicted, err
		}
		r = newRouter(t, emit.Config{DeadLetters: s, Consumers: []emit.Consumer{
			{Name: "a", Sink: down, Types: []string{"a"}, Ordered: true}, {Name: "b", Sink: down, Types: []string{"b"}},
		}})
		_, _ = r.Emit(t.Context(), emit.Trigger{ID: "k#1", Type: "a", Key: "k", Priority: "idle-ping"})
		for range 2 {
			_, _ = r.Emit(t.Context(), emit.Trigger{Type: "b"})
		}
		emitWant(t, r, emit.Trigger{ID: "k#3", Type: "a", Key: "k", Priority: "compliance"}, emit.Stored, emit.ReasonBehind)
		down.set(nil)
		settled(t, r, "a", time.Minute)
	})
}

// What a consumer says is not taken for a crash or a panic, whatever it says: its letters are no poison.
func TestErrorsThatSoundLikeCrashes(t *testing.T) {
	for _, text := range []string{emit.AttemptCrashed, "panic: out of paper"} {
		synctest.Test(t, func(t *testing.T) {
			c := &target{do: func(context.Context, emit.Trigger) error { return errors.New(text) }}
			r := one(t, c)
			emitWant(t, r, trigger("1"), emit.Stored, emit.ReasonFailed)
			<-time.After(10 * time.Minute)
			c.set(nil)
			settled(t, r, "a", time.Minute)
			if got := stats(t, r, "a"); got.Replayed != 1 {
				t.Errorf("%q: replayed %d, parked %d", text, got.Replayed, got.Parked)
			}
		})
	}
}

// A store that fails once while the Router ends leaves no delivered letter claimed, and one that goes on failing does not hold up the end.
func TestSettleFailsAtTheEnd(t *testing.T) {
	for _, failures := range []int{1, 1000} {
		synctest.Test(t, func(t *testing.T) {
			store := newRing(t, emit.RingConfig{})
			s := &oddStore{DeadLetters: store}
			failed := 0
			s.settle = func(d emit.DeadLetters, ctx context.Context, consumer string, results []emit.Settlement) error {
				if failed++; failed <= failures {
					return errors.New("no disk")
				}
				return d.Settle(ctx, consumer, results)
			}
			r := one(t, &target{do: takes(50 * time.Millisecond)}, with(s))
			_, _ = r.HandOver(t.Context(), trigger("1"))
			<-time.After(10 * time.Millisecond)
			if err := r.Drain(t.Context()); err != nil {
				t.Error(err)
			}
			if got, want := store.Depths()["a"].Letters, failures/1000; got != want {
				t.Errorf("%d failures: %d letters are left", failures, got)
			}
		})
	}
}

// A letter that is sent back waits for the attempt at a later one of its key: there is one of a key at a time.
func TestUnparkBesideAnAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &target{do: func(context.Context, emit.Trigger) error { return emit.ErrRejected }}
		r := one(t, c, ordered)
		emitWant(t, r, keyed("k", 1), emit.Stored, emit.ReasonRejected)
		c.set(takes(150 * time.Millisecond))
		_, _ = r.HandOver(t.Context(), keyed("k", 2))
		<-time.After(10 * time.Millisecond)
		if n, err := r.Replay(t.Context(), "a", emit.Filter{}); n != 1 && n != 2 || err != nil {
			t.Errorf("Replay: %d, %v", n, err)
		}
		if c.max != 1 {
			t.Errorf("%d of one key at once", c.max)
		}
	})
}
