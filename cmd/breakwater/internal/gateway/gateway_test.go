package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/breakwater-go/breakwater/emit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	oneType   = "application/cloudevents+json"
	batchType = "application/cloudevents-batch+json"
)

// event is a structured one with these members besides.
func event(id string, members ...string) string {
	all := append([]string{`"specversion":"1.0"`, `"source":"/shop"`, `"type":"order.paid"`, fmt.Sprintf(`"id":%q`, id)}, members...)
	return "{" + strings.Join(all, ",") + "}"
}

// A taker is a Sink that remembers, and says what fail says.
type taker struct {
	mu   sync.Mutex
	took []emit.Trigger
	fail func(emit.Trigger) error
	wait func() // before it takes
}

func (s *taker) Deliver(_ context.Context, t emit.Trigger) error {
	if s.wait != nil {
		s.wait()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		if err := s.fail(t); err != nil {
			return err
		}
	}
	t.Data = slices.Clone(t.Data)
	s.took = append(s.took, t)
	return nil
}

func (s *taker) triggers() []emit.Trigger {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.took)
}

func newRouter(tb testing.TB, consumers ...emit.Consumer) *emit.Router {
	tb.Helper()
	r, err := emit.New(emit.Config{Consumers: consumers, MaxBytes: 1000})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = r.Close() })
	return r
}

func serve(tb testing.TB, c Config) (url string) {
	tb.Helper()
	url, _ = serveContexts(tb, c)
	return url
}

// serveContexts hands out the context of each request besides.
func serveContexts(tb testing.TB, c Config) (url string, contexts <-chan context.Context) {
	tb.Helper()
	g, err := New(c)
	if err != nil {
		tb.Fatal(err)
	}
	all := make(chan context.Context, 1000)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		all <- req.Context()
		g.ServeHTTP(w, req)
	}))
	tb.Cleanup(server.Close)
	return server.URL, all
}

// of is a Config over one Router.
func of(r *emit.Router) Config { return Config{Router: func() *emit.Router { return r }} }

// A reply is an answer, of a batch or not, with its headers.
type reply struct {
	status int
	header http.Header
	text   string
	answer
	batch batchAnswer
}

func post(tb testing.TB, url, media, body string, header ...string) reply {
	tb.Helper()
	req, err := http.NewRequestWithContext(tb.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		tb.Fatal(err)
	}
	req.Header.Set("Content-Type", media)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return do(tb, req)
}

func do(tb testing.TB, req *http.Request) reply {
	tb.Helper()
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		tb.Fatal(err)
	}
	r := reply{status: resp.StatusCode, header: resp.Header, text: string(body)}
	if err := errors.Join(json.Unmarshal(body, &r.answer), json.Unmarshal(body, &r.batch)); err != nil {
		tb.Fatalf("got %.200s: %v", body, err)
	}
	return r
}

// What comes in any mode is the same trigger.
func TestModes(t *testing.T) {
	sink := &taker{}
	url := serve(t, of(newRouter(t, emit.Consumer{Name: "billing", Sink: sink})))
	members := []string{`"time":"2026-01-02T03:04:05Z"`, `"subject":"é 1"`, `"partitionkey":"c7"`, `"priority":"compliance"`, `"tenant":"a"`, `"data":{"sum": 1}`}
	post(t, url, oneType, event("1", members...))
	post(t, url, batchType, "["+event("1", members...)+"]")
	post(t, url, "application/json", `{"sum": 1}`, "ce-specversion", "1.0", "ce-id", "1", "ce-source", "/shop", "ce-type", "order.paid", "ce-time",
		"2026-01-02T03:04:05Z", "ce-subject", "%C3%A9%201", "ce-partitionkey", "c7", "ce-priority", "compliance", "ce-tenant", "a")
	want := emit.Trigger{
		ID: "1", Source: "/shop", Type: "order.paid", Subject: "é 1", Key: "c7", Priority: "compliance", ContentType: "application/json",
		Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Data: []byte(`{"sum": 1}`), Attributes: map[string]string{"tenant": "a"},
	}
	got := sink.triggers()
	if len(got) != 3 {
		t.Fatalf("got %d triggers, want 3: the same id twice is two emits", len(got))
	}
	for i := range got {
		if !reflect.DeepEqual(got[i], want) {
			t.Errorf("got  %+v\nwant %+v", got[i], want)
		}
	}
}

