package emitlab

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/lab"
	"github.com/breakwater-go/breakwater/contrib/boltletters"
	"github.com/breakwater-go/breakwater/emit"
	"github.com/breakwater-go/breakwater/emit/httpsink"
)

// EmitterOptions say what a router in a process of its own does. It prints a word and an ID a line: ready, then
// an outcome of emit or replayed for each trigger; with Drain at the end left for each letter that stayed, and done.
type EmitterOptions struct {
	Dir   string            // of the dead letters
	URLs  map[string]string // of the consumers
	Round int               // its number is in each ID
	Rate  int               // triggers a second for each consumer
	Seed  uint64
	// Drain emits nothing, and ends once the dead letters are delivered.
	Drain bool
}

// The words besides the outcomes.
const (
	wordReady    = "ready"
	wordReplayed = "replayed"
	wordLeft     = "left"
	wordDone     = "done"
)

// RunEmitter is the process that scenario crash kills. It ends when in does, or ctx.
func RunEmitter(ctx context.Context, o EmitterOptions, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // a read of in ends by nothing but its end
		_, _ = io.Copy(io.Discard, in)
		cancel()
	}()
	say := &sayings{out: out}
	store, err := boltletters.Open(ctx, boltletters.Config{Dir: o.Dir})
	if err != nil {
		return err
	}
	sinks := map[string]emit.Sink{}
	for name, url := range o.URLs {
		sink, err := httpsink.New(httpsink.Config{URL: url})
		if err != nil {
			return err
		}
		sinks[name] = sink
	}
	router, err := newRouted(sinks, store, emit.Observer{ //nolint:contextcheck // what is inherited takes no time of ours
		OnReplayed: func(l emit.Letter) { say.line(wordReplayed, l.Trigger.ID) },
	})
	if err != nil {
		return err
	}
	say.line(wordReady, "")
	if o.Drain {
		err = router.drained(ctx, say)
	} else {
		router.emitFor(ctx, o, say)
	}
	if closing := router.close(); err == nil { //nolint:contextcheck // ctx may have ended; it bounds itself
		err = closing
	}
	return err
}

// sayings are the lines of an emitter. Each is one write, so that a kill cuts none.
type sayings struct {
	mu  sync.Mutex
	out io.Writer
}

func (s *sayings) line(word, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = io.WriteString(s.out, word+" "+id+"\n")
}

// roundID is the beginning of the IDs of a round's triggers to a consumer.
func roundID(round int, consumer string) string { return fmt.Sprintf("r%d-%s-", round, consumer) }

// emitFor emits to every consumer until ctx ends, and says how each emit ended.
func (p *routed) emitFor(ctx context.Context, o EmitterOptions, say *sayings) {
	var all sync.WaitGroup
	begun := time.Now()
	for i, name := range Consumers() {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(o.Seed+uint64(o.Round), uint64(i))) //nolint:gosec // not negative
			n := 0
			arrivals(ctx, func() time.Duration { return time.Since(begun) }, o.Rate, rng, func(time.Duration) {
				id := roundID(o.Round, name) + strconv.Itoa(n)
				n++
				all.Go(func() {
					out, _ := p.emit(context.WithoutCancel(ctx), name, triggerOf(name, id, normal))
					say.line(out.String(), id)
				})
			})
		})
	}
	all.Wait()
}

// drained waits until the dead letters are delivered, and says what is left.
func (p *routed) drained(ctx context.Context, say *sayings) error {
	ctx, cancel := context.WithTimeout(ctx, drainBudget)
	defer cancel()
	lab.Every(ctx, 20*time.Millisecond, func() {
		if p.waiting() == 0 {
			cancel()
		}
	})
	ids, err := p.left(context.WithoutCancel(ctx))
	for id := range ids {
		say.line(wordLeft, id)
	}
	if n := p.waiting(); err == nil && n > 0 {
		err = fmt.Errorf("after %v %d dead letters still wait", drainBudget, n)
	}
	if err == nil {
		say.line(wordDone, "")
	}
	return err
}
