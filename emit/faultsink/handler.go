package faultsink

import (
	"errors"
	"math"
	"net/http"
	"strconv"

	"github.com/breakwater-go/breakwater/emit"
	"github.com/breakwater-go/breakwater/internal/cloudevent"
)

// maxBody is the most that a Handler reads of a request, in bytes.
const maxBody = 16 << 20

// A Handler is a consumer's HTTP server over a Sink: it takes CloudEvents 1.0 in binary and structured mode. The answers are 204 for
// what was delivered, 422 for what was rejected, 503 with a Retry-After for what is to come later, 500 for another error, 400 for
// what is no CloudEvent and 413 for over 16 MiB. A panic breaks the connection off.
type Handler struct{ Sink *Sink }

// ServeHTTP delivers what the request holds. The request's context bounds it: a hanging call ends when its caller leaves.
func (h Handler) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	t, err := cloudevent.Read(req, maxBody)
	if err != nil {
		http.Error(w, err.Error(), unreadable(err))
		return
	}
	defer func() {
		if recover() != nil {
			panic(http.ErrAbortHandler)
		}
	}()
	err = h.Sink.Deliver(req.Context(), t)
	if later, ok := errors.AsType[*emit.LaterError](err); ok {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(later.After.Seconds()))))
	}
	if err != nil {
		http.Error(w, err.Error(), statusOf(err))
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func unreadable(err error) int {
	if errors.Is(err, emit.ErrTooLarge) {
		return http.StatusRequestEntityTooLarge
	}
	return http.StatusBadRequest
}

func statusOf(err error) int {
	_, later := errors.AsType[*emit.LaterError](err)
	switch {
	case errors.Is(err, emit.ErrRejected):
		return http.StatusUnprocessableEntity
	case later:
		return http.StatusServiceUnavailable
	default:
		return http.StatusInternalServerError
	}
}