// An empty priority is none, and no attribute.
func TestEmptyPriority(t *testing.T) {
	sink := &taker{}
	url := serve(t, of(newRouter(t, emit.Consumer{Name: "billing", Sink: sink})))
	post(t, url, oneType, event("1", `"priority":""`))
	if got := sink.triggers(); len(got) != 1 || got[0].Priority != "" || len(got[0].Attributes) != 0 {
		t.Errorf("got %+v", got)
	}
}

// What is accepted is answered by consumer.
func TestAccepted(t *testing.T) {
	down := func(emit.Trigger) error { return errors.New("down, password secret") }
	url := serve(t, of(newRouter(t, emit.Consumer{Name: "billing", Sink: &taker{}}, emit.Consumer{Name: "mail", Sink: &taker{fail: down}})))
	got := post(t, url, oneType, event("7"))
	want := answer{Status: 202, ID: "7", Consumers: []consumer{
		{Consumer: "billing", Outcome: emit.Delivered}, {Consumer: "mail", Outcome: emit.Stored, Reason: emit.ReasonFailed},
	}}
	if got.status != 202 || fmt.Sprint(got.answer) != fmt.Sprint(want) {
		t.Errorf("got %d %s, want %+v", got.status, got.text, want)
	}
	for _, ask := range []struct{ url, header string }{{url + "?handover=1", ""}, {url, "true"}} {
		got := post(t, ask.url, oneType, event("8"), "Breakwater-Handover", ask.header)
		if got.status != 202 || !got.Handover || got.Consumers[0].Outcome != emit.Stored {
			t.Errorf("handed over: got %d %s", got.status, got.text)
		}
	}
}

func (o *consumer) UnmarshalJSON(b []byte) error {
	var c struct {
		Consumer, Outcome, Reason, Error string
	}
	if err := json.Unmarshal(b, &c); err != nil {
		return err
	}
	*o = consumer{Consumer: c.Consumer, Reason: emit.Reason(c.Reason), Error: c.Error}
	for _, known := range []emit.Outcome{emit.Delivered, emit.Stored, emit.Shed, emit.Refused} {
		if known.String() == c.Outcome {
			o.Outcome = known
		}
	}
	return nil
}

// What cannot be taken is told with every fault: the attribute, its value and what mends it.
func TestBadEvents(t *testing.T) {
	url := serve(t, of(newRouter(t, emit.Consumer{Name: "billing", Sink: &taker{}, Types: []string{"order.paid"}})))
	large := `"data":"` + strings.Repeat("x", 1001) + `"`
	for name, tc := range map[string]struct {
		media, body string
		header      []string
		status      int
		fields      []string // field=value
	}{
		"three faults":      {oneType, `{"specversion":"0.3","source":"/","type":"t","time":"noon"}`, nil, 400, []string{"id=", "specversion=0.3", "time=noon"}},
		"not to be sent on": {oneType, event("1", `"subject":"a\u0001"`, `"tENANT":"a"`, `"datacontenttype":";"`), nil, 400, []string{"datacontenttype=;", "subject=a\u0001", "tENANT=\"a\""}},
		"control character": {oneType, event("1", `"subject":"a\u0001"`, `"datacontenttype":";"`), nil, 400, []string{"datacontenttype=;", "subject=a\u0001"}},
		"priority":          {oneType, event("1", `"priority":"urgent"`), nil, 400, []string{"priority=urgent"}},
		"handover":          {oneType, event("1"), []string{"Breakwater-Handover", "please"}, 400, nil},
		"no JSON":           {oneType, "{", nil, 400, []string{"="}},
		"no list":           {batchType, "{}", nil, 400, []string{"="}},
		"nobody takes it":   {oneType, strings.Replace(event("1"), "order.paid", "order.lost", 1), nil, 422, []string{"type=order.lost"}},
		"large data":        {oneType, event("1", large), nil, 413, nil},
		"large body":        {oneType, event("1", `"data":"`+strings.Repeat("x", 2<<20)+`"`), nil, 413, nil},
		"large batch":       {batchType, "[" + strings.Repeat("{},", 1000) + "{}]", nil, 413, nil},
		"plain":             {"application/json", "{}", nil, 415, nil},
		"avro":              {"application/cloudevents+avro", "{}", nil, 415, nil},
		"latin 1":           {oneType + "; charset=latin1", event("1"), nil, 415, nil},
		"compressed":        {oneType, event("1"), []string{"Content-Encoding", "gzip"}, 415, nil},
	} {
		got := post(t, url, tc.media, tc.body, tc.header...)
		var fields []string
		for _, f := range got.Fields {
			fields = append(fields, f.Field+"="+f.Value)
			if f.Mend == "" || f.Fault == "" {
				t.Errorf("%s: %+v says too little", name, f)
			}
		}
		slices.Sort(fields)
		if got.status != tc.status || got.Status != tc.status || got.Error == "" || !slices.Equal(fields, tc.fields) {
			t.Errorf("%s: got %d %s, want %d %q", name, got.status, got.text, tc.status, tc.fields)
		}
	}
}

