package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// samples are taken once a second.
type samples struct {
	memory, heap, goroutines []float64
	end                      *status
	metrics                  map[string]float64
}

func (s *samples) run(ctx context.Context, p *process) {
	for pause(ctx, time.Second) {
		m := p.metrics(ctx)
		if m == nil {
			continue
		}
		s.memory = append(s.memory, p.memory())
		s.heap = append(s.heap, m["go_memstats_heap_alloc_bytes"])
		s.goroutines = append(s.goroutines, m["go_goroutines"])
	}
}

// quarter is the median of one quarter, 0 to 3.
func quarter(values []float64, n int) float64 {
	return median(values[n*len(values)/4 : (n+1)*len(values)/4])
}

// summary is what is printed.
type summary struct {
	Seconds float64  `json:"seconds"`
	Failed  []string `json:"failed_expectations"`

	Emits      int            `json:"emits"`
	Answers    map[string]int `json:"answers"` // by status
	Acked      int            `json:"acknowledged"`
	Lost       int            `json:"lost"`
	Duplicates int            `json:"duplicates"`
	Replayed   uint64         `json:"replayed"`
	EmitP50MS  float64        `json:"emit_p50_ms"`
	EmitP99MS  float64        `json:"emit_p99_ms"`
	EmitMaxMS  float64        `json:"emit_max_ms"`

	Reloads       int `json:"reloads"`
	ReloadsTaken  int `json:"reloads_taken"`
	ReloadsFailed int `json:"reloads_failed"`
	Faults        int `json:"faults"`

	Clients            int     `json:"clients"`
	Transitions        int     `json:"transitions"`
	MissingTransitions int     `json:"missing_transitions"`
	Gaps               int     `json:"gaps"`
	Reconnects         int     `json:"reconnects"`
	TransitionP99MS    float64 `json:"transition_to_client_p99_ms"`
	TransitionMaxMS    float64 `json:"transition_to_client_max_ms"`
	MuteClients        int     `json:"mute_clients"`
	CutOff             int     `json:"cut_off"`

	MemorySecondQuarter     float64 `json:"memory_second_quarter_bytes"`
	MemoryLastQuarter       float64 `json:"memory_last_quarter_bytes"`
	HeapSecondQuarter       float64 `json:"heap_second_quarter_bytes"`
	HeapLastQuarter         float64 `json:"heap_last_quarter_bytes"`
	GoroutinesSecondQuarter float64 `json:"goroutines_second_quarter"`
	GoroutinesLastQuarter   float64 `json:"goroutines_last_quarter"`
}

// What is bound to hold besides the zeros. The bounds on time say that nobody waited for a client that does not read, whose write times out
// after 5 s; they are no measure of speed.
const (
	mayGrow  = 1.05
	slack    = 5 // goroutines
	noWaitMS = 4000
)

func (s *soak) judge() (*summary, error) {
	out := &summary{
		Failed:  []string{},
		Seconds: s.length.Seconds(), Answers: map[string]int{}, Acked: len(s.load.acked), Emits: len(s.load.took), Reloads: s.reloads, Faults: s.faults,
		Clients: len(s.readers), MuteClients: s.mute.opened, CutOff: s.samples.end.Stream.CutOff,
		ReloadsTaken: s.samples.end.Reload.Reloads, ReloadsFailed: s.samples.end.Reload.Failures,
		MemorySecondQuarter: quarter(s.samples.memory, 1), MemoryLastQuarter: quarter(s.samples.memory, 3),
		HeapSecondQuarter: quarter(s.samples.heap, 1), HeapLastQuarter: quarter(s.samples.heap, 3),
		GoroutinesSecondQuarter: quarter(s.samples.goroutines, 1), GoroutinesLastQuarter: quarter(s.samples.goroutines, 3),
	}
	for code, n := range s.load.answers {
		out.Answers[strconv.Itoa(code)] = n
	}
	slices.Sort(s.load.took)
	out.EmitP50MS, out.EmitP99MS, out.EmitMaxMS = quantile(s.load.took, 0.5), quantile(s.load.took, 0.99), quantile(s.load.took, 1)
	s.judgeStream(out)
	if err := s.judgeEmits(out); err != nil {
		return nil, err
	}
	s.expect(out)
	return out, nil
}

