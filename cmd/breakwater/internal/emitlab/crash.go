package emitlab

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/consumer"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/lab"
	"github.com/breakwater-go/breakwater/emit"
)

const (
	crashRounds = 20 // or as many as --for has room for
	shortestOf  = 300 * time.Millisecond
	longestOf   = 1200 * time.Millisecond // a round, from when the router is ready
)

// kills is what scenario crash knows. Only the script touches it.
type kills struct {
	rounds  int
	said    map[string]emit.Outcome // by ID, what was acknowledged
	counts  map[string]*Counts      // by consumer: what the routers said
	left    map[string]bool         // IDs in the dead letters at the end
	done    bool                    // the last router said so
	reports map[string]consumer.Report
}

// crashFaults are those of consumer slow, round by round: so that letters are stored, wait, and are replayed.
func crashFaults() []fault {
	return []fault{
		{"slow", consumer.Behaviour{P99: slowP99}},
		{"none", consumer.Behaviour{P99: healthyP99}},
		{"failing", consumer.Behaviour{Fail: true}},
		{"none", consumer.Behaviour{P99: healthyP99}},
	}
}

// playCrash kills a router again and again, and counts what the consumers and the dead letters lack of what it had acknowledged.
func playCrash(ctx context.Context, r *run, length time.Duration) error {
	dir, err := os.MkdirTemp(r.opts.Dir, "breakwater-letters-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // what is left lies in the directory for temporary files
	k := &r.kills
	k.said, k.counts, k.left, k.reports = map[string]emit.Outcome{}, map[string]*Counts{}, map[string]bool{}, map[string]consumer.Report{}
	for _, name := range Consumers() {
		k.counts[name] = &Counts{}
	}
	rng := rand.New(rand.NewPCG(r.opts.Seed, 0))
	begun := r.now()
	for round := 1; round <= crashRounds && (round == 1 || r.now()-begun < length); round++ {
		if err := r.round(ctx, dir, round, rng); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
	}
	if err := r.target(slow).process.Become(consumer.Behaviour{P99: healthyP99}); err != nil {
		return err
	}
	if err := r.lastLife(ctx, dir); err != nil {
		return fmt.Errorf("the last router: %w", err)
	}
	return r.kills.ask(r.targets)
}

// round starts a router, lets it emit for some time, and kills it.
func (r *run) round(ctx context.Context, dir string, round int, rng *rand.Rand) error {
	f := crashFaults()[(round-1)%len(crashFaults())]
	if err := r.target(slow).process.Become(f.how); err != nil {
		return err
	}
	e, err := r.startEmitter(dir, "--round", strconv.Itoa(round))
	if err != nil {
		return err
	}
	defer e.end()
	if err := e.await(ctx, wordReady, r); err != nil {
		return err
	}
	ready := r.now()
	lives := shortestOf + time.Duration(rng.Int64N(int64(longestOf-shortestOf)))
	timer := time.AfterFunc(lives, e.kill)
	defer timer.Stop()
	before := r.kills.total()
	for word, id := range e.lines() {
		r.kills.hear(word, id)
		r.watch.emitted(ready, r.now())
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	r.kills.rounds = round
	now := r.kills.total()
	r.tell(RoundLine{
		Head: r.head("round"), Round: round, Fault: f.name, LivedMS: ms(r.now() - ready), Acknowledged: now.Delivered + now.Stored - before.Delivered - before.Stored,
		Replayed: now.Replayed - before.Replayed, Stored: now.Stored - before.Stored,
	})
	if r.live != nil {
		r.live(Live{Policy: r.policy})
	}
	return nil
}

// lastLife has a router deliver what is stored.
func (r *run) lastLife(ctx context.Context, dir string) error {
	e, err := r.startEmitter(dir, "--drain")
	if err != nil {
		return err
	}
	defer e.end()
	stop := context.AfterFunc(ctx, e.kill)
	defer stop()
	for word, id := range e.lines() {
		r.kills.hear(word, id)
	}
	if ctx.Err() == nil && !r.kills.done {
		return fmt.Errorf("it ended before it was done: %s", e.complaint())
	}
	return ctx.Err()
}

// emitter is a router's process.
type emitter struct {
	cmd    *exec.Cmd
	in     io.Closer
	out    *bufio.Scanner
	errors strings.Builder
}

func (r *run) startEmitter(dir string, more ...string) (*emitter, error) {
	args := []string{"--dir", dir, "--rate", strconv.Itoa(r.opts.rate()), "--seed", strconv.FormatUint(r.opts.Seed, 10)}
	for _, t := range r.targets {
		args = append(args, "--"+t.name, t.process.URL)
	}
	e := &emitter{cmd: r.opts.Child(RoleEmitter, append(args, more...)...)}
	e.cmd.Stderr = &e.errors
	in, err := e.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := e.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	e.in, e.out = in, bufio.NewScanner(out)
	return e, e.cmd.Start()
}

// kill is kill -9.
func (e *emitter) kill() { _ = e.cmd.Process.Kill() }

// end makes sure that the process is gone.
func (e *emitter) end() {
	e.kill()
	_ = e.in.Close()
	_ = e.cmd.Wait()
}

// complaint is what a process said on standard error, which has closed its output.
func (e *emitter) complaint() string {
	e.end()
	return strings.TrimSpace(e.errors.String())
}

// lines yields what the process says until it is gone.
func (e *emitter) lines() func(yield func(word, id string) bool) {
	return func(yield func(word, id string) bool) {
		for e.out.Scan() {
			if word, id, ok := strings.Cut(e.out.Text(), " "); ok && !yield(word, id) {
				return
			}
		}
	}
}

// await waits for a word; what comes before it is heard.
func (e *emitter) await(ctx context.Context, want string, r *run) error {
	stop := context.AfterFunc(ctx, e.kill)
	defer stop()
	for word, id := range e.lines() {
		if word == want {
			return nil
		}
		r.kills.hear(word, id)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("the router ended before it was ready: %s", e.complaint())
}

// hear takes in a line of a router.
func (k *kills) hear(word, id string) {
	switch word {
	case wordDone:
		k.done = true
		return
	case wordLeft:
		k.left[id] = true
		return
	}
	c := k.counts[consumerOf(id)]
	if c == nil {
		return
	}
	switch word {
	case wordReplayed:
		c.Replayed++
	case emit.Delivered.String():
		k.said[id] = emit.Delivered
		c.Delivered++
	case emit.Stored.String():
		k.said[id] = emit.Stored
		c.Stored++
	case emit.Shed.String():
		c.Shed++
	case emit.Refused.String():
		c.Refused++
	}
}

// consumerOf is the consumer in an ID of roundID.
func consumerOf(id string) string {
	parts := strings.Split(id, "-")
	if len(parts) != 3 {
		return ""
	}
	return parts[1]
}

func (k *kills) total() (all Counts) {
	for _, c := range k.counts {
		all.add(*c)
	}
	return all
}

func (k *kills) ask(targets []*target) error {
	for _, t := range targets {
		report, err := t.process.Report(true)
		if err != nil {
			return err
		}
		k.reports[t.name] = report
	}
	return nil
}

// summary says what the consumers and the dead letters lack.
func (k *kills) summary(s *Summary) {
	s.Rounds, s.Acknowledged = k.rounds, len(k.said)
	for name, report := range k.reports {
		c := &ConsumerSummary{Counts: *k.counts[name], Calls: report.Calls, OutOfOrder: report.OutOfOrder}
		c.Duplicates, c.Diverted = report.Duplicates, c.Stored
		taken := map[string]bool{}
		for _, id := range report.IDs {
			taken[id] = true
			if consumerOf(id) != name {
				c.UnknownIDs++
			}
		}
		for id := range k.said {
			if consumerOf(id) == name && !taken[id] && !k.left[id] {
				c.Lost++
			}
		}
		c.Stored = 0
		for id := range k.left {
			if consumerOf(id) == name {
				c.Stored++
			}
		}
		c.Delivered = report.Taken
		c.Emitted = c.Delivered + c.Stored + c.Shed + c.Refused
		s.Consumers[name] = c
		s.add(c.Counts)
		s.WorstStall = max(s.WorstStall, rounded(report.WorstStall))
	}
}

var _ lab.Line = RoundLine{}
