package daemon

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/config"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/simfleet"
)

// nodes is a simulated fleet as the configuration has it.
func nodes(t *testing.T, replicas int) (f *simfleet.Fleet, lines []string) {
	t.Helper()
	f, err := simfleet.Start(t.Context(), replicas)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	for _, n := range f.Nodes() {
		lines = append(lines, fmt.Sprintf("{name: %s, dsn: %q}", n.Name, n.DSN))
	}
	return f, lines
}

func fleetText(lines []string) string {
	return "primary: " + lines[0] + "\nreplicas: [" + strings.Join(lines[1:], ", ") + "]\n"
}

// One process samples the fleet, takes triggers, and tells of both; it ends when it is told to.
func TestDaemon(t *testing.T) {
	fleet, lines := nodes(t, 2)
	k := newTaker(t)
	r := start(t, configured(t, fleetText(lines)+"degraded_mode: {}\nconsumers: [{name: ledger, url: '"+k.URL+"'}]\n"))
	s := r.status()
	if s.Mode != "serve" || len(s.Replicas) != 2 || len(s.Consumers) != 1 || string(s.ReadPath) == "null" || s.Reload == nil || !s.Reload.OK || s.ConfigHash == "" || !strings.HasPrefix(s.Fleet, "postgres ") {
		t.Errorf("got status %+v", s)
	}
	if status, answer := r.do("GET", "/readyz", ""); status != http.StatusOK {
		t.Errorf("readyz: got %d %s, want 200", status, answer)
	}
	if status, answer := r.emit("1"); status != http.StatusAccepted || k.count("1") != 1 {
		t.Errorf("emit: got %d %s, taken %d times, want 202 and once", status, answer, k.count("1"))
	}
	if err := fleet.Kill("r1"); err != nil {
		t.Fatal(err)
	}
	r.eventually("r1 opens", func() bool { s := r.status(); return s.state("r1") == "open" })
	if status, answer := r.do("GET", "/replica/r1", ""); status != http.StatusServiceUnavailable {
		t.Errorf("r1 for a proxy: got %d %s, want 503", status, answer)
	}
	if status, answer := r.do("GET", "/replica/r2?max_staleness=5s", ""); status != http.StatusOK {
		t.Errorf("r2 for a proxy: got %d %s, want 200", status, answer)
	}
	_, metrics := r.do("GET", "/metrics", "")
	for _, want := range []string{
		`breakwater_breaker_state{name="r1",scope="replica",state="open"} 1`, `replica_breaker_state{replica="r1"} 1`, `breakwater_emit_total{consumer="ledger",outcome="delivered"} 1`,
		"breakwater_config_last_reload_successful 1", "breakwater_build_info{", "breakwater_event_stream_clients 0", `breakwater_read_path_degraded{path="main"} 0`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("/metrics lacks %s", want)
		}
	}
	if err := r.stop(); err != nil {
		t.Errorf("the end: got %v, want none", err)
	}
	if log := r.log.String(); !strings.Contains(log, "the process ends") || !strings.Contains(log, "r1") {
		t.Errorf("the log does not tell of it:\n%s", log)
	}
}

