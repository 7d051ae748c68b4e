package prombreakwater

import (
	"strconv"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/emit"
)

type emitFamilies struct {
	emitted, outcomes, duration, degraded, stored, inFlight *family
	letters, parked, bytes, oldest, absent                  *family
	replayed, evicted, discarded, parkings                  *family

	numbered, trips, openFor, depth *family // published
}

func newEmitFamilies(k *catalogue, published bool) emitFamilies {
	f := emitFamilies{
		emitted:   k.counter("breakwater_emitted_total", "Triggers for the consumer: the sum of breakwater_emit_total over its outcomes. What a durable store held at the start is among them.", "consumer"),
		outcomes:  k.counter("breakwater_emit_total", "Triggers by what became of them at once: delivered, stored (in the dead letters), shed or refused. What became of stored ones is told by breakwater_dead_letters and its counters.", "consumer", "outcome"),
		duration:  k.histogram("breakwater_emit_duration_seconds", "How long emits took for the consumer, with those that were stored instead of delivered.", "consumer"),
		degraded:  k.counter("breakwater_emit_degraded_total", "Triggers that a degrade function dealt with; they are among those delivered.", "consumer"),
		stored:    k.counter("breakwater_emit_stored_total", "Triggers that were stored, by why they were not delivered.", "consumer", "reason"),
		inFlight:  k.gauge("breakwater_emit_in_flight", "Deliveries under way, replays too.", "consumer"),
		letters:   k.gauge("breakwater_dead_letters", "Dead letters that are stored, parked ones too.", "consumer", "priority"),
		parked:    k.gauge("breakwater_dead_letters_parked", "Dead letters that wait for a person.", "consumer"),
		bytes:     k.gauge("breakwater_dead_letters_bytes", "What the dead letters take, about.", "consumer"),
		oldest:    k.gauge("breakwater_dead_letter_oldest_age_seconds", "How long ago the oldest dead letter was stored. Absent without dead letters.", "consumer"),
		absent:    k.gauge("breakwater_dead_letters_absent", "Dead letters of a consumer that is not configured any more: nobody delivers them.", "consumer"),
		replayed:  k.counter("breakwater_dead_letters_replayed_total", "Dead letters that were delivered.", "consumer"),
		evicted:   k.counter("breakwater_dead_letters_evicted_total", "Dead letters that were dropped to make room for more important ones.", "consumer"),
		discarded: k.counter("breakwater_dead_letters_discarded_total", "Dead letters that a person deleted.", "consumer"),
		parkings:  k.counter("breakwater_dead_letters_parkings_total", "How often a dead letter was parked.", "consumer"),
	}
	if published {
		f.numbered = k.gauge("breaker_state", "State of the consumer's breaker as a number: 0 closed, 1 open, 2 half-open. A forced or disabled one shows as what it does. breakwater_breaker_state needs no numbers.", "consumer")
		f.trips = k.untyped("trip_count", "How often the consumer's breaker opened, failed recoveries too. A counter.", "consumer")
		f.openFor = k.untyped("open_duration_s", "How long the consumer's breaker has been open, half-open or forced open in all, in seconds. A counter.", "consumer")
		f.depth = k.gauge("fallback_depth", "Dead letters of the consumer. The sum of breakwater_dead_letters.", "consumer")
	}
	return f
}

// emitReasons are why a trigger is stored, as ConsumerStats counts them.
func emitReasons() []emit.Reason {
	return []emit.Reason{
		emit.ReasonOpen, emit.ReasonForcedOpen, emit.ReasonBulkhead, emit.ReasonTimeout, emit.ReasonFailed,
		emit.ReasonBehind, emit.ReasonShutdown, emit.ReasonRejected, emit.ReasonPoison, emit.ReasonReceived,
	}
}

func (c *Collector) readRouter(r *report, router *emit.Router) {
	s, priorities := router.Stats(), router.Config().Priorities
	present := map[string]bool{}
	for i := range s.Consumers {
		l := &s.Consumers[i]
		owner := router.Breaker(l.Name)
		if owner == nil { // it was removed meanwhile
			continue
		}
		present[l.Name] = true
		c.readBreaker(r, ScopeConsumer, owner, l.Breaker)
		c.readLane(r, owner, l)
		c.readDepth(r, l, priorities)
		c.readPublishedLane(r, owner, l)
	}
	for name, depth := range s.Absent {
		r.add(c.emits.absent, float64(depth.Letters), r.label.name(name))
	}
	c.ledger.keep(ScopeConsumer, present)
}

// readLane tells what became of triggers. Stats counts a letter where it is now: what it was at once is told here, so
// that each is a counter (REQ-E14).
func (c *Collector) readLane(r *report, owner *breaker.Breaker, l *emit.ConsumerStats) {
	f, name := &c.emits, r.label.name(l.Name)
	count := func(f *family, v uint64, labels ...string) float64 {
		return r.count(f, owner, float64(v), append([]string{name}, labels...)...)
	}
	delivered := count(f.outcomes, l.Delivered-l.Replayed, emit.Delivered.String())
	stored := count(f.outcomes, l.Stored+l.Replayed+l.Evicted+l.Discarded, emit.Stored.String())
	shed := count(f.outcomes, l.Shed-l.Evicted-l.Discarded, emit.Shed.String())
	refused := count(f.outcomes, l.Refused, emit.Refused.String())
	r.add(f.emitted, delivered+stored+shed+refused, name)
	r.histogram(f.duration, owner, &l.Took, name)
	count(f.degraded, l.Degraded)
	for _, why := range emitReasons() {
		count(f.stored, l.Reasons[why], string(why))
	}
	count(f.replayed, l.Replayed)
	count(f.evicted, l.Evicted)
	count(f.discarded, l.Discarded)
	count(f.parkings, l.Parked)
	r.add(f.inFlight, float64(l.InFlight), name)
}

func (c *Collector) readDepth(r *report, l *emit.ConsumerStats, priorities []string) {
	f, name := &c.emits, r.label.name(l.Name)
	for i := range max(len(priorities), len(l.Depth.ByPriority)) {
		priority, n := strconv.Itoa(i), 0
		if i < len(priorities) {
			priority = r.label.name(priorities[i])
		}
		if i < len(l.Depth.ByPriority) {
			n = l.Depth.ByPriority[i]
		}
		r.add(f.letters, float64(n), name, priority)
	}
	r.add(f.parked, float64(l.Depth.Parked), name)
	r.add(f.bytes, float64(l.Depth.Bytes), name)
	if !l.Depth.Oldest.IsZero() {
		r.add(f.oldest, max(0, time.Since(l.Depth.Oldest).Seconds()), name)
	}
}

func (c *Collector) readPublishedLane(r *report, owner *breaker.Breaker, l *emit.ConsumerStats) {
	f, name := &c.emits, r.label.name(l.Name)
	r.add(f.numbered, published().of(l.Breaker.State), name)
	r.count(f.trips, owner, float64(l.Breaker.Openings), name)
	r.count(f.openFor, owner, l.Breaker.Refusing.Seconds(), name)
	r.add(f.depth, float64(l.Depth.Letters), name)
}
