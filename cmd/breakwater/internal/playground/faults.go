package playground

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/api"
)

const (
	phaseBegin = "begin"
	phaseEnd   = "end"
	// patience is for how long something may take to break or to mend: a server to start, say.
	patience    = 30 * time.Second
	longest     = time.Hour // of a fault
	healPatient = 90 * time.Second
)

// faults are those in force. A target has one at a time: another one takes its place.
type faults struct {
	targets []target                                         // immutable
	tell    func(target, fault, phase, text string, e error) // immutable
	due     chan struct{}                                    // of 1: a duration has changed

	work sync.Mutex // held while something is broken or mended; taken before mu

	mu struct {
		sync.Mutex
		now   map[string]broken // by target
		ended bool
	}
}

// broken is a fault in force.
type broken struct {
	kind   kind
	amount time.Duration
	since  time.Time
	until  time.Time // zero: until it is mended
}

func newFaults(targets []target, tell func(target, fault, phase, text string, e error)) *faults {
	f := &faults{targets: targets, tell: tell, due: make(chan struct{}, 1)}
	f.mu.now = map[string]broken{}
	return f
}

// offered is what can be broken.
func (f *faults) offered() []api.LabTarget {
	var all []api.LabTarget
	for _, t := range f.targets {
		all = append(all, api.LabTarget{Name: t.name, Scope: t.scope, Faults: t.faults()})
	}
	return all
}

// inForce is what is broken, in the order of the targets.
func (f *faults) inForce() []api.LabFault {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := []api.LabFault{}
	for _, t := range f.targets {
		b, ok := f.mu.now[t.name]
		if !ok {
			continue
		}
		one := api.LabFault{Target: t.name, Fault: b.kind.name, Since: b.since, AmountMS: float64(b.amount.Milliseconds())}
		if !b.until.IsZero() {
			one.Until = &b.until
		}
		all = append(all, one)
	}
	return all
}

// inject breaks a target, in place of what it has. It goes on although whoever asked has gone.
func (f *faults) inject(ctx context.Context, r api.FaultRequest) error {
	t, b, err := f.wanted(r)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	f.work.Lock()
	defer f.work.Unlock()
	if f.over() {
		return errEnded
	}
	if err := f.mend(ctx, t.name, "another fault takes its place"); err != nil {
		return err
	}
	lasts := cmp.Or(r.Duration, b.kind.lasts)
	b.since = time.Now()
	if lasts > 0 {
		b.until = b.since.Add(lasts)
	}
	f.put(t.name, b) // also if it breaks by half: it is then mended as any other
	err = b.kind.begin(ctx, t.name, b.amount)
	f.tell(t.name, b.kind.name, phaseBegin, b.words(t.name, lasts), err)
	if err != nil {
		return fmt.Errorf("%s of %s: %w", b.kind.name, t.name, errors.Join(err, f.mend(ctx, t.name, "it could not be broken")))
	}
	return nil
}

// wanted finds every fault of a request: its error is an *api.InvalidError.
func (f *faults) wanted(r api.FaultRequest) (t target, b broken, err error) {
	var bad []api.FieldFault
	if r.Duration < 0 || r.Duration > longest {
		bad = append(bad, api.FieldFault{Field: "duration_s", Value: r.Duration.String(), Mend: fmt.Sprintf("use up to %v, or leave it out to mend by hand", longest)})
	}
	i := slices.IndexFunc(f.targets, func(t target) bool { return t.name == r.Target })
	if i < 0 {
		return t, b, &api.InvalidError{Fields: append(bad, api.FieldFault{Field: "target", Value: strconv.Quote(r.Target), Mend: "use one of " + f.named()})}
	}
	t = f.targets[i]
	k, ok := t.kind(r.Fault)
	if !ok {
		mend := fmt.Sprintf("%s does not have it; use one of %s", t.name, strings.Join(t.faults(), ", "))
		return t, b, &api.InvalidError{Fields: append(bad, api.FieldFault{Field: "fault", Value: strconv.Quote(r.Fault), Mend: mend})}
	}
	b = broken{kind: k}
	if b.amount, ok = k.take(r.Amount); !ok {
		mend := fmt.Sprintf("use 1 to %d, or leave it out for %d", maxAmount.Milliseconds(), k.usual.Milliseconds())
		if k.usual == 0 {
			mend = "leave it out: " + k.name + " has no amount"
		}
		bad = append(bad, api.FieldFault{Field: "amount_ms", Value: fmt.Sprint(r.Amount), Mend: mend})
	}
	if len(bad) > 0 {
		return t, b, &api.InvalidError{Fields: bad}
	}
	return t, b, nil
}

