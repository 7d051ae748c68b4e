package prombreakwater

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/emit"
	"github.com/breakwater-go/breakwater/readpath"
	"github.com/breakwater-go/breakwater/replica"
)

// A server is a node that a sampler looks at.
type server struct {
	name    string
	replica bool
	failure atomic.Pointer[string] // looks fail with it; nil: they do not
}

func (s *server) Look(context.Context) (replica.Look, error) {
	if why := s.failure.Load(); why != nil {
		return replica.Look{}, errors.New(*why)
	}
	return replica.Look{SystemID: "7", Instance: s.name, InRecovery: s.replica, Timeline: 1, Position: 0x3000060}, nil
}

func (s *server) Close() {}

func (s *server) node() replica.Node {
	return replica.Node{Name: s.name, Connect: func(context.Context) (replica.Conn, error) { return s, nil }}
}

func newTestSet(t *testing.T, o replica.Observer, replicas ...*server) *replica.Set {
	t.Helper()
	c := replica.Config{Primary: (&server{name: "primary"}).node(), Observer: o}
	for _, s := range replicas {
		c.Replicas = append(c.Replicas, s.node())
	}
	set, err := replica.NewSet(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(set.Close)
	return set
}

// nodes is a readpath.Backend: loads run at once, on a replica while one is eligible.
type nodes struct{ eligible atomic.Bool }

func (n *nodes) WithRead(ctx context.Context, _ replica.Requirement, info *readpath.ReadInfo) context.Context {
	*info = readpath.ReadInfo{Node: "r1", PickedAt: time.Now(), Attempts: 1}
	return ctx
}

func (n *nodes) Eligible(r replica.Requirement) bool { return r.PrimaryOnly || n.eligible.Load() }
func (n *nodes) Failed(error) bool                   { return false }
func (n *nodes) Sampled() bool                       { return true }

func newTestPath(t *testing.T, n *nodes, o readpath.Observer) *readpath.Router {
	t.Helper()
	path, err := readpath.New(readpath.Config{
		Backend: n, Observer: o, Budget: readpath.Budget{Rate: 2, Burst: 4},
		Endpoints: map[string]readpath.Endpoint{"price": {Class: readpath.Critical}, "list": {Class: readpath.Sheddable}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(path.Close)
	return path
}

func readOnce(ctx context.Context, path *readpath.Router, endpoint string) error {
	_, err := readpath.Get(ctx, path, readpath.Call{Endpoint: endpoint}, func(context.Context) (int, error) { return 1, nil })
	return err
}

// A target is a sink that does as it is told.
type target struct{ failure atomic.Pointer[string] }

func (s *target) Deliver(context.Context, emit.Trigger) error {
	if why := s.failure.Load(); why != nil {
		return errors.New(*why)
	}
	return nil
}

func (s *target) consumer(name string) emit.Consumer {
	return emit.Consumer{Name: name, Sink: s, Breaker: breaker.Config{Rules: []breaker.Rule{breaker.ConsecutiveFailures{Count: 2}, breaker.CUSUM{}}}}
}

func newTestRouter(t *testing.T, o emit.Observer, consumers ...emit.Consumer) *emit.Router {
	t.Helper()
	router, err := emit.New(emit.Config{Consumers: consumers, Observer: o})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { router.Close() })
	return router
}

func newTestCollector(t *testing.T, c Config) (*Collector, *prometheus.Registry) {
	t.Helper()
	p, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(p)
	return p, r
}

// A scrape is the text of one, and its series by their text up to the value.
type scrape struct {
	families []*dto.MetricFamily
	text     string
	series   map[string]string
}

func scrapeOf(t *testing.T, r prometheus.Gatherer) scrape {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&b, f); err != nil {
			t.Fatal(err)
		}
	}
	s := scrape{families, b.String(), map[string]string{}}
	for line := range strings.Lines(s.text) {
		if at := strings.LastIndex(line, " "); !strings.HasPrefix(line, "#") && at > 0 {
			s.series[line[:at]] = strings.TrimSpace(line[at:])
		}
	}
	return s
}

func (s scrape) want(t *testing.T, series, want string) {
	t.Helper()
	if got, ok := s.series[series]; !ok || got != want {
		t.Errorf("%s is %q (there: %v), want %s", series, got, ok, want)
	}
}

func (s scrape) wantNone(t *testing.T, part string) {
	t.Helper()
	for series, value := range s.series {
		if strings.Contains(series, part) {
			t.Errorf("%s %s is there, want none with %s", series, value, part)
		}
	}
}
