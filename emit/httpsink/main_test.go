package httpsink

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/emit"
	"github.com/breakwater-go/breakwater/internal/leaks"
)

// TestMain also looks for connections that outlive the tests.
func TestMain(m *testing.M) {
	code := leaks.Check(m.Run())
	for begin := time.Now(); code == 0 && goroutines("net/http.(*persistConn)") > 0; runtime.Gosched() {
		if time.Since(begin) > 5*time.Second {
			fmt.Fprintln(os.Stderr, "connections are left")
			code = 1
		}
	}
	os.Exit(code)
}

// goroutines counts those with text in their stack.
func goroutines(text string) (n int) {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for stack := range strings.SplitSeq(string(stacks), "\n\n") {
		if strings.Contains(stack, text) {
			n++
		}
	}
	return n
}

func trigger() emit.Trigger {
	return emit.Trigger{ID: "id 1", Type: "order.paid", Source: "/shop", Data: []byte(`{"sum":1}`)}
}

// newSink fills in what tests do not care for.
func newSink(t *testing.T, c Config) *Sink {
	t.Helper()
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.CloseIdleConnections)
	return s
}

// A server counts the connections that it accepts.
type server struct {
	*httptest.Server

	conns atomic.Int64
}

func serve(t *testing.T, h http.HandlerFunc) *server {
	t.Helper()
	s := &server{Server: httptest.NewUnstartedServer(h)}
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			s.conns.Add(1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// status is a server that answers so, with header lines and a body.
func status(code int, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for _, line := range header {
			name, value, _ := strings.Cut(line, ": ")
			w.Header().Set(name, value)
		}
		w.WriteHeader(code)
		fmt.Fprint(w, body)
	}
}

// raw serves each connection by f, by its number from 0, and closes it then. It returns the URL.
func raw(t *testing.T, f func(n int, c net.Conn, in *bufio.Reader)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n := 0; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			f(n, c, bufio.NewReader(c))
			c.Close()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	return "http://" + l.Addr().String()
}