// REQ-B16: a reload changes settings and members without losing state.
func TestReloadKeepsState(t *testing.T) {
	fleet, lines := nodes(t, 3)
	a, b := newTaker(t), newTaker(t)
	r := start(t, configured(t, fleetText(lines[:3])+"consumers: [{name: a, url: '"+a.URL+"'}]\n"))
	if status, answer := r.emit("1"); status != http.StatusAccepted {
		t.Fatal(status, answer)
	}
	if err := fleet.Kill("r1"); err != nil {
		t.Fatal(err)
	}
	r.eventually("r1 opens", func() bool { s := r.status(); return s.state("r1") == "open" })
	before := r.status()

	got := r.reload("listen: 127.0.0.1:0\nsettings: {trip: 700ms, breaches: 4}\n" + fleetText([]string{lines[0], lines[1], lines[3]}) +
		"consumers: [{name: b, url: '" + b.URL + "'}, {name: a, url: '" + a.URL + "', timeout: 400ms, bulkhead: 32}]\n")
	if !got.OK || got.Reloads != 1 || got.Failures != 0 || len(got.NeedsRestart) > 0 {
		t.Fatalf("got %+v", got)
	}
	s := r.status()
	if s.ConfigHash == before.ConfigHash {
		t.Error("the hash of the configuration stays")
	}
	if s.state("r1") != "open" || s.state("r2") != "absent" || s.state("r3") == "absent" {
		t.Errorf("got replicas %+v, want r1 open still, r3 in the place of r2", s.Replicas)
	}
	if s.Settings.TripMS != 700 || s.Settings.Breaches != 4 {
		t.Errorf("got settings %+v", s.Settings)
	}
	i := slices.IndexFunc(s.Consumers, func(c seenConsumer) bool { return c.Name == "a" })
	if i < 0 || len(s.Consumers) != 2 || s.Consumers[i].Delivered != 1 || s.Consumers[i].TimeoutMS != 400 || s.Consumers[i].Bulkhead != 32 {
		t.Errorf("got consumers %+v, want a with its count and other settings, and b", s.Consumers)
	}
	if status, answer := r.emit("2"); status != http.StatusAccepted || a.count("2") != 1 || b.count("2") != 1 {
		t.Errorf("got %d %s, want both to have it", status, answer)
	}
}

// A reload that leaves a consumer's address as it is leaves its connections too, whatever else of it changes.
func TestReloadKeepsConnections(t *testing.T) {
	k := newTaker(t)
	r := start(t, configured(t, "consumers: [{name: a, url: '"+k.URL+"'}]\n"))
	for i := range 3 {
		if status, answer := r.emit(strconv.Itoa(i)); status != http.StatusAccepted {
			t.Fatal(status, answer)
		}
		r.reload(fmt.Sprintf("listen: 127.0.0.1:0\nconsumers: [{name: a, url: '%s', bulkhead: %d, timeout: %dms}]\n", k.URL, 20+i, 300+i))
	}
	if n := k.connections(); n != 1 {
		t.Errorf("got %d connections, want 1", n)
	}
}

// A bad file leaves everything as it was, and says so: in the status, in the metrics, and once in the log.
func TestBadReload(t *testing.T) {
	k := newTaker(t)
	good := "listen: 127.0.0.1:0\nconsumers: [{name: a, url: '" + k.URL + "'}]\n"
	r := start(t, configured(t, strings.TrimPrefix(good, "listen: 127.0.0.1:0\n")))
	before := r.status()
	got := r.reload(good + "setings: {}\nlog: {level: loud}\n")
	if got.OK || got.Failures != 1 || !strings.Contains(got.Error, "did you mean settings?") || !strings.Contains(got.Error, "log.level") {
		t.Errorf("got %+v, want both faults", got)
	}
	if s := r.status(); s.ConfigHash != before.ConfigHash || len(s.Consumers) != 1 {
		t.Errorf("got %+v, want what was", s)
	}
	if _, metrics := r.do("GET", "/metrics", ""); !strings.Contains(metrics, "breakwater_config_last_reload_successful 0") {
		t.Error("the metric does not tell that the reload failed")
	}
	if got := r.reload(good); !got.OK || got.Reloads != 1 {
		t.Errorf("the good file again: got %+v", got)
	}
	if n := strings.Count(r.log.waitFor(t, "was taken", 1), "level=ERROR"); n != 1 {
		t.Errorf("the log tells %d times of it, want once:\n%s", n, r.log)
	}
}

// What cannot change while running is told, and all else is in force.
func TestReloadThatNeedsARestart(t *testing.T) {
	k := newTaker(t)
	r := start(t, configured(t, "consumers: [{name: a, url: '"+k.URL+"'}]\n"))
	got := r.reload("listen: 127.0.0.1:1\npriorities: [x, y]\ndead_letters: {letters: 7}\nflight_recorder: true\nlog: {format: json, level: error}\n" +
		"consumers: [{name: a, url: '" + k.URL + "', timeout: 300ms}]\n")
	want := []string{"priorities", "dead_letters", "listen", "log.format", "flight_recorder"}
	if !got.OK || !slices.Equal(got.NeedsRestart, want) {
		t.Errorf("got %+v, want a restart for %q", got, want)
	}
	if s := r.status(); s.Consumers[0].TimeoutMS != 300 {
		t.Errorf("got a timeout of %v ms, want 300", s.Consumers[0].TimeoutMS)
	}
	_ = r.stop()
	if log := r.log.String(); strings.Count(log, "level=INFO") != 1 { // that it is ready
		t.Errorf("the log goes on at level info:\n%s", log)
	}
}

