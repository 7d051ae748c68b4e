package emitlab

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/consumer"
	"github.com/breakwater-go/breakwater/internal/leaks"
)

// The test's own program plays the processes that a run starts.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case RoleConsumer:
			playRole(consumer.Run(context.Background(), consumer.Options{Seed: 1}, os.Stdin, os.Stdout))
		case RoleEmitter:
			playRole(runEmitter(os.Args[2:]))
		}
	}
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil { // the runs wait most of the time
		panic(err)
	}
	os.Exit(leaks.Check(m.Run()))
}

func playRole(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func runEmitter(args []string) error {
	o := EmitterOptions{URLs: map[string]string{}}
	fs := flag.NewFlagSet(RoleEmitter, flag.ContinueOnError)
	fs.StringVar(&o.Dir, "dir", "", "")
	fs.IntVar(&o.Round, "round", 0, "")
	fs.IntVar(&o.Rate, "rate", 1, "")
	fs.Uint64Var(&o.Seed, "seed", 1, "")
	fs.BoolVar(&o.Drain, "drain", false, "")
	for _, name := range Consumers() {
		fs.Func(name, "", func(url string) error { o.URLs[name] = url; return nil })
	}
	if err := fs.Parse(args); err != nil {
		return err
	}
	return RunEmitter(context.Background(), o, os.Stdin, os.Stdout)
}

func child(role string, args ...string) *exec.Cmd {
	c := exec.Command(os.Args[0], append([]string{role}, args...)...)
	c.Stderr = os.Stderr
	return c
}
