package pgxread_test

import (
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/breakwater-go/breakwater/pgxread"
	"github.com/breakwater-go/breakwater/replica"
)

// balance forwards connections to the named replicas in turn, as a reader endpoint does.
func balance(t *testing.T, names ...string) (addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	var wg sync.WaitGroup
	t.Cleanup(func() { _ = ln.Close(); wg.Wait() })
	var turn atomic.Int64
	pump := func(to, from net.Conn) {
		_, _ = io.Copy(to, from)
		_, _ = to.Close(), from.Close()
	}
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			port := nodeOf(names[turn.Add(1)%int64(len(names))]).Port
			s, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
			if err != nil {
				_ = c.Close()
				continue
			}
			wg.Go(func() { pump(s, c) })
			wg.Go(func() { pump(c, s) })
		}
	})
	return ln.Addr().String()
}

// One "replica" that is two servers behind an address was sampled on the one and read on the other: 50 of 50 reads lacked
// commits 5 s old, told as fresh. A connection for reads leads to the server that is sampled, or is refused.
func TestAddressOfTwoServersIsNeverServedStale(t *testing.T) {
	broken(t)
	u, err := url.Parse(dsn("r1"))
	must(t, err)
	u.Host = balance(t, "r1", "r2")
	w := open(t, quick(), nil, func(c *pgxread.Config) {
		c.Replicas = []pgxread.Node{{Name: "ro", DSN: u.String()}}
	})
	must(t, pg.Pause(t.Context(), "r2"))
	for range 100 {
		_, err := w.Exec(t.Context(), "INSERT INTO tick VALUES (4242)")
		must(t, err)
	}
	for range 2 { // the commits grow older than any limit
		_, err = w.Exec(t.Context(), "SELECT pg_sleep(1.5)")
		must(t, err)
	}
	served := 0
	for range 50 {
		var info pgxread.ReadInfo
		var k int
		err := w.Reader(replica.Requirement{}).QueryRow(pgxread.WithInfo(t.Context(), &info), "SELECT count(*) FROM tick WHERE n = 4242").Scan(&k)
		if err == nil && k < 100 {
			t.Fatalf("a read lacks %d commits that are 3 s old, told Hi %v", 100-k, info.Hi)
		}
		if err == nil {
			served++
		}
	}
	t.Logf("%d of 50 reads served", served)
}

// A replica's DSN with several hosts is refused at once; the primary may have them.
func TestReplicaIsOneServer(t *testing.T) {
	u, err := url.Parse(dsn("r1"))
	must(t, err)
	other, err := url.Parse(dsn("r2"))
	must(t, err)
	u.Host += "," + other.Host
	_, err = pgxread.Open(t.Context(), pgxread.Config{
		Primary: pgxread.Node{DSN: dsn("primary")}, Replicas: []pgxread.Node{{Name: "r1", DSN: u.String()}},
	})
	if err == nil || !strings.Contains(err.Error(), "more than one server") {
		t.Errorf("err = %v", err)
	}
}
