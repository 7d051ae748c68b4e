package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

func main() {
	err := run(os.Args[1:], os.Stdout, os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func run(args []string, out, faults io.Writer) error {
	flags := flag.NewFlagSet("peers", flag.ContinueOnError)
	flags.SetOutput(faults)
	rounds := flags.Int("rounds", 300, "how many `rounds`, at least 10")
	batch := flags.Duration("batch", 200*time.Microsecond, "what a contender runs at a time")
	limit := flags.Duration("limit", 90*time.Second, "where fewer rounds must do, on a busy machine")
	page := flags.String("write", "", "a Markdown `file` that gets the table, between its marks")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *rounds < minRounds {
		return fmt.Errorf("-rounds is %d: use at least %d", *rounds, minRounds)
	}
	return play(plan{*rounds, *batch, *limit}, *page, out)
}

func play(p plan, page string, out io.Writer) error {
	if _, err := rewritten(page, ""); err != nil {
		return err // now and not after a minute
	}
	list := contests()
	measured, err := measure(list, p)
	if err != nil {
		return err
	}
	r := report{machine: thisMachine(), contests: list, figures: measured}
	var table strings.Builder
	r.writeTable(&table)
	fmt.Fprintln(out, table.String())
	if err := rewrite(page, table.String()); err != nil {
		return err
	}
	return r.writeJSON(out)
}

// rewrite puts the table into a page, if one is named.
func rewrite(page, table string) error {
	text, err := rewritten(page, table)
	if err != nil || page == "" {
		return err
	}
	return os.WriteFile(page, []byte(text), 0o644)
}

func rewritten(page, table string) (string, error) {
	if page == "" {
		return "", nil
	}
	old, err := os.ReadFile(page)
	if err != nil {
		return "", err
	}
	text, err := replaceTable(string(old), table)
	if err != nil {
		return "", fmt.Errorf("%s: %w", page, err)
	}
	return text, nil
}
