package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/config"
	"github.com/breakwater-go/breakwater/readpath"
)

const checkHelp = `Read a configuration file and tell every fault in it, one a line, as FILE:LINE:COLUMN: field is value: mend.
docs/configuration.md has every key with its default.

The environment variables that the file names must be set, as they must be where it is used. No connection
string is ever shown.

With --connect each connection string is tried too, all at once, for at most 5 s: what server answers, whether
it is the primary or a replica of it, and whether its role may see what the samplers need. Of each consumer it is
tried whether its host takes a connection, with TLS where its URL says so; nothing is sent to it.

Exit status:
  0    the file is fine
  1    it has a fault, or cannot be read, or with --connect a node or consumer is not as it must be
  2    wrong usage
  130  interrupted`

func newCheck(out, errOut io.Writer) *cobra.Command {
	var connect bool
	c := &cobra.Command{
		Use:   "check FILE",
		Short: "Check a configuration file: every fault with its line and column",
		Long:  checkHelp,
		Args:  oneFile,
		RunE: func(c *cobra.Command, args []string) error {
			return check(c.Context(), args[0], connect, out, errOut)
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return []string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt
		},
	}
	c.Flags().BoolVar(&connect, "connect", false, "connect to every node and consumer and tell what is there")
	return c
}

func oneFile(c *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return usageError{fmt.Errorf("no file: name the configuration file, see %s --help", c.CommandPath())}
	case len(args) > 1:
		return usageError{fmt.Errorf("unexpected argument %q: give one file, see %s --help", args[1], c.CommandPath())}
	}
	return nil
}

func check(ctx context.Context, file string, connect bool, out, errOut io.Writer) error {
	c, err := load(ctx, file)
	if errors.Is(err, errInterrupted) {
		return err
	}
	if err != nil {
		fmt.Fprintln(errOut, err)
		return errFailed
	}
	if connect && !c.HasNodes() && len(c.Consumers) == 0 {
		fmt.Fprintf(errOut, "%s:1:1: primary is missing: --connect needs nodes or consumers; name them, or leave --connect out\n", file)
		return errFailed
	}
	if _, err := fmt.Fprintf(out, "%s: fine: %s\n", file, holds(c)); err != nil || !connect {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, connectWithin)
	defer cancel()
	var consumers []*knock
	var wg sync.WaitGroup
	wg.Go(func() { consumers = knockAll(bounded, c) })
	if c.HasNodes() {
		err = checkNodes(ctx, c, connectWithin, out, errOut)
	}
	wg.Wait()
	if errors.Is(err, errInterrupted) {
		return err
	}
	return errors.Join(err, tellConsumers(c, consumers, out, errOut))
}

// load waits for a file, which may be a pipe that nobody writes, until ctx ends.
func load(ctx context.Context, file string) (*config.Config, error) {
	var c *config.Config
	loaded := make(chan error, 1)
	go func() { //nolint:contextcheck // asking a Router about a Config waits for nothing
		var err error
		c, err = config.Load(file)
		loaded <- err
	}()
	select {
	case err := <-loaded:
		return c, err
	case <-ctx.Done():
		return nil, errInterrupted
	}
}

// holds says in words what a file has.
func holds(c *config.Config) string {
	var parts []string
	if c.HasNodes() {
		parts = append(parts, "a primary and "+count(len(c.DB.Replicas), "replica")+named(c))
	}
	if p := c.ReadPath; p != nil {
		parts = append(parts, "degraded mode for "+count(len(p.Endpoints), "endpoint")+byClass(p))
	}
	if n := len(c.Consumers); n > 0 {
		where := "in memory"
		if c.DeadLetters.Path != "" {
			where = "in " + c.DeadLetters.Path
		}
		parts = append(parts, count(n, "consumer")+consumerNames(c)+", dead letters "+where)
	}
	if len(parts) == 0 {
		parts = append(parts, "settings only")
	}
	if c.Serve() == nil {
		parts = append(parts, "serves on "+c.Daemon.Listen+guarded(c.Daemon.Auth))
	} else {
		parts = append(parts, "not for serve, which wants nodes or consumers")
	}
	return strings.Join(parts, "; ")
}

func named(c *config.Config) string {
	names := make([]string, len(c.DB.Replicas))
	for i, n := range c.DB.Replicas {
		names[i] = n.Name
	}
	return listed(names)
}

func consumerNames(c *config.Config) string {
	names := make([]string, len(c.Consumers))
	for i := range names {
		names[i] = c.Consumers[i].Lane.Name
	}
	return listed(names)
}

// guarded says what a client must have.
func guarded(a config.Auth) string {
	var parts []string
	if a.TLS.Cert != "" {
		parts = append(parts, "TLS")
	}
	if a.TLS.CA != "" {
		parts = append(parts, "client certificates")
	}
	if a.Bearer != "" {
		parts = append(parts, "bearer token")
	}
	if len(parts) == 0 {
		parts = append(parts, "no credential")
	}
	return listed(parts)
}

func byClass(p *readpath.Config) string {
	counts := map[readpath.Class]int{}
	for _, e := range p.Endpoints {
		counts[e.Class]++
	}
	var parts []string
	for _, class := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d %s", counts[class], class))
	}
	return listed(parts)
}

func listed(parts []string) string {
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
