package main

import "math"

// An aim is a figure of the run that is to be at most so much.
type aim struct {
	id     string
	title  string
	atMost float64
	value  func(results) float64 // NaN: not measured
}

// results are the figures by name.
type results map[string]figure

func resultsOf(list []figure) results {
	r := results{}
	for _, f := range list {
		r[f.name()] = f
	}
	return r
}

func aims() []aim {
	return []aim{
		ratio("closed_allow_done_over_floor", "closed, Allow + Done over the floor", 2, "closed.breakwater_allow_done", "closed.floor"),
		ratio("closed_do_over_floor", "closed, Do over the floor", 3, "closed.breakwater_do", "closed.floor"),
		ratio("closed_do_over_gobreaker_execute", "closed, Do over gobreaker's Execute", 0.12, "closed.breakwater_do", "closed.gobreaker_execute"),
		ratio("closed_allow_done_over_gobreaker_two_step", "closed, Allow + Done over gobreaker's Allow + done", 0.12, "closed.breakwater_allow_done", "closed.gobreaker_two_step"),
		ratio("closed_do_over_failsafe_executor", "closed, Do over failsafe-go's executor", 0.06, "closed.breakwater_do", "closed.failsafe_executor"),
		ratio("latency_allow_done_over_floor", "latency rules, Allow + Done over their floor", 1.3, "latency.breakwater_allow_done", "latency.floor"),
		ratio("open_allow_over_gobreaker_two_step", "open, Allow over gobreaker's Allow", 0.15, "open.breakwater_allow", "open.gobreaker_two_step"),
		ratio("open_do_over_gobreaker_execute", "open, Do over gobreaker's Execute", 0.15, "open.breakwater_do", "open.gobreaker_execute"),
		ratio("bucket_allow_over_rate_allow", "limit.Bucket's Allow over x/time/rate's", 0.5, "bucket.breakwater_allow", "bucket.rate_allow"),
		{"allocations", "allocations a call, the most of all of ours", 0, mostAllocations},
		{"parallel_over_control", "Allow + Done, two processors over one, relative to the control", 1.3, parallelOverControl},
	}
}

// ratio is an aim for one figure over another, on one processor.
func ratio(id, title string, atMost float64, over, under string) aim {
	return aim{id, title, atMost, func(r results) float64 { return quotient(r[over].one, r[under].one) }}
}

// quotient is NaN where either was not measured.
func quotient(over, under float64) float64 {
	if over == 0 || under == 0 {
		return math.NaN()
	}
	return over / under
}

// mostAllocations leaves out what the runtime itself allocates now and then: less than one in a hundred calls.
func mostAllocations(r results) float64 {
	most := math.NaN()
	for _, f := range r {
		if f.ours {
			most = max(rounded(f.allocs), orZero(most))
		}
	}
	return most
}

func parallelOverControl(r results) float64 {
	ours, control := r["closed.breakwater_allow_done"], r["closed.control"]
	return quotient(quotient(ours.two, ours.one), quotient(control.two, control.one))
}

func orZero(x float64) float64 {
	if math.IsNaN(x) {
		return 0
	}
	return x
}

func rounded(x float64) float64 { return math.Round(x*100) / 100 }

// A verdict is what became of an aim.
type verdict string

const (
	met         verdict = "met"
	missed      verdict = "missed"
	notMeasured verdict = "not measured"
)

func (a aim) judge(value float64) verdict {
	switch {
	case math.IsNaN(value):
		return notMeasured
	case value <= a.atMost:
		return met
	default:
		return missed
	}
}
