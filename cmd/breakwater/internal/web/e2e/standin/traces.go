package main

import (
	"encoding/json"
	"net/http"

	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/api"
)

// traces plays the flight recorder: one for the newest opening of each replica.
func (t *tide) traces() []api.Route {
	type snapshot struct {
		ID     uint64 `json:"id"`
		At     any    `json:"at"`
		Scope  string `json:"scope"`
		Name   string `json:"name"`
		Reason string `json:"reason"`
		Bytes  int    `json:"bytes"`
	}
	list := func(w http.ResponseWriter, _ *http.Request) {
		all := []snapshot{}
		t.mu.Lock()
		defer t.mu.Unlock()
		for _, n := range t.nodes {
			if trip := n.Breaker.LastTrip; trip != nil {
				all = append(all, snapshot{n.Breaker.Generation, trip.At, api.ScopeReplica, n.Name, trip.Reason.Text, 5})
			}
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"snapshots": all}) // a client that has gone
	}
	one := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/octet-stream")
		_, _ = w.Write([]byte("trace")) // the same
	}
	return []api.Route{{Pattern: "GET /api/v1/flight", Handler: http.HandlerFunc(list)}, {Pattern: "GET /api/v1/flight/{id}", Handler: http.HandlerFunc(one)}}
}