// judgeStream compares what each client saw of each breaker with how often its state changed.
func (s *soak) judgeStream(out *summary) {
	generations := map[string]uint64{}
	for _, r := range s.samples.end.Replicas {
		generations[r.Breaker.Scope+"/"+r.Breaker.Name] = r.Breaker.Generation
	}
	for _, c := range s.samples.end.Consumers {
		generations[c.Breaker.Scope+"/"+c.Breaker.Name] = c.Breaker.Generation
	}
	var late []float64
	for _, r := range s.readers {
		out.MissingTransitions += r.holes
		out.Gaps += r.gaps
		out.Reconnects += r.reconnects
		out.Transitions = max(out.Transitions, r.transitions)
		late = append(late, r.late...)
		for name, last := range generations {
			if r.generations[name] < last {
				out.MissingTransitions += int(last - r.generations[name]) //nolint:gosec // a few thousand
			}
		}
	}
	slices.Sort(late)
	out.TransitionP99MS, out.TransitionMaxMS = quantile(late, 0.99), quantile(late, 1)
}

// judgeEmits asks the consumers what they took.
func (s *soak) judgeEmits(out *summary) error {
	for _, name := range names {
		report, err := s.consumers[name].Report(true)
		if err != nil {
			return err
		}
		out.Duplicates += report.Duplicates
		taken := make(map[string]bool, len(report.IDs))
		for _, id := range report.IDs {
			taken[id] = true
		}
		for _, id := range s.load.acked {
			if !taken[id] {
				out.Lost++
			}
		}
	}
	for i := range s.samples.end.Consumers {
		out.Replayed += s.samples.end.Consumers[i].Replayed
	}
	return nil
}

func (s *soak) expect(out *summary) {
	expect := func(holds bool, format string, args ...any) {
		if !holds {
			out.Failed = append(out.Failed, fmt.Sprintf(format, args...))
		}
	}
	expect(out.Lost == 0, "%d triggers are lost", out.Lost)
	expect(out.Emits > int(0.9*float64(s.emits)*s.length.Seconds()), "only %d emits were made", out.Emits)
	expect(out.Acked == out.Emits, "%d of %d emits were not acknowledged", out.Emits-out.Acked, out.Emits)
	expect(out.Replayed > 0 && out.Transitions > 0, "the faults did nothing: %d replayed, %d transitions", out.Replayed, out.Transitions)
	expect(out.MissingTransitions == 0 && out.Gaps == 0, "%d transitions and %d gaps are missing from the streams", out.MissingTransitions, out.Gaps)
	expect(out.CutOff >= out.MuteClients-mutes && out.CutOff > 0, "%d of %d clients that read nothing were cut off", out.CutOff, out.MuteClients)
	expect(out.Reconnects == 0, "%d clients that read were cut off", out.Reconnects)
	expect(out.EmitMaxMS < noWaitMS, "an emit took %.0f ms", out.EmitMaxMS)
	expect(out.TransitionMaxMS < noWaitMS, "a transition took %.0f ms to a client", out.TransitionMaxMS)
	expect(out.ReloadsFailed == 0 && out.ReloadsTaken >= out.Reloads, "of %d reloads %d were taken, %d failed", out.Reloads, out.ReloadsTaken, out.ReloadsFailed)
	expect(out.MemoryLastQuarter <= mayGrow*out.MemorySecondQuarter, "memory grew from %.1f to %.1f MB", out.MemorySecondQuarter/1e6, out.MemoryLastQuarter/1e6)
	expect(out.GoroutinesLastQuarter <= mayGrow*out.GoroutinesSecondQuarter+slack, "goroutines grew from %.0f to %.0f", out.GoroutinesSecondQuarter, out.GoroutinesLastQuarter)
}
