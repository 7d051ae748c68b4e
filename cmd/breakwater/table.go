package main

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/lab"
	"github.com/breakwater-go/breakwater/replica"
)

// lastEvents is how many events the table shows.
const lastEvents = 10

// table redraws how things stand in place, by a handful of ANSI sequences.
type table struct {
	out      io.Writer
	scenario string
	colour   bool
	events   []string
	drawn    int // lines on the screen
	summary  string
}

func (t *table) line(l lab.Line) {
	if s, ok := l.(lab.Summary); ok {
		t.summary = describe(s)
		return
	}
	if e := describeEvent(l); e != "" {
		t.events = append(t.events, e)
		t.events = t.events[max(0, len(t.events)-lastEvents):]
	}
}

func (t *table) live(l lab.Live) {
	lines := t.render(l)
	var b strings.Builder
	b.WriteString("\x1b[?7l") // long lines are cut, not wrapped
	if t.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", t.drawn)
	}
	for _, s := range lines {
		b.WriteString("\r\x1b[2K" + s + "\n")
	}
	b.WriteString("\x1b[J\x1b[?7h")
	t.drawn = len(lines)
	_, _ = io.WriteString(t.out, b.String())
}

func (t *table) end() {
	if t.summary != "" {
		fmt.Fprintln(t.out, t.summary)
	}
}

func (t *table) render(l lab.Live) []string {
	what := "traffic"
	if t.scenario != "" {
		what = t.scenario
	}
	s := l.Second
	lines := []string{
		fmt.Sprintf("breakwater lab · %s · %s · %.0f s", l.Fleet, what, time.Since(started).Seconds()),
		fmt.Sprintf("%d reads/s · %d errors/s · p50 %s ms · p99 %s ms · %d commits/s · primary: %d reads/s, %d connections",
			s.Reads, s.Errors, number(s.P50), number(s.P99), s.Commits, s.PrimaryReads, l.PrimaryConnections),
		"",
		fmt.Sprintf("%-9s %-14s %-16s %8s %10s %6s  %s", "NODE", "STATE", "STALENESS", "READS/s", "IN FLIGHT", "SHARE", "CONDITION"),
	}
	for i := range l.Stats.Replicas {
		n := &l.Stats.Replicas[i]
		lines = append(lines, t.row(n, s.Nodes[n.Name].Reads))
	}
	p := &l.Stats.Primary
	lines = append(lines,
		fmt.Sprintf("%-9s %-14s %-16s %8d %10d %6s  %v %s", p.Name, "-", "-", s.PrimaryReads, p.InFlight, "", p.Condition, p.Detail),
		"", "last events:")
	return append(lines, t.events...)
}

func (t *table) row(n *replica.NodeStats, reads int) string {
	why := n.Condition.String()
	if n.Detail != "" {
		why += " (" + n.Detail + ")"
	}
	if n.Breaker.State != breaker.Closed {
		why += "; " + n.Breaker.Reason.String()
	}
	if left := n.Breaker.RetryAfter; left > 0 {
		why += fmt.Sprintf("; probed in %.1f s", left.Seconds())
	}
	return fmt.Sprintf("%-9s %s %s %8d %10d %5.0f%%  %s", n.Name, t.state(n.Breaker.State),
		pad(interval(lab.Bound(n.Lo), lab.Bound(n.Hi)), 16), reads, n.InFlight, 100*n.Share, why)
}

// state is a state's word, in a colour besides.
func (t *table) state(s breaker.State) string {
	word := pad(s.String(), 14)
	if !t.colour {
		return word
	}
	colour := "31" // red
	switch s {
	case breaker.Closed, breaker.ForcedClosed, breaker.Disabled:
		colour = "32"
	case breaker.HalfOpen:
		colour = "33"
	default:
	}
	return "\x1b[" + colour + "m" + word + "\x1b[0m"
}

func pad(s string, width int) string {
	return s + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(s)))
}
