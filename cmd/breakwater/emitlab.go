package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/consumer"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/emitlab"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/lab"
)

// emits tells whether the scenario is one of consumers, which need no fleet.
func (f *labFlags) emits() bool { return emitlab.Has(f.Scenario) }

// emitOptions are the command line as the scenarios of consumers take it.
func (f *labFlags) emitOptions() emitlab.Options {
	o := emitlab.Options{
		Scenario: f.Scenario, Rate: f.Rate, Seed: f.Seed, For: f.For, Dir: f.dir, Load: f.Load, Started: f.Started, Child: child,
	}
	if f.policies != "" {
		o.Policies = strings.Split(f.policies, ",")
	}
	return o
}

// child runs this program again.
func child(role string, args ...string) *exec.Cmd {
	self, err := os.Executable()
	if err != nil {
		self = os.Args[0]
	}
	c := exec.Command(self, append([]string{role}, args...)...) //nolint:gosec,noctx // itself; it ends with its standard input
	c.Stderr = os.Stderr
	return c
}

// checkEmit finds every fault of the command line of a scenario of consumers.
func (f *labFlags) checkEmit() error {
	faults := append(append([]error{}, f.faults...), f.emitOptions().Check())
	for _, name := range []string{"replicas", "fleet", "pg-bin", "listen"} {
		if flag := f.set.Lookup(name); flag.Changed {
			faults = append(faults, fmt.Errorf("--%s %q: scenario %s has consumers and no fleet; leave it out", name, flag.Value, f.Scenario))
		}
	}
	faults = append(faults, f.checkJSON())
	if f.dir != "" && f.Scenario == "crash" {
		faults = append(faults, f.checkDir())
	}
	if err := errors.Join(faults...); err != nil {
		return usageError{errors.Join(err, errors.New("see breakwater lab --help"))}
	}
	return nil
}

func (f *labFlags) runEmit(ctx context.Context, out, errOut io.Writer) error {
	if err := f.checkEmit(); err != nil {
		return err
	}
	screen := f.screen(ctx, out)
	defer screen.close()
	if !f.headless {
		fmt.Fprintf(errOut, "consumers in processes of their own, no fleet. Ctrl-C ends the lab.\n\n")
	}
	result, err := emitlab.Play(ctx, f.emitOptions(), screen.line, func(l emitlab.Live) { screen.live(l) })
	switch {
	case ctx.Err() != nil:
		fmt.Fprintf(errOut, "breakwater: scenario %s was interrupted after %v and not judged\n", f.Scenario, time.Since(f.Started).Round(time.Second))
		return errInterrupted
	case err != nil:
		return err
	}
	screen.line(result.Summary)
	if len(result.Summary.FailedExpectations) > 0 {
		return errFailed
	}
	return nil
}

var _ lab.Line = emitlab.Summary{}

// newConsumer and newEmitter are what the lab runs this program as by itself.
func newConsumer(out io.Writer) *cobra.Command {
	var o consumer.Options
	c := &cobra.Command{
		Use: emitlab.RoleConsumer, Short: "A consumer of the lab's triggers; it ends with its standard input", Hidden: true, Args: noCommand,
		RunE: func(c *cobra.Command, _ []string) error { return consumer.Run(c.Context(), o, os.Stdin, out) },
	}
	c.Flags().Uint64Var(&o.Seed, "seed", 1, "of its latencies")
	c.Flags().BoolVar(&o.Forget, "forget", false, "keep no IDs")
	return c
}

func newEmitter(out io.Writer) *cobra.Command {
	o, urls := emitlab.EmitterOptions{URLs: map[string]string{}}, map[string]*string{}
	c := &cobra.Command{
		Use: emitlab.RoleEmitter, Short: "A router of the lab that is there to be killed; it ends with its standard input", Hidden: true, Args: noCommand,
		RunE: func(c *cobra.Command, _ []string) error {
			for name, url := range urls {
				o.URLs[name] = *url
			}
			return emitlab.RunEmitter(c.Context(), o, os.Stdin, out)
		},
	}
	fs := c.Flags()
	fs.StringVar(&o.Dir, "dir", "", "of the dead letters")
	fs.IntVar(&o.Round, "round", 0, "a number for the IDs")
	fs.IntVar(&o.Rate, "rate", 1, "triggers a second for each consumer")
	fs.Uint64Var(&o.Seed, "seed", 1, "of when they come")
	fs.BoolVar(&o.Drain, "drain", false, "emit nothing, and end once the dead letters are delivered")
	for _, name := range emitlab.Consumers() {
		urls[name] = fs.String(name, "", "URL of the consumer")
	}
	return c
}

// absolute is a directory as it is named everywhere.
func absolute(dir string) string {
	if abs, err := filepath.Abs(dir); err == nil {
		return abs
	}
	return dir
}