// A priority that is none is told with those that there are.
func TestPriorityIsToldWithThoseThereAre(t *testing.T) {
	url := serve(t, of(newRouter(t, emit.Consumer{Name: "billing", Sink: &taker{}})))
	if got := post(t, url, oneType, event("1", `"priority":"urgent"`)); !strings.Contains(got.text, "give one of compliance, normal, idle-ping") {
		t.Errorf("got %s", got.text)
	}
}

// Consumers that are configured and not there yet are no reason to give an event up (REQ-E12).
func TestNotStartedYet(t *testing.T) {
	url := serve(t, Config{Router: func() *emit.Router { return nil }, Consumers: true})
	if got := post(t, url, oneType, event("1")); got.status != 503 || got.header.Get("Retry-After") == "" {
		t.Errorf("got %d, Retry-After %q, want 503 and when to come again", got.status, got.header.Get("Retry-After"))
	}
}

func TestNobodyOrNoPost(t *testing.T) {
	url := serve(t, Config{Router: func() *emit.Router { return nil }})
	if got := post(t, url, oneType, event("1")); got.status != 404 || !strings.Contains(got.text, "no consumers are configured") {
		t.Errorf("got %d %s", got.status, got.text)
	}
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if got := do(t, req); got.status != 405 || got.header.Get("Allow") != "POST" {
		t.Errorf("GET: got %d %v", got.status, got.header)
	}
}

// full is a consumer that is down, with room for one letter.
func full(t *testing.T) *emit.Router {
	t.Helper()
	ring, err := emit.NewRing(emit.RingConfig{Letters: 1, Bytes: 4096, Reserved: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ring.Close() })
	down := func(emit.Trigger) error { return errors.New("down") }
	return newRouter(t, emit.Consumer{Name: "mail", Sink: &taker{fail: down}, DeadLetters: ring})
}

// The intake knows the priorities (REQ-E4, REQ-E12): what is shed is told by 429, back pressure and the end by 503, each with Retry-After.
func TestComeAgain(t *testing.T) {
	router := full(t)
	url := serve(t, of(router))
	for _, step := range []struct {
		priority string
		status   int
		outcome  emit.Outcome
		text     string
	}{
		{"idle-ping", 202, emit.Stored, ""},
		{"idle-ping", 429, emit.Shed, "dead letters are full"},
		{"compliance", 202, emit.Stored, ""}, // it takes the other one's room
		{"normal", 429, emit.Shed, "dead letters are full"},
		{"compliance", 503, emit.Refused, "dead letters take no more"},
	} {
		got := post(t, url, oneType, event("1", `"priority":"`+step.priority+`"`))
		if got.status != step.status || got.Consumers[0].Outcome != step.outcome || !strings.Contains(got.text, step.text) {
			t.Errorf("%+v: got %d %s", step, got.status, got.text)
		}
		comesAgain(t, got, step.status != 202)
	}
	_ = router.Close()
	got := post(t, url, oneType, event("1"))
	if got.status != 503 || !strings.Contains(got.text, "this process ends") {
		t.Errorf("at the end: got %d %s", got.status, got.text)
	}
	comesAgain(t, got, true)
}

