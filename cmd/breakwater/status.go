package main

import (
	"encoding/json"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/lab"
)

// statusServer serves GET /livez and GET /api/v1/status, read-only.
type statusServer struct {
	server *http.Server
	now    atomic.Pointer[lab.Status]
	done   chan struct{}
}

func serveStatus(ln net.Listener, fleet string) *statusServer {
	s := &statusServer{done: make(chan struct{})}
	s.now.Store(&lab.Status{Fleet: fleet})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte("ok\n"))
	})
	mux.HandleFunc("GET /api/v1/status", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		_ = e.Encode(s.now.Load())
	})
	s.server = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() {
		defer close(s.done)
		_ = s.server.Serve(ln)
	}()
	return s
}

func (s *statusServer) set(l lab.Live) { s.now.Store(new(l.Status())) }

func (s *statusServer) close() {
	_ = s.server.Close()
	<-s.done
}
