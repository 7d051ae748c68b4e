package gateway

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"

	otelbreaker "github.com/breakwater-go/breakwater/contrib/otel"
	"github.com/breakwater-go/breakwater/emit"
	"github.com/breakwater-go/breakwater/internal/cloudevent"
)

// priority is the extension that names a trigger's Priority.
const priority = "priority"

// parallel is how many events of a batch are emitted at once: half of a bulkhead, so that one batch does not fill it.
const parallel = 8

// An emitter emits the events of one request.
type emitter struct {
	router *emit.Router
	tracer *otelbreaker.Tracer // nil: none
	weaker bool                // HandOver in place of Emit
}

// event emits one, unless it is none that a consumer could be sent.
func (e emitter) event(ctx context.Context, item cloudevent.Item) answer {
	t := item.Trigger
	if item.Err != nil {
		return e.refusal(t, item.Err)
	}
	t.Priority = t.Attributes[priority]
	delete(t.Attributes, priority) // the map is of this event alone
	send := e.tracer.Emit
	if e.weaker {
		send = e.tracer.HandOver
	}
	receipt, err := send(ctx, e.router, t)
	if err == nil {
		return answer{Status: http.StatusAccepted, ID: receipt.ID, Handover: e.weaker, Consumers: consumers(&receipt)}
	}
	if unsent, ok := errors.AsType[*emit.Error](err); ok {
		a := e.refusal(t, err)
		a.Consumers = consumers(&unsent.Receipt)
		return a
	}
	return e.refusal(t, err)
}

// batch emits events, several at once, those of one key one after the other.
func (e emitter) batch(ctx context.Context, items []cloudevent.Item) []answer {
	answers, groups := make([]answer, len(items)), byKey(items)
	var next atomic.Int64
	var all sync.WaitGroup
	for range min(parallel, len(groups)) {
		all.Go(func() {
			for n := next.Add(1); n <= int64(len(groups)); n = next.Add(1) {
				for _, i := range groups[n-1] {
					answers[i] = e.event(ctx, items[i])
				}
			}
		})
	}
	all.Wait()
	return answers
}

// byKey returns the indexes of the events of each key, in order; one without a key stands alone.
func byKey(items []cloudevent.Item) (groups [][]int) {
	at := map[string]int{}
	for i := range items {
		key := items[i].Trigger.Key
		if n, ok := at[key]; ok && key != "" {
			groups[n] = append(groups[n], i)
			continue
		}
		at[key] = len(groups)
		groups = append(groups, []int{i})
	}
	return groups
}
