package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	defaultReplicas    = 3
	defaultStartBudget = 60 * time.Second
	// maxReplicas is one less than max_wal_senders, whose default (10) must be
	// kept: a standby refuses to start when its own value is lower.
	maxReplicas = 9

	primaryName = "primary"
)

// SQL runs one statement on the server of a DSN and discards its rows. It must
// end when ctx does. The fleet calls it from several goroutines at once.
type SQL func(ctx context.Context, dsn, query string) error

// Config says what to start. SQL is required; every other field's zero value is
// its default.
type Config struct {
	// BinDir holds the server's programs. Default: search, see Find.
	BinDir string
	// Dir is an existing directory in which the fleet makes one of its own,
	// which Close removes. As root, user postgres must be able to enter it.
	// Default: os.TempDir().
	Dir string
	// Replicas counts the standbys r1, r2, …; 1 to 9. Default: 3.
	Replicas int
	// Upstream names, for a replica, the replica it streams from, for cascades:
	// {"r3": "r1"}. Default: every replica streams from the primary.
	Upstream map[string]string
	// SQL runs statements, so that this package needs no driver.
	SQL SQL
	// Log gets one line a step, in Printf form. Default: none.
	Log func(format string, args ...any)
	// StartBudget bounds Start. Default: 60 s.
	StartBudget time.Duration
}

func (c Config) withDefaults() Config {
	if c.Dir == "" {
		c.Dir = os.TempDir()
	}
	if c.Replicas == 0 {
		c.Replicas = defaultReplicas
	}
	if c.StartBudget == 0 {
		c.StartBudget = defaultStartBudget
	}
	if c.Log == nil {
		c.Log = func(string, ...any) {}
	}
	return c
}

// check names every fault of a config with defaults applied, not just the first.
func (c Config) check() error {
	var faults []error
	if c.SQL == nil {
		faults = append(faults, errors.New("fleet: Config.SQL is nil: set a function that runs one statement on a DSN"))
	}
	if c.Replicas < 1 || c.Replicas > maxReplicas {
		faults = append(faults, fmt.Errorf("fleet: Config.Replicas is %d: use 1 to %d", c.Replicas, maxReplicas))
	}
	if c.StartBudget < 0 {
		faults = append(faults, fmt.Errorf("fleet: Config.StartBudget is %v: use a positive duration, or 0 for %v", c.StartBudget, defaultStartBudget))
	}
	if info, err := os.Stat(c.Dir); err != nil {
		faults = append(faults, fmt.Errorf("fleet: Config.Dir: %w: name an existing directory", err))
	} else if !info.IsDir() {
		faults = append(faults, fmt.Errorf("fleet: Config.Dir %q is a file: name a directory", c.Dir))
	}
	return errors.Join(append(faults, c.checkUpstreams()...)...)
}

func (c Config) checkUpstreams() []error {
	names := replicaNames(c.Replicas)
	var faults []error
	for _, name := range sortedKeys(c.Upstream) {
		up := c.Upstream[name]
		where := fmt.Sprintf("fleet: Config.Upstream[%q] is %q", name, up)
		switch {
		case !slices.Contains(names, name):
			faults = append(faults, fmt.Errorf("%s: there is no replica %q: name one of %s", where, name, strings.Join(names, ", ")))
		case up != primaryName && !slices.Contains(names, up):
			faults = append(faults, fmt.Errorf("%s: there is no such node: name primary or one of %s", where, strings.Join(names, ", ")))
		case c.inCycle(name):
			faults = append(faults, fmt.Errorf("%s: it streams from itself in the end: let one replica of the circle stream from the primary", where))
		}
	}
	return faults
}

func (c Config) inCycle(name string) bool {
	at := name
	for range c.Upstream { // a circle through name is at most this long
		if at = c.Upstream[at]; at == name {
			return true
		}
	}
	return false
}

func replicaNames(n int) []string {
	var names []string
	for i := range n {
		names = append(names, "r"+strconv.Itoa(i+1))
	}
	return names
}

func sortedKeys(m map[string]string) []string {
	return slices.Sorted(maps.Keys(m))
}
