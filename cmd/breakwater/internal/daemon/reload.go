package daemon

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/api"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/config"
	"github.com/breakwater-go/breakwater/pgxread"
)

// A change is one step of a reload, and how it is taken back.
type change struct {
	what string
	do   func() error
	undo func() error
}

// apply makes all changes or none: those before one that fails are taken back, the last one first. What could not be taken back is in the error.
func apply(changes []change) error {
	for i, c := range changes {
		err := c.do()
		if err == nil {
			continue
		}
		errs := []error{fmt.Errorf("%s: %w", c.what, err)}
		for _, done := range slices.Backward(changes[:i]) {
			if err := done.undo(); err != nil {
				errs = append(errs, fmt.Errorf("%s could not be put back: %w", done.what, err))
			}
		}
		return errors.Join(errs...)
	}
	return nil
}

// reload reads the file again and applies it, all of it or nothing; what was in force stays in force then.
func (d *daemon) reload() {
	d.tellManager(d.notify.Reloading())
	at := time.Now()
	d.watcher.watch(d.files()...) // before it is read: what comes later is another change
	next, err := config.Load(d.File)
	if err == nil {
		err = next.Serve()
	}
	var later []string
	sinks := d.parts.sinks
	if err == nil {
		d.redact.Add(next.Secrets()...)
		later = d.needRestart(next)
		d.carry(next, later)
		err = d.standard.Exclusively(func() error { return apply(d.changes(next)) })
	}
	if err == nil {
		d.inForce.Store(next)
		d.level.Set(levelOf(next))
		d.parts.closeGone(sinks)
		d.watch()
		d.warnAbsent()
	}
	d.noteReload(at, err, later)
	d.tellManager(d.notify.Ready(d.summary()))
}

