package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/api"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/config"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/eventlog"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/flight"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/systemd"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/telemetry"
	prombreakwater "github.com/breakwater-go/breakwater/contrib/prometheus"
	"github.com/breakwater-go/breakwater/emit"
	"github.com/breakwater-go/breakwater/replica"
)

// Options says what a daemon runs by. All of it is required, but for Hangup.
type Options struct {
	File    string         // the configuration file, which is watched
	Config  *config.Config // what it says at the start
	Version string
	Out     io.Writer // gets the line that says "ready"
	Log     io.Writer
	Hangup  <-chan os.Signal // each has the file read again
	Getenv  func(string) string
}

// lookEvery is how often the files are looked at.
const lookEvery = time.Second

// daemon is one run.
type daemon struct {
	Options // immutable

	started   time.Time // immutable, as what follows up to parts
	redact    *api.Redactor
	hub       *api.Hub
	standard  *api.Standard
	server    *api.Server
	metrics   *prombreakwater.Collector
	reloads   *prombreakwater.Reload
	notify    *systemd.Notifier
	log       *slog.Logger
	level     slog.LevelVar
	pulse     *pulse
	spans     *telemetry.Telemetry // nil: none
	flight    *flight.Recorder     // nil: none
	observers observers

	parts   parts                 // of Run's goroutine
	watcher *watcher              // of Run's goroutine
	absent  map[string]emit.Depth // letters that nobody delivers and that were told of; of Run's goroutine
	seen    bool                  // the primary answered at the last look at it; of Run's goroutine

	running  atomic.Pointer[api.Parts]
	inForce  atomic.Pointer[config.Config]
	reloaded atomic.Pointer[api.Reload]
	fleet    atomic.Pointer[string]
	unready  atomic.Pointer[error] // why the process is not ready; nil: it is

	owned sync.WaitGroup
}

// Why the process takes no traffic.
var (
	errStarting = errors.New("starting: the nodes have not been sampled yet, or the dead letters are not open")
	errStopping = errors.New("stopping")
)

// Run serves until ctx ends, and then stops in order. The error says why it could not start, or what failed while it stopped.
func Run(ctx context.Context, o Options) error {
	d, err := newDaemon(o) //nolint:contextcheck // the last spans are sent after ctx
	if err != nil {
		return err
	}
	defer d.closeTraces() //nolint:contextcheck // as above
	return d.run(ctx)
}

func newDaemon(o Options) (*daemon, error) {
	d := &daemon{Options: o, started: time.Now(), redact: &api.Redactor{}, pulse: newPulse(), watcher: &watcher{}, reloads: prombreakwater.NewReload()}
	d.inForce.Store(o.Config)
	d.running.Store(&api.Parts{})
	d.reloaded.Store(&api.Reload{At: d.started, OK: true})
	d.fleet.Store(new(string))
	d.unready.Store(&errStarting)
	d.watch() // from here on: what is changed while the process starts counts
	d.redact.Add(o.Config.Secrets()...)
	d.hub = api.NewHub(d.redact)
	d.standard = api.NewStandard(api.StandardConfig{Hub: d.hub, Redact: d.redact, About: d.about, Parts: func() api.Parts { return *d.running.Load() }})
	var err error
	if d.log, err = d.newLog(); err != nil {
		return nil, err
	}
	if d.metrics, err = prombreakwater.New(prombreakwater.Config{
		Version: d.Version, NoPublished: !d.Config.Daemon.PublishedNames,
		Parts: func() prombreakwater.Parts { return MetricParts(*d.running.Load()) },
	}); err != nil {
		return nil, err
	}
	if d.notify, err = systemd.New(o.Getenv); err != nil {
		return nil, err
	}
	if err := d.openTraces(); err != nil {
		return nil, err
	}
	d.observers = d.newObservers()
	return d, nil
}

func (d *daemon) about() api.About {
	return api.About{Mode: "serve", Version: d.Version, Started: d.started, Fleet: *d.fleet.Load(), ConfigHash: d.inForce.Load().Hash}
}

// publish puts what runs in place for all who read it.
func (d *daemon) publish() {
	d.fleet.Store(new(d.parts.fleet)) // a copy: learnFleet writes it
	d.running.Store(d.parts.published())
}

