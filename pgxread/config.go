package pgxread

import (
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/breakwater-go/breakwater/replica"
)

const (
	defaultConnectTimeout = 500 * time.Millisecond
	defaultCallTimeout    = 2 * time.Second
	defaultSlowCall       = time.Second
	defaultPrimaryName    = "primary"
)

// Node is one PostgreSQL server.
type Node struct {
	// Name is unique among the nodes and shown in errors and metrics. Required for a
	// replica; default "primary" for the primary.
	Name string
	// DSN is the connection string of the pool, URL or keyword form, with pgxpool's
	// own settings (pool_max_conns and so on). Required. It is never shown.
	DSN string
	// SampleDSN is the connection string of the node's sampler, whose role needs the
	// rights of pg_monitor. Default: connect as the pool does.
	SampleDSN string
}

// Config sets up a DB. Zero fields take their defaults.
type Config struct {
	// Primary takes the writes, and is the reference of every replica's lag. Required.
	Primary Node
	// Replicas take the reads: 0 to 64, also changed later by AddReplica and RemoveReplica.
	Replicas []Node
	// PrimaryReadsDSN is the connection string of a second pool of the primary, in which reads that
	// ask for it run (Requirement.PrimaryOnly, and what falls back to it): its sessions are read-only, so a write hidden in
	// a read fails there as it does on a replica. Best a role of its own with a connection limit, the last line of defence
	// of the primary (REQ-D3): CREATE ROLE app_reads LOGIN CONNECTION LIMIT 20. Default: Primary.DSN.
	PrimaryReadsDSN string
	// Settings are the thresholds and intervals of the Set of replicas.
	Settings replica.Settings

	// ConnectTimeout bounds one attempt to connect to one address of a node. Default 500 ms.
	ConnectTimeout time.Duration
	// CallTimeout bounds one call on one node, from taking a connection to the last
	// row; in a transaction it bounds each statement. A read that is tried on a second
	// node has it twice. Default 2 s; negative: none. Per call: WithCallTimeout.
	CallTimeout time.Duration
	// SlowCall is how long a call must have lasted for its caller's own deadline to count
	// as a failure of the node. Default 1 s.
	SlowCall time.Duration

	// PositionWait is how long a read that asks for a position waits for a replica to replay
	// up to it, on each node that it is tried on; see replica.Set.Await. Default 250 ms; negative: it does not wait.
	PositionWait time.Duration

	// Configure has the last word on the configuration of each node's pool, and is asked twice for
	// the primary, whose pool for reads has default_transaction_read_only set; it may set
	// hooks, and may delete the runtime parameter default_transaction_read_only where a
	// proxy in front of a replica does not know it. The sampler of a node without
	// SampleDSN connects by the same configuration; IsCheck tells its connections from
	// those for requests. The guard that keeps requests from dialling an open replica
	// is put around what Configure sets. Default: nothing.
	Configure func(node string, c *pgxpool.Config)
	// Observer is told what happens in the Set, on the goroutine that makes the event: a
	// sampler, a timer, or the caller whose failed read opened a breaker. Its functions
	// must be quick, may read through the DB, and must not call Close, AddReplica,
	// RemoveReplica or the Set's Reconfigure, Ready, Refresh, Await and Position. Default: nobody.
	Observer replica.Observer
}

// withDefaults fills in what was left zero.
func (c *Config) withDefaults() {
	c.Primary.Name = orDefault(c.Primary.Name, defaultPrimaryName)
	c.ConnectTimeout = orDefault(c.ConnectTimeout, defaultConnectTimeout)
	c.CallTimeout = orDefault(c.CallTimeout, defaultCallTimeout)
	c.SlowCall = orDefault(c.SlowCall, defaultSlowCall)
}

func orDefault[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}

// faults names everything that is wrong with c itself, servers apart.
func (c *Config) faults() []error {
	var faults []error
	faults = appendNegative(faults, "ConnectTimeout", c.ConnectTimeout, defaultConnectTimeout)
	faults = appendNegative(faults, "SlowCall", c.SlowCall, defaultSlowCall)
	seen := map[string]string{c.Primary.Name: "Primary"}
	for i, n := range c.Replicas {
		field := fmt.Sprintf("Replicas[%d]", i)
		switch first, dup := seen[n.Name]; {
		case n.Name == "":
			faults = append(faults, fmt.Errorf("pgxread: %s.Name is empty: give every replica a name of its own", field))
		case dup:
			faults = append(faults, fmt.Errorf("pgxread: %s.Name %q is also the name of %s: give every node a name of its own", field, n.Name, first))
		default:
			seen[n.Name] = field
		}
	}
	return faults
}

func appendNegative(faults []error, field string, d, def time.Duration) []error {
	if d >= 0 {
		return faults
	}
	return append(faults, fmt.Errorf("pgxread: %s %v is negative: use a positive time, or 0 for the default of %v", field, d, def))
}
