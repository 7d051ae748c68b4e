package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/emitlab"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/lab"
	"github.com/breakwater-go/breakwater/readpath"
	"github.com/breakwater-go/breakwater/replica"
)

// keptEvents is how many events the table remembers; it shows what the terminal has room for.
const keptEvents = 50

// table redraws how things stand in place, by a handful of ANSI sequences.
type table struct {
	out      io.Writer
	scenario string
	size     func() (width, height int)
	colour   bool
	events   []string
	opened   map[string]string // by node: why it was last opened
	drawn    int               // lines on the screen
	width    int               // of the terminal, at the last drawing
	summary  string
}

func newTable(out io.Writer, scenario string, size func() (width, height int)) *table {
	return &table{out: out, scenario: scenario, size: size, colour: os.Getenv("NO_COLOR") == "", opened: map[string]string{}}
}

func (t *table) line(l lab.Line) {
	switch l := l.(type) {
	case lab.Summary:
		t.summary = describe(l)
		return
	case emitlab.Summary:
		t.summary += describe(l) + "\n"
		return
	case emitlab.TransitionLine:
		if l.From == breaker.Closed && l.To == breaker.Open { // what came after is that its probes failed
			t.opened[l.Consumer] = l.Reason
		}
	case lab.TransitionLine:
		if l.To == breaker.Open {
			t.opened[l.Node] = l.Reason
		}
	}
	if e := describeEvent(l); e != "" {
		t.events = append(t.events, e)
		t.events = t.events[max(0, len(t.events)-keptEvents):]
	}
}

// live draws over what it drew last. The last row of the terminal stays free for the cursor, so that
// nothing scrolls.
func (t *table) live(l lab.Live) {
	t.draw(func(room int) []string { return t.render(l, room) })
}

// consumers is live for scenarios of consumers.
func (t *table) consumers(l emitlab.Live) {
	t.draw(func(room int) []string { return t.renderEmits(l, room) })
}

func (t *table) draw(render func(room int) []string) {
	width, height := t.size()
	height = max(height, 2)
	lines := render(height - 1)
	var b strings.Builder
	b.WriteString("\x1b[?7l") // what a terminal draws wider than we count is cut too, not wrapped
	if t.drawn > 0 {
		if width != t.width { // the terminal has broken the lines anew, who knows how
			b.WriteString("\x1b[2J\x1b[H")
		} else {
			fmt.Fprintf(&b, "\x1b[%dA", min(t.drawn, height-1))
		}
	}
	for _, s := range lines {
		b.WriteString("\r\x1b[2K" + cut(s, width) + "\n")
	}
	b.WriteString("\x1b[J\x1b[?7h")
	t.drawn, t.width = len(lines), width
	_, _ = io.WriteString(t.out, b.String())
}

func (t *table) end() {
	if t.summary != "" {
		fmt.Fprintln(t.out, t.summary)
	}
}

// render makes at most so many lines: what does not fit are the older events first.
func (t *table) render(l lab.Live, room int) []string {
	lines := append(t.head(l), fmt.Sprintf("%-9s %-13s %-13s %7s %6s %5s  %s", "NODE", "STATE", "STALENESS", "READS/s", "FLIGHT", "SHARE", "CONDITION"))
	for i := range l.Stats.Replicas {
		n := &l.Stats.Replicas[i]
		lines = append(lines, t.rows(n, l.Second.Nodes[n.Name].Reads)...)
	}
	p := &l.Stats.Primary
	lines = append(lines, fmt.Sprintf("%-9s %-13s %-13s %7d %6d %5s  %s", p.Name, "-", "-", l.Second.PrimaryReads, p.InFlight, "", why(p)))
	return t.withEvents(lines, room)
}

// withEvents adds the newest events that there is room for.
func (t *table) withEvents(lines []string, room int) []string {
	if left := room - len(lines) - len(eventsTitle); left > 0 && len(t.events) > 0 {
		lines = append(append(lines, eventsTitle[:]...), t.events[max(0, len(t.events)-left):]...)
	}
	return lines[:max(0, min(room, len(lines)))]
}

