package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/emitlab"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/lab"
)

// labFlags are the flags of `breakwater lab`.
type labFlags struct {
	lab.Options
	fleet          string
	pgBin, dir     string
	listen         string
	policies       string
	headless, json bool

	set         *pflag.FlagSet // as it was parsed
	listenGiven bool
	faults      []error  // of the command line, found while it was parsed
	args        []string // the process's
	find        finder
}

const (
	fleetAuto      = "auto"
	fleetPostgres  = "postgres"
	fleetSimulated = "simulated"
	defaultListen  = "127.0.0.1:8080"
	anyPort        = "127.0.0.1:0"
)

func newLab(args []string, out, errOut io.Writer) *cobra.Command {
	f := &labFlags{args: args, find: findPostgres}
	f.Started, f.Replicas, f.Seed = started, 3, 1
	c := &cobra.Command{
		Use:   "lab",
		Short: "Run a primary with replicas on loopback, or consumers, send traffic through the library, break things",
		Long:  fmt.Sprintf(longHelp, scenarioList(false), scenarioList(true), strings.Join(emitlab.Policies(), ", "), emitScenarioList()),
		Args:  cobra.ArbitraryArgs, // refused by check, beside all other faults
		RunE: func(c *cobra.Command, args []string) error {
			f.parsed(c, args)
			return f.run(c.Context(), out, errOut)
		},
		FParseErrWhitelist: cobra.FParseErrWhitelist{UnknownFlags: true}, // the same
	}
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		f.parsed(c, nil)
		f.faults = append(f.faults, err)
		if f.emits() {
			return f.checkEmit()
		}
		_, _, err = f.check(c.Context())
		return err
	})
	fs := c.Flags()
	r := flagReader{fs, &f.faults}
	fs.StringVar(&f.fleet, "fleet", fleetAuto, "auto, postgres or simulated; auto is postgres where its programs are found")
	r.whole(&f.Replicas, "replicas", "how many replicas, 1 to 8", "give a whole number, 1 to 8")
	fs.StringVar(&f.pgBin, "pg-bin", "", "directory of the PostgreSQL server's programs (default: search)")
	fs.StringVar(&f.dir, "dir", "", "directory in which the fleet, or scenario crash, makes its own (default: the system's for temporary files)")
	fs.StringVar(&f.listen, "listen", defaultListen, "loopback address of the page, and in a scenario of its status alone; a free port where this default is in use; with --headless only if given")
	r.positive(&f.Rate, "rate", "reads a second (default: the scenario's own, 200 to 500; four times as many come while all replicas are late); in scenarios of consumers triggers a second for each (default 500)",
		"give a whole number, 1 or more a second, or leave it out for the scenario's own")
	fs.StringVar(&f.Scenario, "scenario", "", "one of those above (default: traffic until interrupted)")
	fs.StringVar(&f.policies, "policies", "", "in scenarios of consumers: some of "+strings.Join(emitlab.Policies(), ",")+", run one after the other (default: "+emitlab.PolicyLatency+")")
	r.natural(&f.Seed, "seed", "seed of scenario random, and of when triggers come", "give a whole number, 0 or more")
	r.length(&f.For, "for", "how long; in a scenario with one fault until the fault is mended, in one of consumers the outage (default: the scenario's own)",
		"give a positive length with its unit, such as 30s or 2m, or leave it out")
	r.yes(&f.headless, "headless", "no table: a line per event and second")
	r.yes(&f.json, "json", "with --headless: a JSON object a line, the last of kind summary")
	_ = c.RegisterFlagCompletionFunc("scenario", cobra.FixedCompletions(slices.Concat(lab.Names(), emitlab.Names()), cobra.ShellCompDirectiveNoFileComp))
	_ = c.RegisterFlagCompletionFunc("fleet", cobra.FixedCompletions([]string{fleetAuto, fleetPostgres, fleetSimulated}, cobra.ShellCompDirectiveNoFileComp))
	return c
}

