package boltletters

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/breakwater-go/breakwater/emit"
)

// What a Router could not deliver is delivered by the Router of the next life, with the same IDs (REQ-E7, REQ-E8).
func TestRouterOverARestart(t *testing.T) {
	const triggers = 30
	var down atomic.Bool
	down.Store(true)
	got := make(chan string, 10*triggers)
	sink := emit.SinkFunc(func(_ context.Context, tr emit.Trigger) error {
		if down.Load() {
			return errors.New("down")
		}
		got <- tr.ID
		return nil
	})
	router := func(s *Store) *emit.Router {
		r, err := emit.New(emit.Config{DeadLetters: s, Consumers: []emit.Consumer{{Name: "a", Sink: sink}}})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	s := open(t, small(t.TempDir()))
	first := router(s)
	missing := map[string]bool{}
	for range triggers {
		receipt, err := first.Emit(t.Context(), emit.Trigger{Type: "order.paid", Data: []byte("{}")})
		if err != nil {
			t.Fatal(err)
		}
		missing[receipt.ID] = true
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	down.Store(false)
	s = reopen(t, s)
	second := router(s)
	for len(missing) > 0 {
		select {
		case id := <-got:
			delete(missing, id)
		case <-t.Context().Done():
			t.Fatalf("%d of %d were never delivered", len(missing), triggers)
		}
	}
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	if d := s.Depths()["a"]; d.Letters != 0 {
		t.Errorf("left: %+v", d)
	}
}
