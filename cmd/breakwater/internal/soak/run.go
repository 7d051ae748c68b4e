package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/consumer"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/emitlab"
	"github.com/breakwater-go/breakwater/internal/fleet"
)

// soak is one run.
type soak struct {
	options
	dir       string
	fleet     *fleet.Fleet
	consumers map[string]*consumer.Process
	daemon    *process
	load      *load
	readers   []*reader
	mute      *mute
	samples   samples
	reloads   int
	faults    int
}

// names of the consumers.
var names = []string{"ledger", "mailer", "search"}

// run does it all, and judges. What it started has ended when it returns.
func run(ctx context.Context, o options) (sum *summary, err error) {
	s := &soak{options: o, consumers: map[string]*consumer.Process{}}
	if s.dir, err = os.MkdirTemp("", "breakwater-soak-"); err != nil {
		return nil, err
	}
	defer os.RemoveAll(s.dir)                            //nolint:errcheck // it is in the system's directory for such
	defer func() { err = errors.Join(err, s.close()) }() //nolint:contextcheck // it is for after ctx
	if err := s.start(ctx); err != nil {
		return nil, err
	}
	s.play(ctx)
	if err := s.settle(ctx); err != nil {
		return nil, err
	}
	return s.judge()
}

func (s *soak) start(ctx context.Context) (err error) {
	log.Print("starts a primary with three replicas, and three consumers")
	if s.fleet, err = fleet.Start(ctx, fleet.Config{Replicas: 3, SQL: execute}); err != nil {
		return err
	}
	for i, name := range names {
		c := exec.Command(s.binary, emitlab.RoleConsumer, "--seed", strconv.Itoa(i+1)) //nolint:noctx // its input ends it
		if s.consumers[name], err = consumer.Start(c); err != nil {
			return err
		}
	}
	address, err := freeAddress()
	if err != nil {
		return err
	}
	if err := s.configure(address, 0); err != nil {
		return err
	}
	s.daemon, err = startDaemon(s.binary, s.file(), "http://"+address)
	return err
}

func (s *soak) file() string { return filepath.Join(s.dir, "breakwater.yaml") }

// configure puts the n-th configuration in place, by a rename.
func (s *soak) configure(address string, n int) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# %d\nlisten: %s\ndead_letters: {path: letters}\nshutdown: {deadline: 5s}\n", n, address)
	for i, node := range s.fleet.Nodes() {
		switch i {
		case 0:
			fmt.Fprintf(&b, "primary: {dsn: %q}\nreplicas:\n", node.DSN)
		default:
			fmt.Fprintf(&b, "- {name: %s, dsn: %q}\n", node.Name, node.DSN)
		}
	}
	other := n % 2
	fmt.Fprintf(&b, "settings: {trip: %dms, ramp: 2s, open: {base: 1s, max: 5s}}\n", 500+100*other)
	fmt.Fprintf(&b, "degraded_mode: {primary_read_budget: {rate_per_sec: %d}, recovery: {require_under_budget_for_s: 3}}\nconsumers:\n", 200+50*other)
	for _, name := range names {
		fmt.Fprintf(&b, "- {name: %s, url: %q, timeout: %dms, slow: 200ms, bulkhead: %d, replay: {share: 0.5}}\n", name, s.consumers[name].URL, 500+100*other, 16+8*other)
	}
	next := s.file() + ".next"
	if err := os.WriteFile(next, []byte(b.String()), 0o600); err != nil {
		return err
	}
	return os.Rename(next, s.file())
}

// play runs traffic, clients, reloads and faults, until the time is over.
func (s *soak) play(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, s.length)
	defer cancel()
	log.Printf("plays for %v", s.length)
	s.load = newLoad(s.daemon.url, s.emits)
	s.mute = &mute{address: strings.TrimPrefix(s.daemon.url, "http://")}
	var all sync.WaitGroup
	for range s.clients {
		r := newReader(s.daemon.url)
		s.readers = append(s.readers, r)
		r.begin() //nolint:contextcheck // it reads until the daemon ends
	}
	all.Go(func() { s.load.run(ctx) })
	all.Go(func() { s.mute.run(ctx) })
	all.Go(func() { s.samples.run(ctx, s.daemon) })
	all.Go(func() { s.reloadAll(ctx) })
	all.Go(func() { s.breakThings(ctx) })
	all.Wait()
}

func (s *soak) reloadAll(ctx context.Context) {
	address := strings.TrimPrefix(s.daemon.url, "http://")
	for n := 1; pause(ctx, s.reload); n++ {
		if err := s.configure(address, n); err != nil {
			log.Print("configuration: ", err)
			return
		}
		s.daemon.hangup()
		s.reloads++
	}
}

// settle mends everything, waits until all that was stored is delivered, and ends the daemon in order.
func (s *soak) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Minute)
	defer cancel()
	log.Print("mends all, and waits for the dead letters")
	for _, c := range s.consumers {
		if err := c.Become(consumer.Behaviour{}); err != nil {
			return err
		}
	}
	if err := s.fleet.Heal(ctx); err != nil {
		return err
	}
	for {
		st, err := s.daemon.status(ctx)
		if err != nil {
			return err
		}
		if st.letters() == 0 {
			s.samples.end = st
			break
		}
		if !pause(ctx, 200*time.Millisecond) {
			return fmt.Errorf("%d letters are still stored", st.letters())
		}
	}
	s.samples.metrics = s.daemon.metrics(ctx)
	err := s.daemon.stop()
	for _, r := range s.readers {
		r.wait()
	}
	return err
}

// close ends what still runs.
func (s *soak) close() error {
	var errs []error
	if s.daemon != nil {
		s.daemon.kill()
	}
	for _, c := range s.consumers {
		errs = append(errs, c.Close())
	}
	if s.fleet != nil {
		errs = append(errs, s.fleet.Close())
	}
	return errors.Join(errs...)
}

// pause waits, and tells whether ctx still holds then.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it waits for nothing
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

func execute(ctx context.Context, dsn, query string) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, query)
	return errors.Join(err, conn.Close(ctx))
}