// run listens first, so that a port in use costs nothing, and whoever asks is told that the process starts.
func (d *daemon) run(ctx context.Context) (err error) {
	if d.server, err = d.newServer(); err != nil {
		return err
	}
	ending, end := context.WithCancel(context.WithoutCancel(ctx)) // of the goroutines that outlast ctx, until all is told
	defer func() {
		end()
		d.owned.Wait()
	}()
	d.owned.Go(func() { eventlog.Run(ending, d.hub, d.log) })
	if d.flight != nil {
		d.owned.Go(func() { d.flight.Run(ending, d.hub) })
	}
	defer d.closeServer() //nolint:contextcheck // it is for after ctx
	ln, err := d.listen(ctx)
	if err != nil {
		return err
	}
	stopAgent, err := d.serveAgent(ctx)
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	defer stopAgent()
	failed := make(chan error, 1)
	d.owned.Go(func() { failed <- d.server.Serve(ln) })
	if err := d.parts.open(ctx, d.Config, &d.observers, d.publish); err != nil {
		if ctx.Err() != nil {
			return d.stop(0) //nolint:contextcheck // it was to end before it was ready: no balancer has to notice
		}
		return errors.Join(d.words(err), d.parts.close()) //nolint:contextcheck // what was opened ends, whatever ctx says
	}
	d.warnAbsent()
	d.owned.Go(func() { d.guard(ending) })
	d.ready(ctx, ln)
	err = d.serve(ctx, failed)
	return errors.Join(err, d.stop(d.inForce.Load().Daemon.Shutdown.Delay)) //nolint:contextcheck // it begins when ctx has ended
}

// listen takes the address, or says where it stands in the file.
func (d *daemon) listen(ctx context.Context) (net.Listener, error) {
	ln, err := d.server.Listen(ctx, d.Config.Daemon.Listen)
	if err != nil {
		return nil, d.Config.Place("listen", listenFault(d.Config.Daemon.Listen, err))
	}
	return ln, nil
}

// listenFault says why an address cannot be listened on.
func listenFault(at string, err error) string {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Sprintf("is %s, which is in use: end what listens there, or choose another address", at)
	}
	return fmt.Sprintf("is %s: %s", at, strings.TrimPrefix(err.Error(), "listen: "))
}

// words is an error without secrets.
func (d *daemon) words(err error) error { return errors.New(d.redact.Text(err.Error())) }

// ready tells everybody.
func (d *daemon) ready(ctx context.Context, ln net.Listener) {
	d.unready.Store(nil)
	scheme := "http"
	if d.Config.Daemon.Auth.TLS.Cert != "" {
		scheme = "https"
	}
	fmt.Fprintf(d.Out, "breakwater: ready: %s://%s\n", scheme, ln.Addr())
	d.log.LogAttrs(ctx, slog.LevelInfo, "ready",
		slog.String("address", ln.Addr().String()), slog.String("config_hash", d.Config.Hash), slog.String("serves", d.summary()))
	d.tellManager(d.notify.Ready(d.summary()))
}

// serve reloads until ctx ends; the error is that of the listener.
func (d *daemon) serve(ctx context.Context, failed <-chan error) error {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			return fmt.Errorf("the interface ended: %w", err)
		case <-d.Hangup:
			d.reload() //nolint:contextcheck // a reload waits for nobody
		case <-look.C:
			if d.watcher.changed() {
				d.reload() //nolint:contextcheck // as above
			}
			d.learnFleet(ctx)
		}
	}
}

// learnFleet asks a primary for its version that did not tell it before: once each time that it is back.
func (d *daemon) learnFleet(ctx context.Context) {
	if d.parts.db == nil || d.parts.fleet != anyFleet {
		return
	}
	before := d.seen
	d.seen = d.parts.db.Set().Stats().Primary.Condition == replica.Fit
	if d.seen && !before {
		d.parts.fleet = fleetOf(ctx, d.parts.db, d.Config.DB.Primary.Name)
		d.publish()
	}
}

// summary is what is served, in words.
func (d *daemon) summary() string {
	c := d.inForce.Load()
	var parts []string
	if c.HasNodes() {
		parts = append(parts, counted(len(c.DB.Replicas), "replica"))
	}
	if n := len(c.Consumers); n > 0 {
		parts = append(parts, counted(n, "consumer"))
	}
	return strings.Join(parts, ", ")
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// tellManager notes what the service manager could not be told.
func (d *daemon) tellManager(err error) {
	if err != nil {
		d.hub.Fault("service manager", err)
	}
}

// warnAbsent tells of letters that nobody delivers, once of those of one name.
func (d *daemon) warnAbsent() {
	if d.parts.router == nil {
		return
	}
	told := d.absent
	d.absent = d.parts.router.Stats().Absent
	for name, depth := range d.absent {
		if _, ok := told[name]; ok {
			continue
		}
		d.hub.Fault("dead letters", fmt.Errorf("%d letters of %q wait for a consumer of that name, which the configuration does not have: add it, or discard them", depth.Letters, name))
	}
}

func firstWord(text string) string {
	word, _, _ := strings.Cut(text, " ")
	return word
}
