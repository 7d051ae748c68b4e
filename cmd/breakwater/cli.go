package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/config"
)

// Exit statuses. Scripts depend on them.
const (
	exitHeld        = 0
	exitFailed      = 1 // an expectation did not hold, a file has a fault, or the lab could not run
	exitUsage       = 2
	exitInterrupted = 130
)

// usageError is wrong usage: every fault at once.
type usageError struct{ err error }

// Error lists the faults, one a line.
func (e usageError) Error() string { return e.err.Error() }

func (e usageError) Unwrap() error { return e.err }

// errFailed and errInterrupted end a run that has said all there is to say.
var (
	errFailed      = errors.New("expectations failed")
	errInterrupted = errors.New("interrupted")
)

func run(args []string, out, errOut io.Writer) int {
	ctx, stop := interruptible(errOut)
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	root := newRoot(args, watched{out, cancel}, errOut)
	err := root.ExecuteContext(ctx)
	if err != nil && !errors.Is(err, errFailed) && !errors.Is(err, errInterrupted) {
		complain(errOut, err)
	}
	return status(err)
}

func status(err error) int {
	var usage usageError
	switch {
	case err == nil:
		return exitHeld
	case errors.As(err, &usage):
		return exitUsage
	case errors.Is(err, errInterrupted):
		return exitInterrupted
	}
	return exitFailed
}

func complain(w io.Writer, err error) {
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintf(w, "breakwater: %s\n", strings.TrimRight(line, "\n"))
	}
}

// oneSignal is how long signals count as one: timeout(1) and shells send theirs to the
// process and to its group.
const oneSignal = 500 * time.Millisecond

// watched ends the run when its reader has gone.
type watched struct {
	io.Writer
	gone func()
}

// Write writes, and ends the run if that fails.
func (w watched) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	if err != nil {
		w.gone()
	}
	return n, err
}

// ending are the signals that end the lab: Ctrl-C, kill, and a closed terminal unless
// nohup has that ignored.
func ending() []os.Signal {
	all := []os.Signal{syscall.SIGINT, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		all = append(all, syscall.SIGHUP)
	}
	return all
}

// interruptible ends the context at the first of those signals and the process at the
// second, without cleaning up: the next start sweeps.
func interruptible(errOut io.Writer) (context.Context, func()) {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, ending()...)
	// A broken pipe then fails the write instead of ending the process. The signal itself
	// says nothing: writing to a killed server's connection raises it too.
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, syscall.SIGPIPE)
	done := make(chan struct{})
	go func() {
		select {
		case <-signals:
			cancel()
		case <-done:
			return
		}
		for begun := time.Now(); time.Since(begun) < oneSignal; {
			select {
			case <-signals:
			case <-time.After(oneSignal - time.Since(begun)):
			case <-done:
				return
			}
		}
		select {
		case <-signals:
			fmt.Fprintln(errOut, "\nbreakwater: forced to end; the next start removes what is left")
			os.Exit(exitInterrupted)
		case <-done:
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		signal.Stop(pipe)
		close(done)
		cancel()
	}
}

func newRoot(args []string, out, errOut io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:           "breakwater",
		Short:         "Circuit breakers for reads that go to database replicas, and for triggers that go to consumers",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noCommand,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(errOut)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w; see %s --help", err, c.CommandPath())}
	})
	root.Version = version()
	root.SetVersionTemplate("breakwater {{.Version}}\n") // as command version prints it
	root.AddCommand(
		newLab(args, out, errOut), newServe(out, errOut), newCheck(out, errOut), newSchema(out), newAssets(out), newVersion(out), newConsumer(out), newEmitter(out),
	)
	strict(root)
	return root
}

// strict makes cobra's own commands refuse what they do not know, as ours do.
func strict(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		switch c.Name() {
		case "help":
			c.Args = knownCommand
		case "completion":
			c.Args = noCommand
			c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
			for _, shell := range c.Commands() {
				shell.Args = noCommand
			}
		}
	}
}

// knownCommand refuses arguments that do not lead to a command.
func knownCommand(c *cobra.Command, args []string) error {
	if _, rest, err := c.Root().Find(args); err != nil || len(rest) > 0 {
		return usageError{fmt.Errorf("%s: unknown command %q; see %s --help", c.CommandPath(), strings.Join(args, " "), c.Root().CommandPath())}
	}
	return nil
}

// noCommand refuses what is no command, as wrong usage.
func noCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return usageError{fmt.Errorf("%s: unexpected argument %q; see %s --help", c.CommandPath(), args[0], c.CommandPath())}
}

func newSchema(out io.Writer) *cobra.Command {
	return &cobra.Command{
		Use: "schema", Short: "Print the JSON Schema of the configuration file, for editors", Args: noCommand,
		Long: "Print the JSON Schema (draft 2020-12) of the configuration file. Editors that speak YAML's language server take it by a first line\n" +
			"  # yaml-language-server: $schema=breakwater.schema.json",
		RunE: func(*cobra.Command, []string) error {
			_, err := io.WriteString(out, config.Schema)
			return err
		},
	}
}

func newVersion(out io.Writer) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: noCommand,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(out, "breakwater", version())
			return err
		},
	}
}

// version is the module's version, or the commit it was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "(unknown)"
	}
	v := info.Main.Version
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && (v == "" || v == "(devel)") {
			v = s.Value
		}
	}
	if v == "" {
		v = "(devel)"
	}
	return v + " " + info.GoVersion
}
