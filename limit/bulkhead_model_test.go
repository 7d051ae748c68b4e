package limit

import (
	"container/list"
	"slices"
	"testing"
)

// A plain bulkhead is what a Bulkhead must be, as a queue of numbers.
type plainBulkhead struct {
	inFlight, limit, maxWaiting, peak int
	queue                             []int
}

func (p *plainBulkhead) enter() bool {
	if len(p.queue) > 0 || p.inFlight >= p.limit {
		return false
	}
	p.inFlight++
	return true
}

func (p *plainBulkhead) join(id int) bool {
	if len(p.queue) >= p.maxWaiting {
		return false
	}
	p.queue = append(p.queue, id)
	return true
}

// settle gives away what is free and returns who got it.
func (p *plainBulkhead) settle() (got []int) {
	for len(p.queue) > 0 && p.inFlight < p.limit {
		got = append(got, p.queue[0])
		p.queue = p.queue[1:]
		p.inFlight++
	}
	p.peak = max(p.peak, p.inFlight)
	return got
}

// modelRun does the same to both and compares them after each step.
type modelRun struct {
	t      *testing.T
	b      *Bulkhead
	plain  plainBulkhead
	places map[int]*list.Element // of those that wait
	next   int
}

func newModelRun(t *testing.T) *modelRun {
	t.Helper()
	return &modelRun{
		t: t, b: mustBulkhead(t, BulkheadConfig{Limit: 2, MaxWaiting: 3}),
		plain: plainBulkhead{limit: 2, maxWaiting: 3}, places: map[int]*list.Element{},
	}
}

func (r *modelRun) step(op byte) {
	r.t.Helper()
	arg := int(op >> 3)
	switch op % 8 {
	case 0, 1:
		r.same("enter", r.b.enter(), r.plain.enter())
	case 2, 3:
		place := r.b.join()
		r.same("join", place != nil, r.plain.join(r.next))
		r.places[r.next] = place
		r.next++
	case 4, 5:
		r.b.leave() // with none in flight it is a copy's
		r.plain.inFlight = max(r.plain.inFlight-1, 0)
	case 6:
		if n := len(r.plain.queue); n > 0 {
			i := arg % n
			r.same("giveUp", r.b.giveUp(r.places[r.plain.queue[i]]), true)
			r.plain.queue = slices.Delete(r.plain.queue, i, i+1)
		}
	case 7:
		r.plain.limit, r.plain.maxWaiting = 1+arg%4, 1+arg/4%4
		if err := r.b.Reconfigure(BulkheadConfig{Limit: r.plain.limit, MaxWaiting: r.plain.maxWaiting}); err != nil {
			r.t.Fatal(err)
		}
	}
	r.compare()
}

func (r *modelRun) same(op string, got, want bool) {
	r.t.Helper()
	if got != want {
		r.t.Fatalf("%s: got %v, want %v (%+v)", op, got, want, r.plain)
	}
}

func (r *modelRun) compare() {
	r.t.Helper()
	for _, id := range r.plain.settle() {
		r.same("a place that became a slot: giveUp", r.b.giveUp(r.places[id]), false)
	}
	for _, id := range r.plain.queue {
		select {
		case <-granted(r.places[id]):
			r.t.Fatalf("waiter %d has a slot before its turn (%+v)", id, r.plain)
		default:
		}
	}
	s := r.b.Stats()
	want := BulkheadStats{InFlight: r.plain.inFlight, Waiting: len(r.plain.queue), Limit: r.plain.limit, Peak: r.plain.peak}
	if s != want {
		r.t.Fatalf("got %+v, want %+v", s, want)
	}
}

func FuzzBulkhead(f *testing.F) {
	f.Add([]byte{0, 0, 0, 2, 2, 4, 6, 4, 4, 4, 0})
	f.Add([]byte{0, 0, 2, 2, 2, 2, 7 | 3<<3, 6, 7, 4, 4, 4, 4, 4})
	f.Add([]byte{4, 4, 0, 7 | 31<<3, 2, 3, 14, 22, 5, 5})
	f.Fuzz(func(t *testing.T, ops []byte) {
		r := newModelRun(t)
		for _, op := range ops[:min(len(ops), 2000)] {
			r.step(op)
		}
	})
}
