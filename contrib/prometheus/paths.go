package prombreakwater

import (
	"slices"

	"github.com/breakwater-go/breakwater/readpath"
)

type pathFamilies struct {
	degraded, mode, withheld, seconds, reads, refused, late, unknown, tokens, inFallback, overBudget, faults *family

	any *family // published
}

func newPathFamilies(k *catalogue, published bool) pathFamilies {
	f := pathFamilies{
		degraded:   k.gauge("breakwater_read_path_degraded", "1 while the replicas are withheld from a class of reads, until all have them back; else 0.", "path"),
		mode:       k.gauge("breakwater_read_path_mode", "Whether the path is in this mode, 0 or 1. Every mode is told.", "path", "mode"),
		withheld:   k.gauge("breakwater_read_path_class_withheld", "1 while the replicas are withheld from this class of reads, else 0.", "path", "class"),
		seconds:    k.counter("breakwater_read_path_degraded_seconds_total", "How long the path has been degraded.", "path"),
		reads:      k.counter("breakwater_reads_total", "Reads that were answered, by class and by where the answer came from.", "path", "class", "source"),
		refused:    k.counter("breakwater_reads_refused_total", "Reads that were refused.", "path", "class"),
		late:       k.counter("breakwater_reads_late_total", "Reads that a late replica answered, flagged so; they are among breakwater_reads_total{source=\"replica\"}.", "path"),
		unknown:    k.counter("breakwater_reads_unknown_endpoint_total", "Reads of endpoints that are not registered.", "path"),
		tokens:     k.gauge("breakwater_primary_budget_tokens", "Fall-back reads that the budget of the primary would let begin at once.", "path"),
		inFallback: k.gauge("breakwater_primary_fallback_in_flight", "Fall-back reads under way on the primary.", "path"),
		overBudget: k.gauge("breakwater_endpoint_over_budget_ratio", "Rate of a critical endpoint over that of the budget, above 1: part of its reads will be refused when the path is degraded. Absent for an endpoint that is not over it.", "path", "endpoint"),
		faults:     k.counter("breakwater_read_path_faults_total", "Panics of the cache and of observers.", "path"),
	}
	if published {
		f.any = k.gauge("read_path_degraded", "1 while a read path is degraded, else 0. breakwater_read_path_degraded says which one.")
	}
	return f
}

func (c *Collector) readPath(r *report, name string, path *readpath.Router) {
	s, f, label := path.Stats(), &c.paths, r.label.name(name)
	r.degraded = s.Mode != readpath.Normal
	r.add(f.degraded, number(r.degraded), label)
	for mode := readpath.Normal; mode <= readpath.Recovering; mode++ {
		r.add(f.mode, number(s.Mode == mode), label, mode.String())
	}
	r.count(f.seconds, path, s.DegradedFor.Seconds(), label)
	r.count(f.late, path, float64(s.Late), label)
	r.count(f.unknown, path, float64(s.Unknown), label)
	r.count(f.faults, path, float64(s.Faults), label)
	r.add(f.tokens, s.BudgetTokens, label)
	r.add(f.inFallback, float64(s.InFallback), label)
	c.readClasses(r, label, path, &s)
	c.readOverBudget(r, name, path)
}

func (c *Collector) readClasses(r *report, label string, path *readpath.Router, s *readpath.Stats) {
	for class := readpath.Critical; class <= readpath.Sheddable; class++ {
		r.add(c.paths.withheld, number(slices.Contains(s.Withheld, class)), label, class.String())
		r.count(c.paths.refused, path, float64(s.Refused[class]), label, class.String())
		for source := readpath.FromReplica; source <= readpath.FromDefault; source++ {
			r.count(c.paths.reads, path, float64(s.Reads[class][source]), label, class.String(), source.String())
		}
	}
}

// readOverBudget tells of registered endpoints only (REQ-D13).
func (c *Collector) readOverBudget(r *report, name string, path *readpath.Router) {
	registered := path.Endpoints()
	for _, o := range c.ledger.over(name) {
		if _, ok := registered[o.Endpoint]; ok {
			r.add(c.paths.overBudget, o.Rate/o.Budget, r.label.name(name), r.label.name(o.Endpoint))
		}
	}
}
