package daemon

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
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
