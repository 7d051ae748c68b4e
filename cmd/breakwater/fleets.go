package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5"

	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/lab"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/simfleet"
	"github.com/breakwater-go/breakwater/internal/fleet"
)

// finder finds a server's programs, in a directory or, for "", in the usual places.
type finder func(ctx context.Context, dir string) (fleet.Binaries, error)

func findPostgres(ctx context.Context, dir string) (fleet.Binaries, error) {
	return fleet.Find(ctx, dir)
}

// starter starts the fleet that the command line asks for.
type starter func(ctx context.Context, errOut io.Writer) (lab.Fleet, error)

// chooseFleet says which fleet to start; its error is wrong usage.
func (f *labFlags) chooseFleet(ctx context.Context) (starter, error) {
	switch f.fleet {
	case fleetSimulated:
		if lab.NeedsPostgres(f.Scenario) {
			return nil, fmt.Errorf("--fleet %s: scenario %s needs PostgreSQL; give --fleet postgres", f.fleet, f.Scenario)
		}
		if f.pgBin != "" {
			return nil, fmt.Errorf("--pg-bin %q: a simulated fleet has no server programs; leave it out, or give --fleet postgres", f.pgBin)
		}
		return f.startSimulated("as asked for"), nil
	case fleetAuto, fleetPostgres:
		bin, err := f.find(ctx, f.pgBin)
		switch {
		case err == nil:
			return f.startPostgres(bin), nil
		case f.fleet == fleetAuto && f.pgBin == "" && !lab.NeedsPostgres(f.Scenario):
			return f.startSimulated(err.Error()), nil
		case f.pgBin != "":
			return nil, fmt.Errorf("--pg-bin: %w; name the directory that holds initdb and postgres, or leave it out to search", cause(err))
		}
		return nil, fmt.Errorf("--fleet %s: %w with --pg-bin, or take --fleet simulated", f.fleet, err)
	}
	return nil, fmt.Errorf("--fleet %q: not known; take one of auto, postgres, simulated", f.fleet)
}

// cause is the part of Find's error that says what is wrong with the directory, and names it.
func cause(err error) error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		parts := joined.Unwrap()
		return parts[len(parts)-1]
	}
	return err
}

func (f *labFlags) startSimulated(why string) starter {
	return func(ctx context.Context, errOut io.Writer) (lab.Fleet, error) {
		fmt.Fprintf(errOut, "SIMULATED fleet, no PostgreSQL: %s\n", why)
		return simfleet.Start(ctx, f.Replicas)
	}
}

func (f *labFlags) startPostgres(bin fleet.Binaries) starter {
	return func(ctx context.Context, errOut io.Writer) (lab.Fleet, error) {
		fmt.Fprintf(errOut, "starting %s (%s): primary and %d replicas …\n", bin.Version, bin.Dir, f.Replicas)
		real, err := fleet.Start(ctx, fleet.Config{
			BinDir: bin.Dir, Dir: f.dir, Replicas: f.Replicas, SQL: execute,
			Log: func(format string, args ...any) { fmt.Fprintf(errOut, format+"\n", args...) },
		})
		if err != nil {
			return nil, err
		}
		return realFleet{real}, nil
	}
}

// execute runs one statement for the fleet, which knows no driver.
func execute(ctx context.Context, dsn, query string) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, query)
	return errors.Join(err, conn.Close(ctx))
}

// realFleet is the real fleet as the lab sees it.
type realFleet struct{ *fleet.Fleet }

// Nodes lists the primary, then the replicas.
func (f realFleet) Nodes() []lab.Node {
	var nodes []lab.Node
	for _, n := range f.Fleet.Nodes() {
		nodes = append(nodes, lab.Node{Name: n.Name, DSN: n.DSN, AdminDSN: n.AdminDSN})
	}
	return nodes
}
