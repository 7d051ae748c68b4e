package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/breakwater-go/breakwater/internal/fleet"
	"github.com/breakwater-go/breakwater/internal/fleettest"
	"github.com/breakwater-go/breakwater/internal/leaks"
	"github.com/breakwater-go/breakwater/readpath"
)

// pg is the fleet that all tests share: primary, r1, r2.
var pg *fleet.Fleet

func TestMain(m *testing.M) {
	begin := func(f *fleet.Fleet) error { pg = f; return nil }
	os.Exit(leaks.Check(fleettest.Main(m, fleet.Config{Replicas: 2, SQL: runSQL}, begin)))
}

func runSQL(ctx context.Context, dsn, query string) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	_, err = conn.Exec(ctx, query, pgx.QueryExecModeSimpleProtocol)
	return err
}

func dsns() (primary string, replicas []string) {
	for _, n := range pg.Nodes() {
		if n.Name == "primary" {
			primary = n.DSN
		} else {
			replicas = append(replicas, n.DSN)
		}
	}
	return primary, replicas
}

// What the tests of a real fleet share.
var (
	must       = fleettest.Must
	eventually = fleettest.Eventually
)

// shop is a running server, with clients.
type shop struct {
	*testing.T

	*server
	url    string
	client *http.Client // without cookies
}

func open(t *testing.T) shop {
	t.Helper()
	c := config{recovery: 500 * time.Millisecond, secret: []byte("a secret of the test")}
	c.dsn, c.replicas = dsns()
	c.settings = fleettest.Quick()
	c.settings.Reenter = c.settings.Trip
	s, err := newServer(t.Context(), c)
	must(t, err)
	t.Cleanup(s.Close)
	must(t, s.store.create(t.Context()))
	must(t, pg.CatchUp(t.Context()))
	web := httptest.NewServer(s.Handler())
	t.Cleanup(web.Close)
	return shop{t, s, web.URL, web.Client()}
}

// reply is an answer with its body.
type reply struct {
	status int
	header http.Header
	body   string
	cents  int64
}

func (s shop) get(path string) reply {
	s.Helper()
	return s.do(s.client, http.MethodGet, path, nil)
}

func (s shop) do(client *http.Client, method, path string, form url.Values) (r reply) {
	s.Helper()
	req, err := http.NewRequestWithContext(s.Context(), method, s.url+path, strings.NewReader(form.Encode()))
	must(s.T, err)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	res, err := client.Do(req)
	must(s.T, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	must(s.T, err)
	var v struct{ Cents int64 }
	_ = json.Unmarshal(body, &v) // a refusal is no JSON
	return reply{res.StatusCode, res.Header, string(body), v.Cents}
}

// fresh reports whether an answer has none of the headers of one that is not.
func (r reply) fresh() bool {
	return r.status == http.StatusOK && r.header.Get("X-Data-Freshness") == "" && r.header.Get("Warning") == "" && r.header.Get("Age") == ""
}

// wantRefusal wants 503 and a Retry-After of so many seconds.
func (s shop) wantRefusal(path string, r reply, least, most int) {
	s.Helper()
	after, err := strconv.Atoi(r.header.Get("Retry-After"))
	if r.status != http.StatusServiceUnavailable || err != nil || after < least || after > most {
		s.Errorf("GET %s: got %d, Retry-After %q; want 503 and %d to %d", path, r.status, r.header.Get("Retry-After"), least, most)
	}
}

func (s shop) wantStale(path string) {
	s.Helper()
	r := s.get(path)
	age, err := strconv.Atoi(r.header.Get("Age"))
	if r.status != http.StatusOK || r.header.Get("X-Data-Freshness") != "stale" || r.header.Get("Warning") != `110 - "Response is stale"` || err != nil || age < 1 {
		s.Errorf("GET %s: got %d %s, headers %v; want 200, flagged stale with its age", path, r.status, r.body, r.header)
	}
}

// depositing has somebody else make deposits until the test ends: an idle primary has no late replicas.
func (s shop) depositing() {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			if _, _, err := s.store.deposit(ctx, 100, 1); err != nil && ctx.Err() == nil {
				s.Errorf("deposit: %v", err)
				return
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	})
	s.Cleanup(func() { cancel(); wg.Wait() })
}