func comesAgain(t *testing.T, r reply, want bool) {
	t.Helper()
	text := r.header.Get("Retry-After")
	if seconds, err := strconv.Atoi(text); want != (text != "") || want && (err != nil || seconds < 1 || seconds > 3) {
		t.Errorf("status %d: got Retry-After %q", r.status, text)
	}
}

// A batch answers for each event in its place; as a whole it is accepted only if every event is, else its status is what its sender has to do first.
func TestBatch(t *testing.T) {
	ok, bad, lost := event("1"), event("2", `"time":"noon"`), strings.Replace(event("3"), "order.paid", "order.lost", 1)
	shed := event("4", `"type":"mail"`, `"priority":"idle-ping"`)
	shed = strings.Replace(shed, `"type":"order.paid",`, "", 1)
	down := func(emit.Trigger) error { return errors.New("down") }
	ring, _ := emit.NewRing(emit.RingConfig{Letters: 1, Bytes: 4096, Reserved: -1})
	router := newRouter(t, emit.Consumer{Name: "billing", Sink: &taker{}, Types: []string{"order.paid"}},
		emit.Consumer{Name: "mail", Sink: &taker{fail: down}, Types: []string{"mail"}, DeadLetters: ring})
	url := serve(t, of(router))
	post(t, url, oneType, strings.Replace(shed, "idle-ping", "compliance", 1))
	for name, tc := range map[string]struct {
		events []string
		status int
		each   []int
	}{
		"empty":      {nil, 202, nil},
		"good":       {[]string{ok, ok}, 202, []int{202, 202}},
		"one bad":    {[]string{ok, bad, ok}, 400, []int{202, 400, 202}},
		"not wanted": {[]string{bad, lost, ok}, 422, []int{400, 422, 202}},
		"shed":       {[]string{bad, shed, lost}, 429, []int{400, 429, 422}},
		"no event":   {[]string{"7", ok}, 400, []int{400, 202}},
	} {
		got := post(t, url, batchType, "["+strings.Join(tc.events, ",")+"]")
		var each []int
		accepted := 0
		for _, a := range got.batch.Events {
			each = append(each, a.Status)
			if a.Status == 202 {
				accepted++
			}
		}
		if got.status != tc.status || !slices.Equal(each, tc.each) || got.batch.Accepted != accepted {
			t.Errorf("%s: got %d %v, want %d %v: %s", name, got.status, each, tc.status, tc.each, got.text)
		}
		comesAgain(t, got, tc.status == 429)
	}
	_ = router.Close()
	if got := post(t, url, batchType, "["+ok+","+bad+"]"); got.status != 503 || got.batch.Events[0].Status != 503 || got.batch.Events[1].Status != 400 {
		t.Errorf("at the end: got %d %s", got.status, got.text)
	}
}

// The events of one key are emitted in their order, whatever goes on beside them (REQ-E6).
func TestBatchKeepsTheOrderOfAKey(t *testing.T) {
	sink := &taker{wait: func() { <-time.After(rand.N(time.Millisecond)) }}
	url := serve(t, of(newRouter(t, emit.Consumer{Name: "billing", Sink: sink, Timeout: 5 * time.Second})))
	var events []string
	for i := range 300 {
		events = append(events, event(strconv.Itoa(i), fmt.Sprintf(`"partitionkey":"k%d"`, i%5)))
	}
	if got := post(t, url, batchType, "["+strings.Join(events, ",")+"]"); got.status != 202 || got.batch.Accepted != 300 {
		t.Fatalf("got %d %s", got.status, got.text)
	}
	newest := map[string]int{}
	for _, tr := range sink.triggers() {
		n, _ := strconv.Atoi(tr.ID)
		if n < newest[tr.Key] {
			t.Errorf("key %s: %d after %d", tr.Key, n, newest[tr.Key])
		}
		newest[tr.Key] = n
	}
	if len(newest) != 5 {
		t.Errorf("got the keys %v", newest)
	}
}

// Every fault of a Config is told at once.
func TestConfig(t *testing.T) {
	_, err := New(Config{MaxBody: -1, MaxBatchBody: -2, MaxBatch: -1, Memory: -3, ReadTimeout: -1})
	for _, field := range []string{"Router is nil", "MaxBody is -1", "MaxBatchBody is -2", "MaxBatch is -1", "Memory is -3", "ReadTimeout is -1ns"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("got %v, want %s", err, field)
		}
	}
}