// noteReload tells how it ended, once in each place.
func (d *daemon) noteReload(at time.Time, err error, later []string) {
	d.reloads.Done(at, err)
	e := api.Event{At: at, Kind: api.KindReload, Text: "the configuration was read again and is in force"}
	if len(later) > 0 {
		e.Text += ", but a restart is needed for " + strings.Join(later, ", ")
	}
	if err != nil {
		e.Text, e.Error = "the configuration was not taken: the settings before stay in force", strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	was := d.reloaded.Load()
	now := &api.Reload{At: at, OK: err == nil, Reloads: was.Reloads, Failures: was.Failures, Error: d.redact.Text(e.Error), NeedsRestart: later}
	if err == nil {
		now.Reloads++
	} else {
		now.Failures++
	}
	d.reloaded.Store(now)
	d.hub.Publish(e)
}

// watch has the files watched that are in force. One that was written since it was read counts as a change.
func (d *daemon) watch() {
	c := d.inForce.Load()
	d.watcher.watch(d.files()...)
	d.watcher.differs(d.File, c.Hash)
	for name, read := range c.Files() {
		d.watcher.differs(name, read)
	}
}

// files are what is watched: the configuration and what it names.
func (d *daemon) files() []string {
	return slices.AppendSeq([]string{d.File}, maps.Keys(d.inForce.Load().Files()))
}

// needRestart are the keys that differ from those of the start and cannot change while running.
func (d *daemon) needRestart(next *config.Config) (keys []string) {
	old := d.Config
	differ := func(key string, differs bool) {
		if differs {
			keys = append(keys, key)
		}
	}
	differ("primary", next.HasNodes() != old.HasNodes() || next.DB.Primary != old.DB.Primary || next.DB.PrimaryReadsDSN != old.DB.PrimaryReadsDSN)
	differ("replicas", len(keys) > 0 && !slices.Equal(next.DB.Replicas, d.inForce.Load().DB.Replicas)) // those of another primary wait with it
	differ("degraded_mode", (next.ReadPath == nil) != (old.ReadPath == nil))
	differ("consumers", (len(next.Consumers) == 0) != (len(old.Consumers) == 0))
	differ("priorities", !slices.Equal(next.Priorities, old.Priorities))
	differ("default_priority", next.DefaultPriority != old.DefaultPriority)
	differ("dead_letters", next.DeadLetters != old.DeadLetters)
	a, b := next.Daemon, old.Daemon
	differ("listen", a.Listen != b.Listen)
	differ("agent_listen", a.AgentListen != b.AgentListen)
	differ("auth.bearer_token", (a.Auth.Bearer == "") != (b.Auth.Bearer == ""))
	differ("auth.tls", (a.Auth.TLS.Cert == "") != (b.Auth.TLS.Cert == "") || (a.Auth.TLS.CA == "") != (b.Auth.TLS.CA == ""))
	differ("auth.open", a.Auth.OpenMetrics != b.Auth.OpenMetrics || a.Auth.OpenReplica != b.Auth.OpenReplica)
	differ("metrics", a.PublishedNames != b.PublishedNames)
	differ("tracing", a.Tracing != b.Tracing)
	differ("log.format", a.Log.JSON != b.Log.JSON)
	differ("flight_recorder", a.FlightRecorder != b.FlightRecorder)
	return keys
}

// carry keeps what is in force in place of what needs a restart: the next reload compares with it, and a credential that was asked for still is.
func (d *daemon) carry(next *config.Config, later []string) {
	now := d.inForce.Load()
	auth, was := &next.Daemon.Auth, &now.Daemon.Auth
	for _, key := range later {
		switch key {
		case "auth.bearer_token":
			auth.Bearer = was.Bearer
		case "auth.tls":
			auth.TLS = was.TLS
		case "auth.open": // a token that was exchanged beside it is in force at once
			auth.OpenMetrics, auth.OpenReplica = was.OpenMetrics, was.OpenReplica
		case "primary":
			next.DB.Primary, next.DB.PrimaryReadsDSN, next.DB.Replicas = now.DB.Primary, now.DB.PrimaryReadsDSN, now.DB.Replicas
		}
	}
}

// changes is the way from what runs to what the file says, as far as it can be gone without a restart. What takes something away comes last: it
// is what least can be put back.
func (d *daemon) changes(next *config.Config) (all []change) {
	var last []change
	if d.parts.db != nil {
		add, remove := d.nodeChanges(next)
		all, last = append(all, add...), append(last, remove...)
		set := d.parts.db.Set()
		was := set.Settings()
		all = append(all, change{
			"settings",
			func() error { return set.Reconfigure(next.DB.Settings) },
			func() error { return set.Reconfigure(was) },
		})
	}
	if path := d.parts.path; path != nil && next.ReadPath != nil {
		was, c := path.Config(), *next.ReadPath
		c.Observer = d.observers.path
		all = append(all, change{
			"degraded_mode",
			func() error { return path.Reconfigure(c) },
			func() error { return path.Reconfigure(was) },
		})
	}
	if d.parts.router != nil && len(next.Consumers) > 0 {
		all = append(all, d.consumerChange(next))
	}
	return append(all, last...)
}

func (d *daemon) consumerChange(next *config.Config) change {
	router, sinks := d.parts.router, d.parts.sinks
	was := router.Config()
	return change{
		"consumers",
		func() error {
			lanes, with, err := d.parts.lanes(next, &d.observers)
			if err != nil {
				return err
			}
			lanes.Priorities, lanes.DefaultPriority, lanes.DeadLetters, lanes.Observer = was.Priorities, was.DefaultPriority, was.DeadLetters, was.Observer
			if err := router.Reconfigure(lanes); err != nil {
				return err
			}
			d.parts.sinks = with
			return nil
		},
		func() error {
			if err := router.Reconfigure(was); err != nil {
				return err
			}
			with := d.parts.sinks
			d.parts.sinks = sinks
			d.parts.closeGone(with)
			return nil
		},
	}
}

// nodeChanges are the replicas that come and those that go. One whose connection strings changed is another one under its name. Those that come are added before
// any goes, as long as there is room for both; each of the others takes the place of one that goes.
func (d *daemon) nodeChanges(next *config.Config) (add, remove []change) {
	old, now := byName(d.inForce.Load().DB.Replicas), byName(next.DB.Replicas)
	come, gone := without(now, old), without(old, now)
	db := d.parts.db
	swap := func(was, node pgxread.Node) change {
		return change{"replicas: " + node.Name, func() error { return exchange(db, was, node) }, func() error { return exchange(db, node, was) }}
	}
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if was, stays := old[name]; stays && was != now[name] {
			remove = append(remove, swap(was, now[name]))
		}
	}
	over := max(0, len(old)+len(come)-config.MostReplicas)
	for i, name := range come {
		node := now[name]
		if i < over {
			remove = append(remove, swap(old[gone[i]], node))
		} else {
			add = append(add, change{"replicas: " + name, func() error { return db.AddReplica(node) }, func() error { return db.RemoveReplica(name) }})
		}
	}
	for _, name := range gone[over:] {
		remove = append(remove, change{"replicas: " + name, func() error { return db.RemoveReplica(name) }, func() error { return db.AddReplica(old[name]) }})
	}
	return add, remove
}

// without are the names of nodes that others have not, in order.
func without(nodes, others map[string]pgxread.Node) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		if _, ok := others[name]; !ok {
			names = append(names, name)
		}
	}
	return names
}

// exchange puts a node in the place of another one, of its name or of one that goes, and that one back where it fails.
func exchange(db *pgxread.DB, was, now pgxread.Node) error {
	if err := db.RemoveReplica(was.Name); err != nil {
		return err
	}
	if err := db.AddReplica(now); err != nil {
		return errors.Join(err, db.AddReplica(was))
	}
	return nil
}

func byName(nodes []pgxread.Node) map[string]pgxread.Node {
	m := make(map[string]pgxread.Node, len(nodes))
	for _, n := range nodes {
		m[n.Name] = n
	}
	return m
}