// REQ-D4 to REQ-D8: the three classes while all is well, while replay is paused on every replica, and after it.
func TestThreeClasses(t *testing.T) {
	s := open(t)
	fleettest.Broken(t, pg)
	s.depositing()
	paths := []string{"/accounts/1", "/products/1", "/products/1/recommendations"}
	eventually(t, "fresh answers of every class", func() bool {
		for _, path := range paths {
			if !s.get(path).fresh() {
				return false
			}
		}
		return true
	})

	for _, name := range []string{"r1", "r2"} {
		must(t, pg.Pause(t.Context(), name))
	}
	eventually(t, "the path is degraded", func() bool { return s.path.Mode() == readpath.Degraded })
	before := s.get("/accounts/2").cents
	deposit := s.do(s.client, http.MethodPost, "/accounts/2/deposit", url.Values{"cents": {"7"}})
	for range 300 { // more than the budget has
		switch r := s.get("/accounts/2"); {
		case r.status == http.StatusServiceUnavailable:
			s.wantRefusal("/accounts/2", r, 2, 3)
		case !r.fresh() || r.cents != before+7 || deposit.cents != r.cents:
			t.Fatalf("balance: got %d %s, headers %v; want %d, fresh, or a refusal", r.status, r.body, r.header, before+7)
		}
	}
	s.wantStale("/products/1") // from the cache
	s.wantStale("/products/2") // from a late replica
	s.wantRefusal(paths[2], s.get(paths[2]), 5, 8)
	if got := s.path.Stats(); got.Late == 0 || got.Reads[readpath.Degradable][readpath.FromCache] == 0 {
		t.Errorf("answers of late replicas: %d, of the cache: %d; want some of both", got.Late, got.Reads[readpath.Degradable][readpath.FromCache])
	}

	for _, name := range []string{"r1", "r2"} {
		must(t, pg.Resume(t.Context(), name))
	}
	eventually(t, "all classes are back", func() bool { return s.path.Mode() == readpath.Normal })
	for _, path := range paths {
		if r := s.get(path); !r.fresh() {
			t.Errorf("GET %s, recovered: got %d %s, headers %v; want fresh", path, r.status, r.body, r.header)
		}
	}
}

// REQ-R12: who has made a deposit reads it, wherever it is read.
func TestClientReadsItsOwnWrite(t *testing.T) {
	s := open(t)
	jar, err := cookiejar.New(nil)
	must(t, err)
	client := &http.Client{Jar: jar}
	for range 20 {
		written := s.do(client, http.MethodPost, "/accounts/3/deposit", url.Values{"cents": {"1"}})
		if written.status != http.StatusOK || !strings.HasPrefix(written.header.Get("Set-Cookie"), "shop-position=") {
			t.Fatalf("deposit: got %d %s, cookie %q", written.status, written.body, written.header.Get("Set-Cookie"))
		}
		read := s.do(client, http.MethodGet, "/accounts/3", nil)
		if read.status != http.StatusOK || read.cents != written.cents {
			t.Errorf("got %d %s after %s", read.status, read.body, written.body)
		}
	}
}

func TestFaultsOfRequests(t *testing.T) {
	s := open(t)
	for path, want := range map[string]int{"/accounts/no": 404, "/accounts/999": 404, "/products/999": 404, "/nothing": 404} {
		if r := s.get(path); r.status != want {
			t.Errorf("GET %s: got %d, want %d", path, r.status, want)
		}
	}
	for _, cents := range []string{"", "-1", "x"} {
		if r := s.do(s.client, http.MethodPost, "/accounts/3/deposit", url.Values{"cents": {cents}}); r.status != http.StatusBadRequest {
			t.Errorf("deposit of %q: got %d, want 400", cents, r.status)
		}
	}
}

// lines is a writer that hands on what is written.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

// The program serves until it is told to stop, and then lets a request under way end.
func TestRunStopsGracefully(t *testing.T) {
	primary, replicas := dsns()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	out, ended := make(lines, 4), make(chan error, 1)
	go func() {
		ended <- run(ctx, []string{"-dsn", primary, "-replica", replicas[0], "-replica", replicas[1], "-listen", "127.0.0.1:0", "-create"}, out)
	}()
	var line string
	select {
	case line = <-out:
	case err := <-ended:
		t.Fatal(err)
	}
	s := shop{T: t, client: new(http.Client), url: strings.TrimSpace(strings.TrimPrefix(line, "serving on "))}
	body, send := io.Pipe()
	got := make(chan int, 1)
	go func() {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/accounts/4/deposit", body)
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Expect", "100-continue") // the body is asked for once the handler reads it
		res, err := s.client.Do(req)
		if err != nil {
			t.Error(err)
			got <- 0
			return
		}
		_ = res.Body.Close()
		got <- res.StatusCode
	}()
	_, err := send.Write([]byte("cents=")) // the request is under way
	must(t, err)
	stop()
	_, err = send.Write([]byte("5"))
	must(t, err)
	must(t, send.Close())
	if status := <-got; status != http.StatusOK {
		t.Errorf("the request under way: got %d, want 200", status)
	}
	must(t, <-ended)
}

func TestFlags(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), nil, &out); err == nil || !strings.Contains(err.Error(), "-dsn is missing") {
		t.Errorf("no flags: got %v", err)
	}
	if err := run(t.Context(), []string{"-dsn", "postgres://localhost", "-secret", "short"}, &out); err == nil || !strings.Contains(err.Error(), "Secret") {
		t.Errorf("a short secret: got %v", err)
	}
}
