package lab

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/truth"
	"github.com/breakwater-go/breakwater/internal/relay"
	"github.com/breakwater-go/breakwater/replica"
)

// untouched is a fleet that says what was done to it.
type untouched struct{ t *testing.T }

func (untouched) Version() string { return "none" }
func (untouched) Nodes() []Node   { return []Node{{Name: "primary"}, {Name: "r1"}, {Name: "r2"}} }

func (f untouched) touched(how string) error {
	f.t.Errorf("after the interruption: %s", how)
	return nil
}

func (f untouched) Pause(context.Context, string) error   { return f.touched("Pause") }
func (f untouched) Resume(context.Context, string) error  { return f.touched("Resume") }
func (f untouched) CutLink(string, relay.Mode) error      { return f.touched("CutLink") }
func (f untouched) HealLink(string) error                 { return f.touched("HealLink") }
func (f untouched) Freeze(string) error                   { return f.touched("Freeze") }
func (f untouched) Thaw(string) error                     { return f.touched("Thaw") }
func (f untouched) Kill(string) error                     { return f.touched("Kill") }
func (f untouched) Restart(context.Context, string) error { return f.touched("Restart") }
func (f untouched) SetApplyDelay(context.Context, string, time.Duration) error {
	return f.touched("SetApplyDelay")
}
func (f untouched) SwitchSegment(context.Context) error { return f.touched("SwitchSegment") }
func (f untouched) Heal(context.Context) error          { return f.touched("Heal") }
func (f untouched) Close() error                        { return f.touched("Close") }

// An interruption before a fault keeps the fault from being made.
func TestInterruptedBeforeTheFault(t *testing.T) {
	for _, s := range Scenarios() {
		t.Run(s.Name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			r := &run{
				fleet: untouched{t}, acks: &truth.Acks{}, rec: newRecorder(&truth.Acks{}, true),
				inUse: replica.Settings{Calm: time.Second}, opts: Options{Started: time.Now()},
				tell: func(l Line) { t.Errorf("told after the interruption: %v", l) },
			}
			if err := s.play(ctx, r, s.Lasts); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want %v", err, context.Canceled)
			}
			if got := r.rec.in(); got != warmup {
				t.Errorf("phase: got %d, want none entered", got)
			}
		})
	}
}