// A reload that fails half way is taken back: what it had changed before is as it was.
func TestReloadIsWholeOrNot(t *testing.T) {
	_, lines := nodes(t, 3)
	k := newTaker(t)
	file := configured(t, fleetText(lines[:3])+"degraded_mode: {}\nconsumers: [{name: a, url: '"+k.URL+"'}]\n")
	c, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	d, err := newDaemon(Options{File: file, Config: c, Log: &text{}, Getenv: func(string) string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	defer d.standard.Close()
	if err := d.parts.open(t.Context(), c, &d.observers, d.publish); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.parts.close() }()
	looks := func() string {
		var names []string
		for _, n := range d.parts.db.Set().Stats().Replicas {
			names = append(names, n.Name)
		}
		lanes := d.parts.router.Config()
		return fmt.Sprintf("%v %v %v %v %v", names, d.parts.db.Set().Settings(), d.parts.path.Config().Budget, lanes.Consumers[0].Timeout, len(lanes.Consumers))
	}
	before := looks()
	write(t, file, "settings: {trip: 900ms}\n"+fleetText([]string{lines[0], lines[1], lines[3]})+
		"degraded_mode: {primary_read_budget: {burst: 77}}\nconsumers: [{name: a, url: '"+k.URL+"', timeout: 1s}, {name: b, url: '"+k.URL+"'}]\n")
	next, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	changes := d.changes(next)
	broken := errors.New("broken")
	last := change{"the last", func() error { return broken }, func() error { return nil }}
	if err := apply(append(changes, last)); !errors.Is(err, broken) || strings.Contains(err.Error(), "could not be put back") {
		t.Errorf("got %v, want that of the last step alone", err)
	}
	if after := looks(); sortedFields(after) != sortedFields(before) {
		t.Errorf("got  %s\nwant %s", after, before)
	}
	if err := apply(d.changes(next)); err != nil || looks() == before {
		t.Errorf("without it: got %v, %s", err, looks())
	}
}

// sortedFields is a text whose words are in order: a replica that was put back is the last one.
func sortedFields(text string) string {
	words := strings.Fields(strings.NewReplacer("[", " ", "]", " ").Replace(text))
	slices.Sort(words)
	return strings.Join(words, " ")
}

// A change of the file itself is enough, also one by a rename.
func TestReloadByWatching(t *testing.T) {
	k := newTaker(t)
	r := start(t, configured(t, "consumers: [{name: a, url: '"+k.URL+"'}]\n"))
	next := filepath.Join(filepath.Dir(r.file), "next")
	write(t, next, "listen: 127.0.0.1:0\nconsumers: [{name: a, url: '"+k.URL+"', timeout: 350ms}]\n")
	rename(t, next, r.file)
	r.eventually("the new timeout", func() bool { return r.status().Consumers[0].TimeoutMS == 350 })
	if s := r.status(); s.Reload.Reloads != 1 {
		t.Errorf("got %d reloads, want 1", s.Reload.Reloads)
	}
}

// A token that is exchanged in its file is in force without a restart; the one before is no credential any more (REQ-O4).
func TestTokenIsExchanged(t *testing.T) {
	k := newTaker(t)
	file := configured(t, "auth: {bearer_token_file: token}\nconsumers: [{name: a, url: '"+k.URL+"'}]\n")
	token := filepath.Join(filepath.Dir(file), "token")
	write(t, token, "the-first-token-of-all\n")
	r := start(t, file)
	if status, _ := r.do("GET", "/api/v1/status", ""); status != http.StatusUnauthorized {
		t.Errorf("without a token: got %d, want 401", status)
	}
	r.token = "the-first-token-of-all"
	r.status()
	write(t, token, "another-token-that-is-new\n")
	r.eventually("the old token is refused", func() bool { status, _ := r.do("GET", "/api/v1/status", ""); return status == http.StatusUnauthorized })
	r.token = "another-token-that-is-new"
	r.status()
}

// A credential that was asked for at the start is asked for until a restart, whatever a reload says (REQ-O4); the same goes for the members of a
// fleet whose primary would be another one.
func TestWhatNeedsARestartStaysInForce(t *testing.T) {
	_, lines := nodes(t, 3)
	file := configured(t, "auth: {bearer_token_file: token}\n"+fleetText(lines[:3]))
	write(t, filepath.Join(filepath.Dir(file), "token"), "the-first-token-of-all\n")
	r := start(t, file)
	r.token = "the-first-token-of-all"
	got := r.reload("listen: 127.0.0.1:0\nsettings: {trip: 800ms}\n" + fleetText([]string{"{name: other, dsn: 'host=127.0.0.1 port=1'}", lines[1], lines[3]}))
	if !got.OK || !slices.Equal(got.NeedsRestart, []string{"primary", "replicas", "auth.bearer_token"}) {
		t.Errorf("got %+v", got)
	}
	if s := r.status(); s.Settings.TripMS != 800 || s.state("r2") == "absent" || s.state("r3") != "absent" {
		t.Errorf("got %+v, want the members before, with the new settings", s)
	}
	r.token = ""
	if status, _ := r.do("GET", "/api/v1/status", ""); status != http.StatusUnauthorized {
		t.Errorf("without a token: got %d, want 401", status)
	}
	r.token = "the-first-token-of-all"
	got = r.reload("listen: 127.0.0.1:0\nauth: {bearer_token_file: token}\n" + fleetText([]string{lines[0], lines[1], lines[3]}))
	if s := r.status(); !got.OK || len(got.NeedsRestart) > 0 || s.state("r2") != "absent" || s.state("r3") == "absent" {
		t.Errorf("got %+v, %+v, want r3 in the place of r2", got, s.Replicas)
	}
}

// A port in use, and a store in use, are told with what to do.
func TestCannotStart(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	file := filepath.Join(t.TempDir(), "c.yaml")
	write(t, file, "listen: "+taken.Addr().String()+"\nconsumers: [{name: a, url: 'http://a/'}]\n")
	r := begin(t, file, nil)
	if err := <-r.ended; err == nil || !strings.Contains(err.Error(), file+":1:9: listen is "+taken.Addr().String()+", which is in use: end ") {
		t.Errorf("got %v, want the port that is in use", err)
	} else {
		r.ended <- err
	}

	store := filepath.Join(t.TempDir(), "letters")
	text := "dead_letters: {path: " + store + "}\nconsumers: [{name: a, url: 'http://a/'}]\n"
	first := start(t, configured(t, text))
	second := begin(t, configured(t, text), nil)
	err = <-second.ended
	second.ended <- err
	if err == nil || !strings.Contains(err.Error(), ":2:15: dead_letters cannot be opened: ") || !strings.Contains(err.Error(), store) {
		t.Errorf("got %v, want the store that is in use", err)
	}
	t.Log(err)
	_ = first.stop()
}

// Until the dead letters are open there are consumers nevertheless: what is emitted is to be sent again (REQ-E12).
func TestEmitsBeforeTheStart(t *testing.T) {
	file := configured(t, "consumers: [{name: a, url: 'http://a/'}]\n")
	c, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	d, err := newDaemon(Options{File: file, Config: c, Log: &text{}, Getenv: func(string) string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	if d.server, err = d.newServer(); err != nil {
		t.Fatal(err)
	}
	ln, err := d.server.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d.owned.Go(func() { _ = d.server.Serve(ln) })
	defer func() {
		d.closeServer()
		d.owned.Wait()
	}()
	r := &running{t: t, url: "http://" + ln.Addr().String(), client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}}
	if status, answer := r.emit("1"); status != http.StatusServiceUnavailable {
		t.Errorf("got %d %s, want 503", status, answer)
	}
}

// HAProxy's agent check is answered at its own address.
func TestAgentCheck(t *testing.T) {
	_, lines := nodes(t, 1)
	at := free(t)
	start(t, configured(t, "agent_listen: "+at+"\n"+fleetText(lines)))
	conn, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("r1\n")); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil || string(answer) != "up 100%\n" {
		t.Errorf("got %q, %v, want up 100%%", answer, err)
	}
}

// Before each node was sampled or failed the process is not ready; livez answers from the start on.
func TestReadyz(t *testing.T) {
	fleet, lines := nodes(t, 1)
	if err := fleet.Freeze("r1"); err != nil {
		t.Fatal(err)
	}
	port := free(t)
	file := filepath.Join(t.TempDir(), "c.yaml")
	write(t, file, "listen: "+port+"\nshutdown: {delay: 500ms}\n"+fleetText(lines))
	r := begin(t, file, nil)
	r.url = "http://" + port
	r.eventually("livez", func() bool { status, _ := r.do("GET", "/livez", ""); return status == http.StatusOK })
	if status, answer := r.do("GET", "/readyz", ""); status != http.StatusServiceUnavailable || !strings.HasPrefix(answer, "starting: ") {
		t.Errorf("while r1 has not answered: got %d %s, want 503", status, answer)
	}
	r.ready()
	if status, answer := r.do("GET", "/readyz", ""); status != http.StatusOK {
		t.Errorf("r1 has failed to answer: got %d %s, want 200", status, answer)
	}
	r.end()
	r.eventually("not ready while it stops", func() bool {
		status, answer := r.do("GET", "/readyz", "")
		return status == http.StatusServiceUnavailable && strings.HasPrefix(answer, "stopping")
	})
	if err := r.stop(); err != nil {
		t.Error(err)
	}
}

// A stop waits for a delivery under way, refuses emits meanwhile, and loses nothing of what it had taken.
func TestStopDrains(t *testing.T) {
	store := filepath.Join(t.TempDir(), "letters")
	k := newTaker(t)
	k.become(true)
	text := "dead_letters: {path: " + store + "}\nconsumers: [{name: a, url: '" + k.URL + "'}]\n"
	r := start(t, configured(t, text))
	if got := r.status().Consumers[0].Depth.Durability; got != "synced" {
		t.Errorf("got dead letters that are %q, want synced", got)
	}
	for i := range 20 {
		if status, answer := r.emit(strconv.Itoa(i)); status != http.StatusAccepted {
			t.Fatal(status, answer)
		}
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	k.become(false)
	r = start(t, configured(t, text))
	r.eventually("all are delivered", func() bool {
		for i := range 20 {
			if k.count(strconv.Itoa(i)) == 0 {
				return false
			}
		}
		return true
	})
}

// free is an address that nobody listens on.
func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// The pulse tells of the sampler that says nothing, and forgets nodes that are gone.
func TestPulse(t *testing.T) {
	now := time.Now()
	p := newPulse()
	nodes := []string{"a", "b"}
	if got := p.silent(now, nodes, time.Minute); got != "" {
		t.Errorf("at the start: got %q, want none", got)
	}
	p.heard(sampleOf("a", now.Add(50*time.Second)))
	if got := p.silent(now.Add(61*time.Second), nodes, time.Minute); got != "b" {
		t.Errorf("after 61 s: got %q, want b", got)
	}
	if got := p.silent(now.Add(61*time.Second), []string{"a"}, time.Minute); got != "" {
		t.Errorf("b was removed: got %q, want none", got)
	}
	if got := p.silent(now.Add(200*time.Second), nodes, time.Minute); got != "a" {
		t.Errorf("b is new: got %q, want a", got)
	}
}

// A primary that is down at the start tells its version once it is back.
func TestFleetIsLearned(t *testing.T) {
	fleet, lines := nodes(t, 1)
	primary := fleet.Nodes()[0].Name
	if err := fleet.Kill(primary); err != nil {
		t.Fatal(err)
	}
	r := start(t, configured(t, fleetText(lines)))
	if got := r.status().Fleet; got != "postgres" {
		t.Errorf("while the primary is down: got %q, want postgres", got)
	}
	if err := fleet.Restart(t.Context(), primary); err != nil {
		t.Fatal(err)
	}
	r.eventually("the version is known", func() bool { return strings.HasPrefix(r.status().Fleet, "postgres ") })
}
