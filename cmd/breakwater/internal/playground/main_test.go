package playground

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/consumer"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/emitlab"
	"github.com/breakwater-go/breakwater/internal/leaks"
)

// The test's own program plays the consumers.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == emitlab.RoleConsumer {
		if err := consumer.Run(context.Background(), consumer.Options{Forget: true}, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	flag.Parse()
	if err := flag.Set("test.parallel", "4"); err != nil { // they wait more than they work
		panic(err)
	}
	os.Exit(leaks.Check(m.Run()))
}

func child(role string, args ...string) *exec.Cmd {
	c := exec.Command(os.Args[0], append([]string{role}, args...)...)
	c.Stderr = os.Stderr
	return c
}
