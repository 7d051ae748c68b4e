package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/daemon"
)

const serveHelp = `Sample an existing fleet, take triggers for consumers, and serve the page, the interface over HTTP and the metrics.
docs/serve.md says how to run it, docs/configuration.md has every key of the file.

The file is read again on SIGHUP, and within two seconds after it has changed. It is taken whole or not at all: a
file with a fault leaves the settings before it in force.

The first SIGTERM or SIGINT ends it in order: not ready, emits refused, deliveries under way ended or stored. The
second one ends it at once.

Exit status:
  0    it was told to end, and has
  1    the file has a fault, or the process could not start or end in order
  2    wrong usage
  130  a second signal ended it`

func newServe(out, errOut io.Writer) *cobra.Command {
	var file string
	c := &cobra.Command{
		Use:   "serve --config FILE",
		Short: "Run the daemon: an existing fleet and real consumers",
		Long:  serveHelp,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("unexpected argument %q: name the configuration file by --config, see breakwater serve --help", args[0])}
			}
			if file == "" {
				return usageError{errors.New("no --config: name the configuration file, see breakwater serve --help")}
			}
			return serve(c.Context(), file, out, errOut)
		},
	}
	c.Flags().StringVar(&file, "config", "", "the configuration file")
	_ = c.MarkFlagFilename("config", "yaml", "yml") // the flag is there
	return c
}

func serve(ctx context.Context, file string, out, errOut io.Writer) error {
	hangup := make(chan os.Signal, 1)
	signal.Ignore(syscall.SIGHUP) // it ends the other commands
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	c, err := load(ctx, file)
	if err == nil {
		err = c.Serve()
	}
	if err != nil {
		if !errors.Is(err, errInterrupted) {
			fmt.Fprintln(errOut, err)
			return errFailed
		}
		return nil
	}
	return daemon.Run(ctx, daemon.Options{
		File: file, Config: c, Version: version(), Out: out, Log: errOut, Hangup: hangup, Getenv: os.Getenv,
	})
}