func (f *faults) named() string {
	var all []string
	for _, t := range f.targets {
		all = append(all, t.name)
	}
	return strings.Join(all, ", ")
}

func (b broken) words(target string, d time.Duration) string {
	text := target + ": " + b.kind.says
	if b.amount > 0 {
		text += fmt.Sprintf(", %v", b.amount)
	}
	if d == 0 {
		return text + ", until it is mended"
	}
	return text + fmt.Sprintf(", for %v", d)
}

func (f *faults) put(target string, b broken) {
	f.mu.Lock()
	f.mu.now[target] = b
	f.mu.Unlock()
	select {
	case f.due <- struct{}{}:
	default: // it has yet to look
	}
}

func (f *faults) over() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.ended
}

func (f *faults) of(target string) (broken, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	b, ok := f.mu.now[target]
	return b, ok
}

// mend mends a target, if it is broken; why is told. What cannot be mended is in force still. The caller holds work.
func (f *faults) mend(ctx context.Context, target, why string) error {
	b, ok := f.of(target)
	if !ok {
		return nil
	}
	err := b.kind.mend(ctx, target)
	f.tell(target, b.kind.name, phaseEnd, target+": "+why, err)
	if err != nil {
		return fmt.Errorf("%s of %s, mending: %w", b.kind.name, target, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.mu.now, target)
	return nil
}

// mendAll mends what is broken. The caller holds work.
func (f *faults) mendAll(ctx context.Context, why string) error {
	f.mu.Lock()
	targets := slices.Sorted(maps.Keys(f.mu.now))
	f.mu.Unlock()
	var all []error
	for _, t := range targets {
		all = append(all, f.mend(ctx, t, why))
	}
	return errors.Join(all...)
}

// heal mends everything; besides is asked to do the same for what is not known here.
func (f *faults) heal(ctx context.Context, besides func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), healPatient)
	defer cancel()
	f.work.Lock()
	defer f.work.Unlock()
	if f.over() {
		return errEnded
	}
	return errors.Join(f.mendAll(ctx, "mended"), besides(ctx))
}

// end mends everything for the last time.
func (f *faults) end(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	f.work.Lock()
	defer f.work.Unlock()
	f.mu.Lock()
	f.mu.ended = true
	f.mu.Unlock()
	_ = f.mendAll(ctx, "the lab ends") // told; the fleet is about to be removed
}

// run mends what has had its time, until ctx ends.
func (f *faults) run(ctx context.Context) {
	timer := time.NewTimer(longest)
	defer timer.Stop()
	for {
		timer.Reset(f.next())
		select {
		case <-ctx.Done():
			return
		case <-f.due:
		case <-timer.C:
			f.mendDue(ctx)
		}
	}
}

// next is in how long the next fault has had its time.
func (f *faults) next() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	d := longest
	for _, b := range f.mu.now {
		if !b.until.IsZero() {
			d = min(d, time.Until(b.until))
		}
	}
	return max(d, 0)
}

// again is after how long something that could not be mended is tried once more.
const again = 2 * time.Second

func (f *faults) mendDue(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	f.work.Lock()
	defer f.work.Unlock()
	for _, t := range f.targets {
		b, ok := f.of(t.name)
		if !ok || b.until.IsZero() || time.Until(b.until) > 0 {
			continue
		}
		if f.mend(ctx, t.name, "its time is over") != nil {
			b.until = time.Now().Add(again)
			f.put(t.name, b)
		}
	}
}
