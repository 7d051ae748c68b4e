package prombreakwater

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// A Reload is a prometheus.Collector of how readings of a configuration file ended, for a program that reads one while running.
// Make it with [NewReload].
type Reload struct {
	last     prometheus.Gauge
	at       prometheus.Gauge
	readings *prometheus.CounterVec
}

var _ prometheus.Collector = (*Reload)(nil)

// NewReload makes one for a program that has just read its file: the reading was good.
func NewReload() *Reload {
	r := &Reload{
		last: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "breakwater_config_last_reload_successful",
			Help: "1 if the newest reading of the configuration file was good, 0 if it was not and the settings before it stay in force.",
		}),
		at: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "breakwater_config_last_reload_success_timestamp_seconds",
			Help: "When the settings in force were read, as Unix time.",
		}),
		readings: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "breakwater_config_reloads_total",
			Help: "Readings of the configuration file after the first one, by how they ended.",
		}, []string{"outcome"}),
	}
	r.readings.WithLabelValues("success")
	r.readings.WithLabelValues("failure")
	r.last.Set(1)
	r.at.SetToCurrentTime()
	return r
}

// Done tells how a reading ended, nil: well. The error is not kept.
func (r *Reload) Done(at time.Time, err error) {
	r.last.Set(number(err == nil))
	if err != nil {
		r.readings.WithLabelValues("failure").Inc()
		return
	}
	r.readings.WithLabelValues("success").Inc()
	r.at.Set(float64(at.UnixMilli()) / 1000)
}

// Describe tells the families.
func (r *Reload) Describe(out chan<- *prometheus.Desc) { prometheus.DescribeByCollect(r, out) }

// Collect tells the samples.
func (r *Reload) Collect(out chan<- prometheus.Metric) {
	r.last.Collect(out)
	r.at.Collect(out)
	r.readings.Collect(out)
}
