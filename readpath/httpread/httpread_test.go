package httpread_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/readpath"
	"github.com/breakwater-go/breakwater/readpath/httpread"
	"github.com/breakwater-go/breakwater/replica"
)

// nodes is a Backend of one replica that may be late or unverified, and a primary.
type nodes struct{ late, unverified atomic.Bool }

type infoKey struct{}

func (n *nodes) WithRead(ctx context.Context, req replica.Requirement, info *readpath.ReadInfo) context.Context {
	*info = readpath.ReadInfo{
		Node: "r1", PickedAt: time.Now(), Hi: 1500 * time.Millisecond, Primary: req.PrimaryOnly, Unverified: n.unverified.Load(),
	}
	return context.WithValue(ctx, infoKey{}, req)
}

func (n *nodes) Eligible(req replica.Requirement) bool { return req.PrimaryOnly || !n.late.Load() }
func (n *nodes) Sampled() bool                         { return true }
func (n *nodes) Failed(error) bool                     { return false }

func (n *nodes) load(ctx context.Context) (string, error) {
	if req := ctx.Value(infoKey{}).(replica.Requirement); n.late.Load() && !req.PrimaryOnly {
		return "", &replica.NoReplicaError{Reasons: []replica.NodeReason{{Node: "r1", Condition: replica.Late}}}
	}
	return "answer", nil
}

type mapCache map[readpath.CacheKey]readpath.Entry

func (c mapCache) Get(k readpath.CacheKey) (readpath.Entry, bool) { e, ok := c[k]; return e, ok }
func (c mapCache) Set(k readpath.CacheKey, e readpath.Entry)      { c[k] = e }

func serve(t *testing.T, n *nodes, cache readpath.Cache, first func(http.ResponseWriter)) *httptest.Server {
	t.Helper()
	r, err := readpath.New(readpath.Config{
		Backend: n, Cache: cache, Budget: readpath.Budget{Rate: 0.001, Burst: 1},
		Endpoints: map[string]readpath.Endpoint{"balance": {Class: readpath.Critical}, "product": {Class: readpath.Degradable}, "related": {Class: readpath.Sheddable}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	srv := httptest.NewServer(httpread.Handler(func(w http.ResponseWriter, req *http.Request) {
		first(w)
		res, err := readpath.Get(req.Context(), r, readpath.Call{Endpoint: req.URL.Path[1:], Key: "1"}, n.load)
		switch {
		case httpread.Refused(w, err):
		case err != nil:
			http.Error(w, err.Error(), http.StatusInternalServerError)
		default:
			_, _ = fmt.Fprint(w, res.Value)
		}
	}))
	t.Cleanup(srv.Close)
	return srv
}

func fetch(t *testing.T, srv *httptest.Server, path string) (status int, h http.Header) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := srv.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, resp.Header
}

// REQ-D6, REQ-D7: what a client is told, and that it is absent again once fresh.
func TestHeaders(t *testing.T) {
	n := new(nodes)
	srv := serve(t, n, mapCache{}, func(http.ResponseWriter) {})
	want := func(path string, status int, freshness, warning string) http.Header {
		t.Helper()
		got, h := fetch(t, srv, path)
		if got != status || h.Get("X-Data-Freshness") != freshness || h.Get("Warning") != warning {
			t.Errorf("%s: got %d, %v; want %d, %q, %q", path, got, h, status, freshness, warning)
		}
		return h
	}
	if age := want("/product", 200, "", "").Get("Age"); age != "" {
		t.Errorf("fresh: got Age %q", age)
	}
	n.unverified.Store(true)
	want("/product", 200, "unverified", "")
	n.unverified.Store(false)
	n.late.Store(true)
	stale := want("/product", 200, "stale", `110 - "Response is stale"`)
	if age, err := strconv.Atoi(stale.Get("Age")); err != nil || age < 2 || age > 60 {
		t.Errorf("stale: got Age %q, want 2 or a little more", stale.Get("Age"))
	}
	want("/balance", 200, "", "") // the primary's one token
	for path, least := range map[string]int{"/balance": 2, "/related": 5} {
		h := want(path, 503, "", "")
		if after, err := strconv.Atoi(h.Get("Retry-After")); err != nil || after < least || after > 2*least {
			t.Errorf("%s: got Retry-After %q, want %d to %d", path, h.Get("Retry-After"), least, 2*least)
		}
	}
}

// The headers are told though the handler uses an http.ResponseController before it reads, and flushes.
func TestResponseController(t *testing.T) {
	n := new(nodes)
	n.unverified.Store(true)
	srv := serve(t, n, nil, func(w http.ResponseWriter) {
		if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Error(err)
		}
		if _, ok := w.(http.Flusher); !ok {
			t.Error("no http.Flusher")
		}
		w.WriteHeader(http.StatusEarlyHints)
	})
	if _, h := fetch(t, srv, "/product"); h.Get("X-Data-Freshness") != "unverified" {
		t.Errorf("got %v, want unverified", h)
	}
}

func TestRefusedLeavesOtherErrors(t *testing.T) {
	w := httptest.NewRecorder()
	if httpread.Refused(w, nil) || httpread.Refused(w, errors.New("x")) || w.Code != 200 || len(w.Header()) > 0 {
		t.Errorf("got %d, %v", w.Code, w.Header())
	}
}
