package daemon

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/config"
)

// A reload that renames a consumer tells of the letters that wait for the name before, once (REQ-E8).
func TestReloadTellsOfLettersThatNobodyDelivers(t *testing.T) {
	k := newTaker(t)
	k.become(true)
	text := func(name string) string {
		return "listen: 127.0.0.1:0\nconsumers: [{name: " + name + ", url: '" + k.URL + "'}]\n"
	}
	r := start(t, configured(t, text("a")[len("listen: 127.0.0.1:0\n"):]))
	if status, answer := r.emit("1"); status != http.StatusAccepted {
		t.Fatal(status, answer)
	}
	r.reload(text("b"))
	r.reload(text("b"))
	const said = `letters of \"a\" wait`
	r.log.waitFor(t, said, 1)
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	if n := strings.Count(r.log.String(), said); n != 1 {
		t.Errorf("got it told %d times, want once:\n%s", n, r.log)
	}
}

// A reload that changes where a consumer is leaves no connection of the sink before, also where a delivery is under way (REQ-B16).
func TestReloadClosesOldConnections(t *testing.T) {
	arrived, answer, gone := make(chan struct{}, 1), make(chan struct{}), make(chan struct{}, 1)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		arrived <- struct{}{}
		<-answer
	}))
	srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateClosed {
			gone <- struct{}{}
		}
	}
	srv.Start()
	t.Cleanup(srv.Close)
	k := newTaker(t)
	text := func(url string) string { return "consumers: [{name: a, url: '" + url + "', timeout: 9s}]\n" }
	r := start(t, configured(t, text(srv.URL)))
	emitted := make(chan int, 1)
	go func() {
		status, _ := r.emit("1")
		emitted <- status
	}()
	<-arrived
	r.reload("listen: 127.0.0.1:0\n" + text(k.URL))
	close(answer)
	if got := <-emitted; got != http.StatusAccepted {
		t.Errorf("got %d, want 202", got)
	}
	select {
	case <-gone:
	case <-time.After(patience):
		t.Error("the connection of the sink before is still there")
	}
}

// A reload may exchange all replicas but one where there are as many as there may be, with no room for both; the one that stays keeps its state (REQ-B16). Back again it may, too.
func TestReloadExchangesManyReplicas(t *testing.T) {
	text := func(name string) string {
		nodes := []string{"{name: primary, dsn: 'host=127.0.0.1 port=1'}", "{name: stays, dsn: 'host=127.0.0.1 port=1'}"}
		for i := range config.MostReplicas - 1 {
			nodes = append(nodes, fmt.Sprintf("{name: %s%d, dsn: 'host=127.0.0.1 port=1'}", name, i))
		}
		return fleetText(nodes)
	}
	r := start(t, configured(t, text("old")))
	if status, answer := r.do("POST", "/api/v1/breakers/stays", `{"state":"forced_open","reason":"to see that it stays"}`); status != http.StatusOK {
		t.Fatal(status, answer)
	}
	for _, name := range []string{"new", "old"} {
		if got := r.reload("listen: 127.0.0.1:0\n" + text(name)); !got.OK {
			t.Fatalf("to %s: got %+v, want it taken", name, got)
		}
		s := r.status()
		if len(s.Replicas) != config.MostReplicas || s.state("stays") != "forced_open" {
			t.Errorf("to %s: got %d replicas and %s, want %d and forced_open", name, len(s.Replicas), s.state("stays"), config.MostReplicas)
		}
		for i := range config.MostReplicas - 1 {
			if s.state(fmt.Sprint(name, i)) == "absent" {
				t.Errorf("%s%d is not there", name, i)
			}
		}
	}
}
