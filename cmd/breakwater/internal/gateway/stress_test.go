package gateway

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/breakwater-go/breakwater/emit"
)

// kept is a consumer with its dead letters.
type kept struct {
	name string
	sink *taker
	ring *emit.Ring
}

func newKept(t *testing.T, name string, letters int) (kept, emit.Consumer) {
	t.Helper()
	ring, err := emit.NewRing(emit.RingConfig{Letters: letters})
	if err != nil {
		t.Fatal(err)
	}
	sink := &taker{fail: func(emit.Trigger) error {
		if rand.IntN(3) == 0 {
			return errors.New("down")
		}
		return nil
	}}
	return kept{name, sink, ring}, emit.Consumer{Name: name, Sink: sink, DeadLetters: ring}
}

// has says which IDs the consumer took, or has letters of.
func (k kept) has(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	took := k.sink.triggers()
	for i := range took {
		all[took[i].ID] = true
	}
	for l, err := range k.ring.Letters(t.Context(), k.name, emit.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		all[l.Trigger.ID] = true
	}
	return all
}

// Whatever fails and however full it is, what was answered with 202 is with each consumer or in its dead letters in the end, and the sums hold (REQ-E8, REQ-E14).
// All of it has the priority that is never shed later on.
func TestAcceptedIsDeliveredOrStored(t *testing.T) {
	a, first := newKept(t, "a", 5000)
	b, second := newKept(t, "b", 300)
	router := newRouter(t, first, second)
	url := serve(t, of(router))
	const senders, rounds = 6, 60
	var mu sync.Mutex
	accepted, statuses := map[string]bool{}, map[int]int{}
	note := func(x answer) {
		mu.Lock()
		defer mu.Unlock()
		statuses[x.Status]++
		if x.Status == http.StatusAccepted {
			accepted[x.ID] = true
		}
	}
	var all sync.WaitGroup
	for s := range senders {
		all.Go(func() {
			for i := range rounds {
				one := func(n int) string { return event(fmt.Sprintf("%d-%d-%d", s, i, n), `"priority":"compliance"`) }
				if i%3 > 0 {
					note(post(t, url, oneType, one(0)).answer)
					continue
				}
				for _, x := range post(t, url, batchType, "["+strings.Join([]string{one(0), one(1), one(2)}, ",")+"]").batch.Events {
					note(x)
				}
			}
		})
	}
	all.Wait()
	if err := router.Close(); err != nil {
		t.Fatal(err)
	}
	t.Logf("answers by status: %v", statuses)
	for _, k := range []kept{a, b} {
		has := k.has(t)
		for id := range accepted {
			if !has[id] {
				t.Errorf("%s lacks %s, which was accepted", k.name, id)
			}
		}
	}
	emitted := statuses[202] + statuses[503]
	if emitted != senders*rounds*5/3 || statuses[202] == 0 {
		t.Errorf("got %v, want %d answers of 202 or 503", statuses, senders*rounds*5/3)
	}
	for _, s := range router.Stats().Consumers {
		if s.Emitted != uint64(emitted) || s.Emitted != s.Delivered+s.Stored+s.Shed+s.Refused || s.Stored != uint64(s.Depth.Letters) {
			t.Errorf("%s: got %+v, want %d emitted", s.Name, s, emitted)
		}
	}
}
