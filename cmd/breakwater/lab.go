package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/lab"
)

// labFlags are the flags of `breakwater lab`.
type labFlags struct {
	lab.Options
	fleet          string
	pgBin, dir     string
	listen         string
	headless, json bool

	listenGiven, forGiven, rateGiven bool
}

const (
	fleetAuto      = "auto"
	fleetPostgres  = "postgres"
	fleetSimulated = "simulated"
	defaultListen  = "127.0.0.1:8080"
)

func newLab(out, errOut io.Writer) *cobra.Command {
	f := &labFlags{}
	c := &cobra.Command{
		Use:   "lab",
		Short: "Run a primary with replicas on loopback, send traffic through the library, break things",
		Long:  "Run a primary with replicas on loopback, send traffic through the library, and break things.\n\nScenarios:\n" + scenarioList(),
		Args:  noCommand,
		RunE: func(c *cobra.Command, _ []string) error {
			f.Started = started
			f.listenGiven = c.Flags().Changed("listen")
			f.forGiven, f.rateGiven = c.Flags().Changed("for"), c.Flags().Changed("rate")
			return f.run(c.Context(), out, errOut)
		},
	}
	fs := c.Flags()
	fs.StringVar(&f.fleet, "fleet", fleetAuto, "auto, postgres or simulated; auto is postgres where its programs are found")
	fs.IntVar(&f.Replicas, "replicas", 3, "how many replicas, 1 to 8")
	fs.StringVar(&f.pgBin, "pg-bin", "", "directory of the PostgreSQL server's programs (default: search)")
	fs.StringVar(&f.dir, "dir", "", "directory in which the fleet makes its own (default: the system's for temporary files)")
	fs.StringVar(&f.listen, "listen", defaultListen, "loopback address of the status interface; with --headless only if given")
	fs.IntVar(&f.Rate, "rate", 0, "reads a second (default: the scenario's own, 200)")
	fs.StringVar(&f.Scenario, "scenario", "", "one of those above (default: traffic until interrupted)")
	fs.Uint64Var(&f.Seed, "seed", 1, "seed of scenario random")
	fs.DurationVar(&f.For, "for", 0, "how long; in a scenario with one fault until the fault is mended (default: the scenario's own)")
	fs.BoolVar(&f.headless, "headless", false, "no table: a line per event and second")
	fs.BoolVar(&f.json, "json", false, "with --headless: a JSON object a line, the last of kind summary")
	_ = c.RegisterFlagCompletionFunc("scenario", cobra.FixedCompletions(lab.Names(), cobra.ShellCompDirectiveNoFileComp))
	_ = c.RegisterFlagCompletionFunc("fleet", cobra.FixedCompletions([]string{fleetAuto, fleetPostgres, fleetSimulated}, cobra.ShellCompDirectiveNoFileComp))
	return c
}

func scenarioList() string {
	var b strings.Builder
	for _, s := range lab.Scenarios() {
		fmt.Fprintf(&b, "  %-12s %s\n", s.Name, s.Shows)
	}
	return b.String()
}

func (f *labFlags) run(ctx context.Context, out, errOut io.Writer) error {
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
	faults := []error{f.Check()}
	if f.rateGiven && f.Rate == 0 {
		faults = append(faults, errors.New("--rate 0: give 1 or more reads a second, or leave it out"))
	}
	if f.forGiven && f.For == 0 {
		faults = append(faults, errors.New("--for 0s: give a positive length such as 30s, or leave it out"))
	}
	if f.json && !f.headless {
		faults = append(faults, errors.New("--json: the table is no JSON; add --headless, or leave it out"))
	}
	faults = append(faults, f.checkDir())
	start, err = f.chooseFleet(ctx)
	faults = append(faults, err)
	if f.listenGiven || !f.headless {
		listener, err = listen(ctx, f.listen)
		faults = append(faults, err)
	}
	if err := errors.Join(faults...); err != nil {
		if listener != nil {
			_ = listener.Close()
		}
		return nil, nil, usageError{err}
	}
	return start, listener, nil
}

func (f *labFlags) checkDir() error {
	if f.dir == "" {
		return nil
	}
	if abs, err := filepath.Abs(f.dir); err == nil {
		f.dir = abs
	}
	info, err := os.Stat(f.dir)
	switch {
	case err != nil:
		return fmt.Errorf("--dir %q: %w; give an existing directory", f.dir, err)
	case !info.IsDir():
		return fmt.Errorf("--dir %q: not a directory; give an existing one", f.dir)
	}
	return nil
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
	screen := f.screen(out)
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

// introduce tells a person where the servers are and what to try.
func introduce(w io.Writer, fleet lab.Fleet) {
	nodes := fleet.Nodes()
	fmt.Fprintf(w, "\nfleet: %s. Join with psql:\n", fleet.Version())
	for _, n := range nodes {
		fmt.Fprintf(w, "  %-8s psql '%s'\n", n.Name, n.DSN)
	}
	if fleet.Version() == fleetSimulated {
		fmt.Fprintln(w, "This fleet is simulated: it answers the lab's own statements only. Try --scenario one-lagging.")
		return
	}
	fmt.Fprintf(w, "Try, in another terminal, and watch %s leave and come back:\n", nodes[1].Name)
	fmt.Fprintf(w, "  psql '%s' -c 'select pg_wal_replay_pause()'\n", nodes[1].AdminDSN)
	fmt.Fprintf(w, "  psql '%s' -c 'select pg_wal_replay_resume()'\n", nodes[1].AdminDSN)
	fmt.Fprintf(w, "Ctrl-C ends the lab and removes everything.\n\n")
}