const longHelp = `Run a primary with replicas on loopback, send traffic through the library, and break things.

Scenarios, and how long they last without --for. In those with one fault that is until it is mended: the run
goes on until the replicas take reads again.
%s

With classes of reads, critical, degradable and sheddable ones (docs/degraded.md):
%s

Of consumers that get triggers, with the length of the outage. They need no fleet; --policies compares the
library with what people have today (%s):
%s

Exit status:
  0    the scenario's expectations held, or traffic without a scenario was ended
  1    an expectation did not hold, or the lab could not run
  2    wrong usage
  130  a scenario was interrupted and not judged; or a second signal ended the process at once`

// scenarioList is a line for each scenario whose reads have classes, or have none.
func scenarioList(withClasses bool) string {
	var b strings.Builder
	for _, s := range lab.Scenarios() {
		if s.WithClasses() == withClasses {
			fmt.Fprintf(&b, "  %-15s %3.0fs  %s\n", s.Name, s.Lasts.Seconds(), s.Shows)
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func emitScenarioList() string {
	var b strings.Builder
	for _, s := range emitlab.Scenarios() {
		fmt.Fprintf(&b, "  %-18s %3.0fs  %s\n", s.Name, s.Lasts.Seconds(), s.Shows)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// parsed notes what only the command knows once its flags are read.
func (f *labFlags) parsed(c *cobra.Command, args []string) {
	f.Load, f.set, f.listenGiven, f.Others = loadAverage(), c.Flags(), c.Flags().Changed("listen"), emitlab.Names()
	if _, own, err := c.Root().Find(f.args); err == nil {
		f.faults = append(f.faults, unknownFlags(c.Flags(), own)...)
	}
	for _, arg := range args {
		f.faults = append(f.faults, fmt.Errorf("unexpected argument %q: leave it out, or name a scenario by --scenario", arg))
	}
}

func (f *labFlags) run(ctx context.Context, out, errOut io.Writer) error {
	if f.emits() {
		return f.runEmit(ctx, out, errOut)
	}
	start, listener, err := f.check(ctx)
	if err != nil {
		return err
	}
	if listener != nil {
		defer listener.Close() //nolint:errcheck // the server closes it; this is for the ways out before
	}
	fleet, err := start(ctx, errOut)
	if err != nil {
		if ctx.Err() != nil {
			return f.interrupted()
		}
		return err
	}
	err = f.play(ctx, fleet, listener, out, errOut)
	if closing := fleet.Close(); closing != nil {
		return errors.Join(err, fmt.Errorf("ending the fleet: %w", closing))
	}
	return err
}

// check finds every fault of the command line before anything is started.
func (f *labFlags) check(ctx context.Context) (start starter, listener net.Listener, err error) {
	faults := append(slices.Clone(f.faults), f.Check())
	faults = append(faults, f.checkJSON(), f.checkDir())
	if f.policies != "" {
		faults = append(faults, fmt.Errorf("--policies %q: they are of scenarios of consumers (%s); leave it out, or name one of those", f.policies, strings.Join(emitlab.Names(), ", ")))
	}
	start, err = f.chooseFleet(ctx)
	faults = append(faults, err)
	if f.listenGiven || !f.headless {
		listener, err = f.listenOn(ctx)
		faults = append(faults, err)
	}
	if err := errors.Join(faults...); err != nil {
		if listener != nil {
			_ = listener.Close()
		}
		return nil, nil, usageError{errors.Join(err, errors.New("see breakwater lab --help"))}
	}
	return start, listener, nil
}

func (f *labFlags) checkJSON() error {
	if f.json && !f.headless {
		return errors.New("--json: the table is no JSON; add --headless, or leave it out")
	}
	return nil
}

func (f *labFlags) checkDir() error {
	if f.dir == "" {
		return nil
	}
	if f.fleet == fleetSimulated {
		return fmt.Errorf("--dir %q: a simulated fleet has no files; leave it out, or give --fleet postgres", f.dir)
	}
	f.dir = absolute(f.dir)
	info, err := os.Stat(f.dir)
	switch {
	case err != nil:
		return fmt.Errorf("--dir %q: %w; give an existing directory", f.dir, err)
	case !info.IsDir():
		return fmt.Errorf("--dir %q: not a directory; give an existing one", f.dir)
	}
	return nil
}

// listenOn takes the address that was given; without one the default, or a free port where that is in use.
func (f *labFlags) listenOn(ctx context.Context) (net.Listener, error) {
	ln, err := listen(ctx, f.listen)
	if err != nil && !f.listenGiven {
		return listen(ctx, anyPort)
	}
	return ln, err
}

// listen takes the status interface's port before the fleet is started.
func listen(ctx context.Context, addr string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("--listen %q: %w; give host:port such as %s", addr, err, defaultListen)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, fmt.Errorf("--listen %q: not a loopback address, and the interface asks for no credential; give 127.0.0.1:port", addr)
	}
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("--listen %q: %w; give another port, or port 0 for any that is free", addr, err)
	}
	return ln, nil
}

func (f *labFlags) play(ctx context.Context, fleet lab.Fleet, ln net.Listener, out, errOut io.Writer) error {
	if ln != nil && f.Scenario == "" {
		return f.playPage(ctx, fleet, ln, out, errOut)
	}
	screen := f.screen(ctx, out)
	defer screen.close()
	var status *statusServer
	if ln != nil {
		status = serveStatus(ln, fleet.Version())
		defer status.close()
		fmt.Fprintf(errOut, "status: http://%s/api/v1/status\n", ln.Addr())
	}
	if !f.headless {
		introduce(errOut, fleet)
	}
	live := func(l lab.Live) {
		screen.live(l)
		if status != nil {
			status.set(l)
		}
	}
	result, err := lab.Play(ctx, fleet, f.Options, screen.line, live)
	if err != nil {
		if ctx.Err() != nil {
			return f.interrupted()
		}
		return err
	}
	return f.verdict(result, screen, errOut)
}

// interrupted is how a run ends that was told to: a scenario was not judged, traffic
// without a script was to go on until then.
func (f *labFlags) interrupted() error {
	if f.Scenario == "" {
		return nil
	}
	return errInterrupted
}

// verdict tells the summary and turns it into the exit status.
func (f *labFlags) verdict(r lab.Result, s screen, errOut io.Writer) error {
	if r.Interrupted && f.Scenario != "" {
		fmt.Fprintf(errOut, "breakwater: scenario %s was interrupted after %v and not judged\n", f.Scenario, time.Since(f.Started).Round(time.Second))
		return f.interrupted()
	}
	s.line(r.Summary)
	if len(r.Summary.FailedExpectations) > 0 {
		return errFailed
	}
	return nil
}

// addresses tells where the servers are, a line each: a name and a connection string. Its password is of this fleet alone, and
// ends with it; it stands nowhere else. A simulated fleet takes no psql, and has none.
func addresses(w io.Writer, fleet lab.Fleet) {
	if fleet.Version() == fleetSimulated {
		return
	}
	fmt.Fprintf(w, "\nfleet: %s\n", fleet.Version())
	for _, n := range fleet.Nodes() {
		fmt.Fprintf(w, "  %-8s %s\n", n.Name, n.DSN)
	}
}

// introduce tells a person where the servers are and what to try.
func introduce(w io.Writer, fleet lab.Fleet) {
	if fleet.Version() == fleetSimulated {
		fmt.Fprintf(w, "\nfleet: simulated. It answers the lab's own statements only, not psql.\nCtrl-C ends the lab.\n\n")
		return
	}
	nodes := fleet.Nodes()
	addresses(w, fleet)
	fmt.Fprintf(w, "Join with psql, and its address in quotes. Try, in another terminal, and watch %s leave and come back:\n", nodes[1].Name)
	fmt.Fprintf(w, "  psql '%s' -c 'select pg_wal_replay_pause()'\n", nodes[1].AdminDSN)
	fmt.Fprintf(w, "  psql '%s' -c 'select pg_wal_replay_resume()'\n", nodes[1].AdminDSN)
	fmt.Fprintf(w, "The other replicas take the same with their ports. Programs of yours may use the fleet too: its role may create tables.\n")
	fmt.Fprintf(w, "Ctrl-C ends the lab and removes everything.\n\n")
}
