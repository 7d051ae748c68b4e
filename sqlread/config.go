package sqlread

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/breakwater-go/breakwater/replica"
)

const (
	defaultConnectTimeout  = 500 * time.Millisecond
	defaultCallTimeout     = 2 * time.Second
	defaultSlowCall        = time.Second
	defaultMaxConns        = 4
	defaultMaxConnLifetime = time.Hour
	defaultMaxConnIdleTime = 30 * time.Minute
	defaultPrimaryName     = "primary"
)

// Node is one PostgreSQL server.
type Node struct {
	// Name is unique among the nodes and shown in errors and metrics. Required for a
	// replica; default "primary" for the primary.
	Name string
	// Connector makes the connections of the node's pool. Required. It must lead to one server.
	Connector driver.Connector
	// SampleConnector makes the connections of the node's sampler, whose role needs the
	// rights of pg_monitor. Default: Connector.
	SampleConnector driver.Connector
	// MaxConns is the most connections of the pool, and for a replica the most reads in
	// flight (REQ-R17). All of them may be idle. Default 4 or the number of processors, the greater one.
	MaxConns int
}

// Config sets up a DB. Zero fields take their defaults.
type Config struct {
	// Primary takes the writes, and is the reference of every replica's lag. Required.
	Primary Node
	// Replicas take the reads: 0 to 64, also changed later by AddReplica and RemoveReplica.
	Replicas []Node
	// PrimaryReads makes the connections of a second pool of the primary, in which reads that ask for it run
	// (Requirement.PrimaryOnly, and what falls back to it): its sessions are made read-only, so a write hidden in a read fails there
	// as it does on a replica. Best of a role of its own with a connection limit, the last line of defence of the primary
	// (REQ-D3). The pool has as many connections as Primary.MaxConns. Default: Primary.Connector.
	PrimaryReads driver.Connector
	// Settings are the thresholds and intervals of the Set of replicas.
	Settings replica.Settings

	// ConnectTimeout bounds one attempt to connect to a node. Default 500 ms.
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
	// MaxConnLifetime is how long a connection is used. Default 1 h; negative: for ever.
	MaxConnLifetime time.Duration
	// MaxConnIdleTime is how long a connection is kept idle. Default 30 min; negative: for ever.
	MaxConnIdleTime time.Duration

	// Observer is told what happens in the Set, on the goroutine that makes the event: a
	// sampler, a timer, or the caller whose failed read opened a breaker. Its functions
	// must be quick, may read through the DB, and must not call Close, AddReplica,
	// RemoveReplica or the Set's Reconfigure, Ready, Refresh, Await and Position. Default: nobody.
	Observer replica.Observer
}

// withDefaults fills in what was left zero.
func (c *Config) withDefaults() {
	c.Primary.Name = orDefault(c.Primary.Name, defaultPrimaryName)
	if c.PrimaryReads == nil {
		c.PrimaryReads = c.Primary.Connector
	}
	c.ConnectTimeout = orDefault(c.ConnectTimeout, defaultConnectTimeout)
	c.CallTimeout = orDefault(c.CallTimeout, defaultCallTimeout)
	c.SlowCall = orDefault(c.SlowCall, defaultSlowCall)
	c.MaxConnLifetime = orDefault(c.MaxConnLifetime, defaultMaxConnLifetime)
	c.MaxConnIdleTime = orDefault(c.MaxConnIdleTime, defaultMaxConnIdleTime)
}

func (n *Node) withDefaults() {
	n.MaxConns = orDefault(n.MaxConns, max(defaultMaxConns, runtime.NumCPU()))
	if n.SampleConnector == nil {
		n.SampleConnector = n.Connector
	}
}

func orDefault[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}

// faults joins everything that is wrong with c itself, servers apart.
func (c *Config) faults() error {
	faults := []error{
		negative("ConnectTimeout", c.ConnectTimeout, defaultConnectTimeout),
		negative("SlowCall", c.SlowCall, defaultSlowCall),
		c.Primary.fault("Primary"),
	}
	seen := map[string]string{c.Primary.Name: "Primary"}
	for i, n := range c.Replicas {
		field := fmt.Sprintf("Replicas[%d]", i)
		faults = append(faults, n.fault(field))
		if first, dup := seen[n.Name]; dup && n.Name != "" {
			faults = append(faults, fmt.Errorf("sqlread: %s.Name %q is also the name of %s: give every node a name of its own", field, n.Name, first))
			continue
		}
		seen[n.Name] = field
	}
	return errors.Join(append(faults, replica.CheckSettings(c.Settings, len(c.Replicas)))...)
}

func (n *Node) fault(field string) error {
	var faults []error
	if n.Name == "" {
		faults = append(faults, fmt.Errorf("sqlread: %s.Name is empty: give every replica a name of its own", field))
	}
	if n.Connector == nil {
		faults = append(faults, fmt.Errorf("sqlread: %s.Connector is nil: give the driver's connector for this server", field))
	}
	if n.MaxConns < 0 {
		faults = append(faults, fmt.Errorf("sqlread: %s.MaxConns %d is negative: give at least 1, or 0 for the default", field, n.MaxConns))
	}
	return errors.Join(faults...)
}

func negative(field string, d, def time.Duration) error {
	if d >= 0 {
		return nil
	}
	return fmt.Errorf("sqlread: %s %v is negative: use a positive time, or 0 for the default of %v", field, d, def)
}
