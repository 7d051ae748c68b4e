package fleettest

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/breakwater-go/breakwater/internal/fleet"
)

// startWithin bounds the start of a fleet.
const startWithin = time.Minute

// Main starts a fleet, hands it to begin, runs the tests m and ends the fleet. It returns the exit code for
// TestMain, 1 where any of that failed, which it prints. Tests are never skipped where there is no server: the
// error says what to install.
func Main(m interface{ Run() int }, c fleet.Config, begin func(*fleet.Fleet) error) (code int) {
	ctx, cancel := context.WithTimeout(context.Background(), startWithin)
	pg, err := fleet.Start(ctx, c)
	cancel()
	if failed(err) {
		return 1
	}
	defer func() {
		if failed(pg.Close()) {
			code = 1
		}
	}()
	if failed(begin(pg)) {
		return 1
	}
	return m.Run()
}

func failed(err error) bool {
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
	}
	return err != nil
}

// Node is the node called name. It panics if there is none.
func Node(pg *fleet.Fleet, name string) fleet.Node {
	for _, n := range pg.Nodes() {
		if n.Name == name {
			return n
		}
	}
	panic("no node " + name)
}
