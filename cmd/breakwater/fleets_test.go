package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/lab"
	"github.com/breakwater-go/breakwater/internal/fleet"
)

// findNothing is a machine without PostgreSQL.
func findNothing(context.Context, string) (fleet.Binaries, error) {
	return fleet.Binaries{}, fmt.Errorf("%w: looked nowhere; install it", fleet.ErrNoServer)
}

func withoutPostgres(which string) *labFlags {
	return &labFlags{
		Options: lab.Options{Replicas: 3, For: 2 * time.Second, Started: time.Now()},
		fleet:   which, find: findNothing, listen: defaultListen, headless: true, json: true,
	}
}

// Where there is no PostgreSQL, --fleet auto runs on the simulated fleet, and says so.
func TestNoPostgresToBeFound(t *testing.T) {
	var out, errOut bytes.Buffer
	if err := withoutPostgres(fleetAuto).run(t.Context(), &out, &errOut); err != nil {
		t.Fatalf("%v\n%s", err, errOut.String())
	}
	all := lines(t, out.String())
	if s := all[len(all)-1]; s["kind"] != "summary" || s["fleet"] != "simulated" || s["reads"].(float64) < 1 {
		t.Errorf("last line: got %v, want the summary of a simulated fleet", s)
	}
	if want := "SIMULATED fleet, no PostgreSQL: fleet: no PostgreSQL server found: looked nowhere; install it"; !strings.Contains(errOut.String(), want) {
		t.Errorf("got %q, want %q in it", errOut.String(), want)
	}
}

// With --fleet postgres that is wrong usage, which names the flag and what to install.
func TestNoPostgresThoughAskedFor(t *testing.T) {
	var out, errOut bytes.Buffer
	err := withoutPostgres(fleetPostgres).run(t.Context(), &out, &errOut)
	if status(err) != exitUsage || !errors.Is(err, fleet.ErrNoServer) {
		t.Fatalf("got %v, want wrong usage", err)
	}
	for _, want := range []string{"--fleet postgres", "install it", "--pg-bin", "--fleet simulated"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %q, want %q in it", err, want)
		}
	}
}

// The default port in use is no fault of the person who gave none.
func TestListenFallsBack(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	f := &labFlags{listen: taken.Addr().String()}
	ln, err := f.listenOn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if ln.Addr().String() == f.listen {
		t.Errorf("got %v, want another port", ln.Addr())
	}
	f.listenGiven = true
	if _, err := f.listenOn(t.Context()); err == nil || !strings.Contains(err.Error(), "another port") {
		t.Errorf("given: got %v, want an error that says to give another port", err)
	}
}

// A person is not told to join a fleet that answers nobody.
func TestIntroduceSimulated(t *testing.T) {
	start := (&labFlags{Options: lab.Options{Replicas: 1}}).startSimulated("as asked for")
	var out bytes.Buffer
	sim, err := start(t.Context(), &out)
	if err != nil {
		t.Fatal(err)
	}
	defer sim.Close()
	introduce(&out, sim)
	if got := out.String(); !strings.Contains(got, "Ctrl-C ends the lab") || strings.Contains(got, "psql '") {
		t.Errorf("got %q, want how to end it and no psql command", got)
	}
}

func TestParseLoad(t *testing.T) {
	if got := parseLoad("1.97 0.80 0.55 2/300 4711\n"); got == nil || *got != 1.97 {
		t.Errorf("got %v, want 1.97", got)
	}
	if got := parseLoad("busy"); got != nil {
		t.Errorf("got %v, want nil", *got)
	}
}
