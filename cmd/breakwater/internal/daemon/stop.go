package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/api"
)

// stop ends the process in order. It first says that it is not ready and goes on serving for delay, for balancers to notice; then emits are refused
// and those under way end, or are stored; then the clients are told, and the stores closed. Nothing that was acknowledged is lost (REQ-E7).
func (d *daemon) stop(delay time.Duration) error {
	c := d.inForce.Load().Daemon.Shutdown
	d.unready.Store(&errStopping)
	d.tellManager(d.notify.Stopping("draining"))
	d.hub.Publish(api.Event{Kind: api.KindStop, Text: "the process ends"})
	time.Sleep(delay)
	ctx, cancel := context.WithTimeout(context.Background(), c.Deadline)
	defer cancel()
	if err := d.parts.drain(ctx); err != nil {
		// They are stored all the same.
		d.hub.Fault("drain", fmt.Errorf("deliveries were cut off after %v: %w", c.Deadline, err))
	}
	d.warnForgotten()
	d.closeServer()
	d.running.Store(&api.Parts{})
	return d.parts.close()
}

// closeServer ends what reads the parts. It may be called more than once.
func (d *daemon) closeServer() {
	d.server.Close()
	d.standard.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := d.metrics.Close(ctx); err != nil {
		d.hub.Fault("metrics", err)
	}
}

// warnForgotten tells of letters that end with the process.
func (d *daemon) warnForgotten() {
	if d.parts.store == nil || d.Config.DeadLetters.Path != "" {
		return
	}
	letters := 0
	for _, depth := range d.parts.store.Depths() {
		letters += depth.Letters
	}
	if letters > 0 {
		d.hub.Fault("dead letters", fmt.Errorf("%d letters in memory end with the process: set dead_letters.path to keep them", letters))
	}
}

// guard pings the service manager's watchdog while the process is well, until ctx ends.
func (d *daemon) guard(ctx context.Context) {
	every := d.notify.Watchdog()
	if every == 0 {
		return
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if err := d.well(); err != nil {
			d.hub.Fault("watchdog", err)
		} else {
			d.tellManager(d.notify.Alive())
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

var errHeartbeat = errors.New("a sampler is silent: the service manager is not told that the process is alive")

// well tells whether each sampler works; that this returns shows that the hub's lock and those of the set are free.
func (d *daemon) well() error {
	d.hub.Last()
	set := d.running.Load().Set
	if set == nil {
		return nil
	}
	stats := set.Stats()
	nodes := []string{stats.Primary.Name}
	for i := range stats.Replicas {
		nodes = append(nodes, stats.Replicas[i].Name)
	}
	if node := d.pulse.silent(time.Now(), nodes, maySilence(set.Settings())); node != "" {
		return fmt.Errorf("%w: node %s", errHeartbeat, node)
	}
	return nil
}
