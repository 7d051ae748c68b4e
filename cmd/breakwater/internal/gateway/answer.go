package gateway

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"

	"github.com/breakwater-go/breakwater/emit"
	"github.com/breakwater-go/breakwater/internal/cloudevent"
)

// An answer is what became of one event.
type answer struct {
	Status int    `json:"status"` // 202: accepted
	ID     string `json:"id,omitempty"`
	// Handover says that it was stored without a try to deliver it: 202 promises no more than that.
	Handover  bool       `json:"handover,omitempty"`
	Consumers []consumer `json:"consumers,omitempty"`
	Error     string     `json:"error,omitempty"`
	Fields    []field    `json:"fields,omitempty"`
}

// A consumer is what became of it for one of them.
type consumer struct {
	Consumer string       `json:"consumer"`
	Outcome  emit.Outcome `json:"outcome"`
	Reason   emit.Reason  `json:"reason,omitempty"`
	Error    string       `json:"error,omitempty"`
}

// A field is an attribute that is at fault.
type field struct {
	Field string `json:"field"`
	Value string `json:"value"`
	Fault string `json:"fault"`
	Mend  string `json:"mend"`
}

// A batchAnswer answers for each event of a batch, in their order.
type batchAnswer struct {
	Status   int      `json:"status"`
	Accepted int      `json:"accepted"` // how many of Events
	Handover bool     `json:"handover,omitempty"`
	Events   []answer `json:"events"`
}

// sum counts, and returns the status of the whole: 202 if every event was accepted, else what its sender has to act upon first. It is never a success while
// an event is not taken, since a sender that looks at nothing else would lose that one.
func (b *batchAnswer) sum() int {
	seen := map[int]bool{}
	for i := range b.Events {
		seen[b.Events[i].Status] = true
		if b.Events[i].Status == http.StatusAccepted {
			b.Accepted++
		}
	}
	b.Status = http.StatusAccepted
	for _, status := range []int{
		http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusRequestEntityTooLarge, http.StatusTooManyRequests, http.StatusServiceUnavailable,
	} {
		if seen[status] {
			b.Status = status
		}
	}
	return b.Status
}

func consumers(r *emit.Receipt) (all []consumer) {
	for x := range r.Results() {
		c := consumer{Consumer: x.Consumer, Outcome: x.Outcome, Reason: x.Reason}
		if x.Outcome == emit.Shed || x.Outcome == emit.Refused {
			c.Error = wordsOf(x.Err)
		}
		all = append(all, c)
	}
	return all
}

// wordsOf tells of the errors that stores have only what is known of all of them: what a consumer or a file system said is not the sender's.
func wordsOf(err error) string {
	for _, known := range []error{emit.ErrFull, emit.ErrTooLarge, emit.ErrClosed, emit.ErrBackPressure} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	return "emit: neither delivered nor stored"
}

// refusal is the answer to an event that was not taken by all of its consumers. What another try may help is told before what it cannot.
func (e emitter) refusal(t emit.Trigger, err error) answer {
	a := answer{ID: t.ID}
	bad, isBad := errors.AsType[*cloudevent.InvalidError](err)
	_, isSent := errors.AsType[*emit.Error](err)
	switch {
	case isBad:
		a.Status, a.Error = http.StatusBadRequest, "it is no CloudEvent that can be taken: see fields"
		for _, f := range bad.Faults {
			a.Fields = append(a.Fields, field{Field: f.Attribute, Value: f.Value, Fault: f.Text, Mend: f.Mend})
		}
	case errors.Is(err, emit.ErrClosed):
		a.Status, a.Error = http.StatusServiceUnavailable, "this process ends: send it again, to another one"
	case errors.Is(err, emit.ErrBackPressure):
		a.Status, a.Error = http.StatusServiceUnavailable, "it could neither be delivered nor stored for some consumer: send it again later, with the same id"
	case errors.Is(err, emit.ErrShed):
		a.Status, a.Error = http.StatusTooManyRequests, "it was dropped for some consumer, whose dead letters are full of what is as important: send it again later, with the same id"
	case errors.Is(err, emit.ErrTooLarge):
		a.Status, a.Error = http.StatusRequestEntityTooLarge, "it is too large: send less data, or where it is"
	case errors.Is(err, emit.ErrNoConsumer):
		a.Status, a.Error = http.StatusUnprocessableEntity, "no consumer takes its type"
		a.Fields = []field{{"type", t.Type, "no consumer takes it", "configure a consumer for it, or do not send it"}}
	case isSent:
		a.Status, a.Error = http.StatusServiceUnavailable, "it could neither be delivered nor stored for some consumer: send it again later, with the same id"
	default: // all else was checked before
		a.Status, a.Error = http.StatusBadRequest, "its priority is not known"
		names := strings.Join(e.router.Config().Priorities, ", ")
		a.Fields = []field{{priority, t.Priority, "it is none of the priorities that are configured", "leave it out, or give one of " + names}}
	}
	return a
}

func refuse(w http.ResponseWriter, status int, text string) {
	write(w, status, answer{Status: status, Error: text})
}

func write(w http.ResponseWriter, status int, body any) {
	h := w.Header()
	h.Set("Content-Type", "application/json; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
		h.Set("Retry-After", retryAfter())
	}
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the sender is gone: there is nobody to tell
}

// retryAfter is 1 to 3 seconds, drawn for each answer, so that senders do not come back together (REQ-D10).
func retryAfter() string { return strconv.Itoa(1 + rand.IntN(3)) }
