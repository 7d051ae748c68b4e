package daemon

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// What may be shown nowhere, by where it stands in the configuration.
var known = map[string]string{
	"password": "pw-5Z2yQ0fTnode", "sampler": "pw-8Kd1wVsampler", "token": "tok-3Jq8sXadmin-interface", "bearer": "tok-9Lm4zRof-the-consumer",
	"path": "hook-7Wb6tYcPath-of-a-webhook", "query": "key-1Hn5pUiQuery", "next": "pw-2Gv9rEoReload", "payload": "card-4111111111111111",
}

// REQ-O4: no secret in any output. A consumer that sends back all it got, a dead node, bad requests, a bad file: what the log, the metrics, the
// status, the events, the errors, the dead letters and the page say of them is searched for each secret of the configuration.
func TestNoSecretIsShown(t *testing.T) {
	fleet, lines := nodes(t, 2)
	for i, line := range lines {
		lines[i] = strings.Replace(line, "@127.0.0.1", ":"+known["password"]+"@127.0.0.1", 1)
		if !strings.Contains(lines[i], known["password"]) {
			t.Fatalf("no password in %s", lines[i])
		}
	}
	lines[2] = strings.Replace(lines[2], "}", `, sample_dsn: "host=127.0.0.1 port=1 password=`+known["sampler"]+`"}`, 1)
	echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprintf(w, "%s %s %s", r.Header.Get("Authorization"), r.URL, r.URL.Query())
	}))
	t.Cleanup(echo.Close)
	file := configured(t, fleetText(lines)+"auth: {bearer_token_file: token, open: [replica]}\nlog: {level: debug}\n"+
		"dead_letters: {letters: 100}\nconsumers:\n- {name: a, url: '"+echo.URL+"/"+known["path"]+"?key="+known["query"]+"', bearer_token_file: bearer}\n")
	write(t, filepath.Join(filepath.Dir(file), "token"), known["token"]+"\n")
	write(t, filepath.Join(filepath.Dir(file), "bearer"), known["bearer"]+"\n")
	r := start(t, file)
	r.token = known["token"]
	if r.url == "" {
		t.Fatal("not ready")
	}
	r.log.waitFor(t, "ready", 1)
	if err := fleet.Kill("r1"); err != nil {
		t.Fatal(err)
	}
	var shown strings.Builder
	ask := func(method, path, body string, header ...string) {
		status, answer := r.do(method, path, body, header...)
		fmt.Fprintf(&shown, "%d\n%s\n", status, answer)
		if status >= http.StatusInternalServerError {
			t.Errorf("%s %s: got %d %s, want no 5xx", method, path, status, answer)
		}
	}
	events := stream(t, r)
	openToAll(t, r, "r1", fleet.Nodes()[1].DSN)
	openToAll(t, r, "r2", "host=127.0.0.1 port=1 user=nobody dbname=nothing")
	for range 3 {
		event := `{"specversion":"1.0","id":"1","source":"test","type":"order.paid","data":"` + known["payload"] + `"}`
		if status, answer := r.do("POST", "/api/v1/emit", event, "Content-Type", "application/cloudevents+json"); status != http.StatusAccepted {
			t.Fatal(status, answer)
		}
	}
	r.reload("listen: 127.0.0.1:0\nprimary: {dsn: \"host=h password=" + known["next"] + " port=x\"}\nconsumers:\n- {name: a, url: 'http://u:" + known["next"] + "@h/'}\n")
	ask("GET", "/api/v1/status", "")
	ask("GET", "/api/v1/history", "")
	ask("GET", "/api/v1/export", "")
	ask("GET", "/api/v1/dead-letters?consumer=a", "")
	ask("GET", "/metrics", "")
	ask("GET", "/", "")
	ask("GET", "/nowhere/"+known["password"], "")
	ask("POST", "/api/v1/breakers/"+known["password"], `{"state":"open"}`)
	ask("POST", "/api/v1/breakers/r1", `{"state":"forced_open","reason":"the password is `+known["password"]+`"}`)
	ask("PATCH", "/api/v1/breakers/r1", `{"trip_ms":"`+known["password"]+`"}`)
	r.token = known["token"] + "x"
	ask("GET", "/api/v1/status", "")
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	shown.WriteString(events.String())
	shown.WriteString(r.log.String())
	shown.WriteString(r.out.String())
	all := shown.String()
	if !strings.Contains(all, "forced_open") || !strings.Contains(all, "answered 500") && !strings.Contains(all, "500") {
		t.Error("what was done is not among what is searched")
	}
	for what, secret := range known {
		for _, text := range []string{secret, secret[3:]} {
			if at := strings.Index(all, text); at >= 0 {
				t.Errorf("%s is shown: …%s…", what, all[max(0, at-300):min(len(all), at+60)])
				break
			}
		}
	}
}

// openToAll looks at what is told of a replica that is down without a credential: what kind of failure it is, and neither user, database, host nor port. Who has the
// credential is told them.
func openToAll(t *testing.T, r *running, name, dsn string) {
	t.Helper()
	token := r.token
	r.token = ""
	var said string
	r.eventually(name+" is known to be down", func() bool {
		_, said = r.do("GET", "/replica/"+name, "")
		return strings.Contains(said, "unreachable: connection refused") // at first it is lost
	})
	r.token = token
	c, err := pgconn.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	for _, hidden := range []string{c.User, c.Database, c.Host, strconv.Itoa(int(c.Port))} {
		if strings.Contains(said, hidden) {
			t.Errorf("%q is shown without a credential: %q", hidden, said)
		}
	}
	if _, status := r.do("GET", "/api/v1/status", ""); !strings.Contains(status, c.Host) {
		t.Errorf("status: no host in %s", status)
	}
}

// stream reads the stream of events until the daemon ends it.
func stream(t *testing.T, r *running) *text {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url+"/api/v1/events?after=0", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+r.token)
	resp, err := http.DefaultClient.Do(req) //nolint:bodyclose // the goroutine closes it
	if err != nil {
		t.Fatal(err)
	}
	all, done := &text{}, make(chan struct{})
	go func() {
		defer close(done)
		defer resp.Body.Close()
		_, _ = io.Copy(all, bufio.NewReader(resp.Body)) // until it is ended
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return all
}
