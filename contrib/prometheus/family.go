package prombreakwater

import (
	"math"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/breakwater-go/breakwater/replica"
)

// A family is all series of one metric name.
type family struct {
	name string
	kind prometheus.ValueType
	desc *prometheus.Desc
}

// A catalogue makes families, and remembers them for Describe.
type catalogue struct{ all []*family }

func (c *catalogue) gauge(name, help string, labels ...string) *family {
	return c.add(prometheus.GaugeValue, name, help, labels)
}

func (c *catalogue) counter(name, help string, labels ...string) *family {
	return c.add(prometheus.CounterValue, name, help, labels)
}

// untyped is for counters whose fixed name does not end in _total: OpenMetrics would rename a counter.
func (c *catalogue) untyped(name, help string, labels ...string) *family {
	return c.add(prometheus.UntypedValue, name, help, labels)
}

// histogram is for [report.histogram], which makes its samples.
func (c *catalogue) histogram(name, help string, labels ...string) *family {
	return c.add(prometheus.UntypedValue, name, help, labels)
}

func (c *catalogue) add(kind prometheus.ValueType, name, help string, labels []string) *family {
	f := &family{name: name, kind: kind, desc: prometheus.NewDesc(name, help, labels, nil)}
	c.all = append(c.all, f)
	return f
}

// A sample is one series at one scrape. Its key tells it from all others.
type sample struct {
	key    string
	metric prometheus.Metric
}

// sample makes one. A nil family is switched off, and makes none.
func (f *family) sample(v float64, labels ...string) (sample, bool) {
	if f == nil {
		return sample{}, false
	}
	m, err := prometheus.NewConstMetric(f.desc, f.kind, v, labels...)
	return sample{f.key(labels), m}, err == nil
}

func (f *family) key(labels []string) string { return f.name + "\xff" + strings.Join(labels, "\xff") }

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// seconds is a duration, or +Inf where there is no bound.
func seconds(d time.Duration) float64 {
	if d == replica.Never {
		return math.Inf(1)
	}
	return d.Seconds()
}
