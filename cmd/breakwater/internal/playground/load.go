package playground

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/api"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/lab"
)

// The load without a word of anybody's, and its bounds.
const (
	defaultReads  = 200
	defaultEmits  = 120 // together
	defaultWrites = 50
	maxReads      = 20_000
	maxEmits      = 3_000
	maxWrites     = 1_000
)

// What a scenario needs to show something.
var scenarioLoad = api.LabLoad{ReadsPerSec: 100, EmitsPerSec: 90, WritesPerSec: 20}

// load is the traffic that is asked for. The zero value asks for none.
type load struct {
	mu struct {
		sync.Mutex
		asked    api.LabLoad
		scenario bool // one runs
	}
}

func defaults(o lab.Options) api.LabLoad {
	l := api.LabLoad{ReadsPerSec: defaultReads, EmitsPerSec: defaultEmits, WritesPerSec: defaultWrites}
	if o.Rate > 0 {
		l.ReadsPerSec = o.Rate
	}
	return l
}

func (l *load) asked() api.LabLoad {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.asked
}

func (l *load) set(to api.LabLoad) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.asked = to
}

// playing says whether a scenario runs, which has at least what it needs.
func (l *load) playing(on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.scenario = on
}

// made is the load that is made.
func (l *load) made() api.LabLoad {
	l.mu.Lock()
	defer l.mu.Unlock()
	made := l.mu.asked
	if l.mu.scenario {
		made.ReadsPerSec = max(made.ReadsPerSec, scenarioLoad.ReadsPerSec)
		made.EmitsPerSec = max(made.EmitsPerSec, scenarioLoad.EmitsPerSec)
		made.WritesPerSec = max(made.WritesPerSec, scenarioLoad.WritesPerSec)
	}
	return made
}

func (l *load) reads() int64 { return int64(l.made().ReadsPerSec) }

func (l *load) emits() int64 { return int64(l.made().EmitsPerSec) }

// Load changes the traffic (api.Lab). Its error names every fault; nothing has changed then.
func (p *Playground) Load(r api.LoadRequest) error {
	to := p.load.asked()
	err := errors.Join(
		take(&to.ReadsPerSec, r.ReadsPerSec, "reads_per_sec", maxReads),
		take(&to.EmitsPerSec, r.EmitsPerSec, "emits_per_sec", maxEmits),
		take(&to.WritesPerSec, r.WritesPerSec, "writes_per_sec", maxWrites),
	)
	if own := r.OwnWrites; own != nil {
		if to.OwnWrites = *own; *own < 0 || *own > 1 || math.IsNaN(*own) {
			err = errors.Join(err, fmt.Errorf("own_writes %v: give a share of the reads, 0 to 1", *own))
		}
	}
	if r.Unprotected != nil {
		to.Unprotected = *r.Unprotected
	}
	if err != nil {
		return err
	}
	p.load.set(to)
	p.apply()
	return p.while(func(ctx context.Context) { p.twin.set(ctx, p.load.asked().Unprotected) })
}

func take(to, asked *int, name string, most int) error {
	if asked == nil {
		return nil
	}
	if *asked < 0 || *asked > most {
		return fmt.Errorf("%s %d: give 0 to %d", name, *asked, most)
	}
	*to = *asked
	return nil
}

// apply hands the load to those who make it; the emits look it up themselves.
func (p *Playground) apply() {
	made := p.load.made()
	p.bench.SetLoad(made.ReadsPerSec, made.WritesPerSec, made.OwnWrites)
}
