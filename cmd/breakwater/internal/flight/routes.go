package flight

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/api"
)

// Routes are those of the interface over HTTP: GET /api/v1/flight lists the snapshots, the newest first, and GET /api/v1/flight/{id} is one, for
// `go tool trace`. A trace names functions and goroutines, not what they handle; the mark of the opening names the breaker.
func (r *Recorder) Routes() []api.Route {
	return []api.Route{
		{Pattern: "GET /api/v1/flight", Handler: http.HandlerFunc(r.list)},
		{Pattern: "GET /api/v1/flight/{id}", Handler: http.HandlerFunc(r.download)},
	}
}

func (r *Recorder) list(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, struct {
		Snapshots []Snapshot `json:"snapshots"`
	}{r.Snapshots()})
}

func (r *Recorder) download(w http.ResponseWriter, req *http.Request) {
	for _, s := range r.Snapshots() {
		if strconv.FormatUint(s.ID, 10) == req.PathValue("id") {
			send(w, &s)
			return
		}
	}
	writeJSON(w, http.StatusNotFound, struct {
		Error string `json:"error"`
	}{"there is no such snapshot, or it has made room for a newer one: GET /api/v1/flight lists them"})
}

func send(w http.ResponseWriter, s *Snapshot) {
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Length", strconv.Itoa(s.Bytes))
	h.Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", fmt.Sprintf("breakwater-%d.trace", s.ID)))
	_, _ = w.Write(s.data) // a client that has gone
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // a client that has gone
}