var eventsTitle = [...]string{"", "last events:"}

func (t *table) head(l lab.Live) []string {
	what := "traffic"
	if t.scenario != "" {
		what = t.scenario
	}
	s := l.Second
	lines := []string{
		fmt.Sprintf("breakwater lab · %s · %s · %.0f s", l.Fleet, what, time.Since(started).Seconds()),
		fmt.Sprintf("%d reads/s · p50 %s ms · p99 %s ms · %d errors/s · %d commits/s",
			s.Reads, number(s.P50), number(s.P99), s.Errors, s.Commits),
		fmt.Sprintf("primary: %d reads/s, %d connections", s.PrimaryReads, l.PrimaryConnections),
	}
	if s.Errors > 0 {
		lines = append(lines, "first error: "+s.FirstError)
	}
	if s.Path != nil {
		lines = append(append(lines, "", describePath(s.Path)), answers(s.Path)...)
	}
	return append(lines, "")
}

// answers are where each class had its answers from in the last second.
func answers(p *lab.SecondPath) []string {
	lines := []string{fmt.Sprintf("%-11s %8s %8s %8s %8s %8s %8s", "ANSWERS/s", "REPLICA", "PRIMARY", "CACHE", "DEFAULT", "SHED", "FAILED")}
	for _, c := range []readpath.Class{readpath.Critical, readpath.Degradable, readpath.Sheddable} {
		if by := p.ByClass[c]; by != nil {
			lines = append(lines, fmt.Sprintf("%-11v %8d %8d %8d %8d %8d %8d", c, by.Replica, by.Primary, by.Cache, by.Default, by.Shed, by.Failed))
		}
	}
	return lines
}

// rows are a replica's line and, while its breaker is not closed, why it was opened.
func (t *table) rows(n *replica.NodeStats, reads int) []string {
	rows := []string{fmt.Sprintf("%-9s %s %s %7d %6d %4.0f%%  %s", n.Name, t.state(n.Breaker.State),
		pad(interval(lab.Bound(n.Lo), lab.Bound(n.Hi)), 13), reads, n.InFlight, 100*n.Share, why(n))}
	if n.Breaker.State == breaker.Closed {
		return rows
	}
	reason, ok := t.opened[n.Name]
	if !ok {
		reason = n.Breaker.Reason.String()
	}
	note := pad("", 10)
	if left := n.Breaker.RetryAfter; left > 0 {
		note += fmt.Sprintf("probed in %.1f s; ", left.Seconds())
	}
	return append(rows, note+"opened for "+reason)
}

func why(n *replica.NodeStats) string {
	if n.Detail == "" {
		return n.Condition.String()
	}
	return n.Condition.String() + " (" + n.Detail + ")"
}

// state is a state's word, in a colour besides.
func (t *table) state(s breaker.State) string {
	word := pad(s.String(), 13)
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

// cut makes one line of a text, no wider than a terminal. Colours take no room and are kept; other
// control characters, which an error's text may hold, become spaces.
func cut(s string, width int) string {
	var b strings.Builder
	seen := 0
	for len(s) > 0 {
		if colour := colourAt(s); colour != "" {
			b.WriteString(colour)
			s = s[len(colour):]
			continue
		}
		c, size := utf8.DecodeRuneInString(s)
		s = s[size:]
		if unicode.IsControl(c) {
			c = ' '
		}
		if seen++; seen <= width {
			b.WriteRune(c)
		}
	}
	return b.String()
}

// colourAt is the sequence at a text's start that sets a colour.
func colourAt(s string) string {
	if !strings.HasPrefix(s, "\x1b[") {
		return ""
	}
	end := strings.IndexByte(s, 'm')
	if end < 0 || strings.Trim(s[2:end], "0123456789;") != "" {
		return ""
	}
	return s[:end+1]
}
