package replica

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
)

// Set is a primary with its replicas: one sampler a node, one breaker a replica.
// Make one with NewSet; the zero Set is not usable.
type Set struct {
	base     time.Time // the Set's clock counts from here; immutable
	classify func(error) breaker.Outcome
	observer Observer

	primary     *node
	replicas    atomic.Pointer[[]*node] // copied on change, under mu
	settings    atomic.Pointer[Settings]
	primarySeen atomic.Int64 // when the last good look at the primary was sent; written under looks

	looks looks
	watch watch

	ctx  context.Context // of the samplers
	stop context.CancelFunc
	mu   struct { // membership; looks may be locked under it, not the other way round
		sync.Mutex
		closed bool
	}
}

// NewSet checks the configuration and starts the samplers. It does not wait for
// them: see Ready. The error joins every fault, each naming its field.
func NewSet(c Config) (*Set, error) {
	s, err := prepare(c)
	if err != nil {
		return nil, err
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.start(s.primary, s.primaryTurn)
	for _, n := range *s.replicas.Load() {
		s.startReplica(n)
	}
	return s, nil
}

// CheckSettings returns the faults for which NewSet would refuse these settings with so many replicas, joined, and
// starts nothing: for a configuration that is read before there are nodes, or while another one is in use.
func CheckSettings(s Settings, replicas int) error {
	nobody := func(context.Context) (Conn, error) { return nil, ErrClosed } // never called
	c := Config{Primary: Node{Name: "primary", Connect: nobody}, Settings: s}
	for i := range replicas {
		c.Replicas = append(c.Replicas, Node{Name: fmt.Sprintf("replica %d", i), Connect: nobody})
	}
	_, err := prepare(c)
	return err
}

// prepare makes a Set whose samplers have not been started.
func prepare(c Config) (*Set, error) {
	st := withDefaults(c.Settings)
	s := &Set{base: time.Now(), classify: c.Classify, observer: c.Observer}
	s.settings.Store(&st)
	s.primarySeen.Store(never)
	s.primary = newNode(s, c.Primary)
	s.primary.view.Store(&view{condition: NoSample, detail: "it has not been sampled yet", asOf: never})
	if err := errors.Join(st.validate(), checkNodes(c)); err != nil {
		return nil, err
	}
	nodes, err := s.newReplicas(c.Replicas)
	if err != nil {
		return nil, err
	}
	s.replicas.Store(&nodes)
	return s, nil
}

func (s *Set) newReplicas(nodes []Node) ([]*node, error) {
	made := make([]*node, 0, len(nodes))
	for _, n := range nodes {
		m, err := s.newReplica(n)
		if err != nil {
			return nil, err
		}
		made = append(made, m)
	}
	return made, nil
}

func (s *Set) newReplica(n Node) (*node, error) {
	m := newNode(s, n)
	m.view.Store(&view{condition: NoSample, detail: "it has not been sampled yet", asOf: never})
	var err error
	m.breaker, err = breaker.New(s.settings.Load().breakerConfig(m, s.classify))
	return m, err
}

func checkNodes(c Config) error {
	faults := []error{checkNode("Primary", c.Primary)}
	if len(c.Replicas) > maxReplicas {
		faults = append(faults, fmt.Errorf("replica: Replicas has %d nodes: give at most %d", len(c.Replicas), maxReplicas))
	}
	seen := map[string]bool{c.Primary.Name: true}
	for i, n := range c.Replicas {
		field := fmt.Sprintf("Replicas[%d]", i)
		faults = append(faults, checkNode(field, n))
		if n.Name != "" && seen[n.Name] {
			faults = append(faults, fmt.Errorf("replica: %s.Name is %q, which another node has: give each node its own name", field, n.Name))
		}
		seen[n.Name] = true
	}
	return errors.Join(faults...)
}

func checkNode(field string, n Node) error {
	var faults []error
	if n.Name == "" {
		faults = append(faults, fmt.Errorf("replica: %s.Name is empty: give the node a name", field))
	}
	if n.Connect == nil {
		faults = append(faults, fmt.Errorf("replica: %s.Connect is nil: give a Connector for %q", field, n.Name))
	}
	if n.MaxInFlight < 0 {
		faults = append(faults, fmt.Errorf("replica: %s.MaxInFlight is %d: give a cap over 0, or 0 for none", field, n.MaxInFlight))
	}
	return errors.Join(faults...)
}

func (s *Set) start(n *node, turn func(context.Context) time.Duration) {
	var ctx context.Context
	ctx, n.cancel = context.WithCancel(s.ctx)
	go n.run(ctx, turn)
}

// startReplica lets the first sample of a replica follow the primary's, since a
// position means nothing before there is one to compare it with.
func (s *Set) startReplica(n *node) {
	s.start(n, func(ctx context.Context) time.Duration {
		select {
		case <-s.primary.first:
		case <-ctx.Done():
			return 0
		}
		return n.replicaTurn(ctx)
	})
}

// now is the Set's clock: nanoseconds since it was made, monotonic.
func (s *Set) now() int64 { return int64(time.Since(s.base)) }

// Close stops the samplers, closes their connections and waits for both. Reads are
// refused from then on. It may be called more than once.
func (s *Set) Close() {
	s.mu.Lock()
	nodes := *s.replicas.Load()
	if !s.mu.closed {
		s.mu.closed = true
		s.stop()
		s.replicas.Store(new([]*node))
	}
	s.mu.Unlock()
	for _, n := range append(slices.Clone(nodes), s.primary) {
		<-n.stopped
	}
}

// Ready waits until each node's first sample has come or failed, or ctx ends.
func (s *Set) Ready(ctx context.Context) error {
	for _, n := range append(slices.Clone(*s.replicas.Load()), s.primary) {
		select {
		case <-n.first:
		case <-n.stopped:
			if err := s.gone(); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// Refresh waits for one extra sample of every node, taken now and shared by all who
// wait (REQ-R16). That a sample fails is no error of Refresh: it is the node's
// condition.
func (s *Set) Refresh(ctx context.Context) error {
	if err := s.await(ctx, s.primary); err != nil {
		return err
	}
	for _, n := range *s.replicas.Load() {
		n.demand.join()
	}
	for _, n := range *s.replicas.Load() {
		if err := s.await(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

// await waits for a node's next sample, well or ill.
func (s *Set) await(ctx context.Context, n *node) error {
	select {
	case <-n.demand.join().done:
		return nil
	case <-n.stopped:
		return s.gone()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// gone is what to say to who waited for a sampler that has ended: nothing if its node was removed.
func (s *Set) gone() error {
	if s.ctx.Err() != nil {
		return ErrClosed
	}
	return nil
}

// Add adds a replica, which takes its share by the slow-start ramp once it is sampled.
func (s *Set) Add(n Node) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		return ErrClosed
	}
	old := *s.replicas.Load()
	if err := s.checkAdd(n, old); err != nil {
		return err
	}
	m, err := s.newReplica(n)
	if err != nil {
		return err
	}
	m.ramp.Store(s.now() + 1)
	nodes := append(slices.Clone(old), m)
	s.replicas.Store(&nodes)
	s.startReplica(m)
	return nil
}

func (s *Set) checkAdd(n Node, old []*node) error {
	c := Config{Primary: s.primary.Node}
	for _, o := range old {
		c.Replicas = append(c.Replicas, o.Node)
	}
	c.Replicas = append(c.Replicas, n)
	return checkNodes(c)
}

// Remove takes a replica out, stops its sampler and waits for it. Reads in flight on
// it end as they would have.
func (s *Set) Remove(name string) error {
	n, err := s.detach(name)
	if err != nil {
		return err
	}
	n.cancel()
	<-n.stopped
	return nil
}

func (s *Set) detach(name string) (*node, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		return nil, ErrClosed
	}
	old := *s.replicas.Load()
	i := slices.IndexFunc(old, func(n *node) bool { return n.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("replica: there is no replica %q to remove", name)
	}
	nodes := slices.Delete(slices.Clone(old), i, i+1)
	s.replicas.Store(&nodes)
	return old[i], nil
}

// Reconfigure replaces the settings while running; breakers keep their state and
// counts (REQ-B16). On an error nothing has changed.
func (s *Set) Reconfigure(st Settings) error {
	st = withDefaults(st)
	if err := st.validate(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		return ErrClosed
	}
	for _, n := range *s.replicas.Load() {
		if err := n.breaker.Reconfigure(st.breakerConfig(n, s.classify)); err != nil {
			return err // the first refuses what all would refuse: nothing has changed
		}
	}
	s.settings.Store(&st)
	for _, n := range append(slices.Clone(*s.replicas.Load()), s.primary) {
		n.demand.nudge()
	}
	return nil
}

// Settings returns the settings in force, with their defaults filled in. They may be changed and handed to Reconfigure.
func (s *Set) Settings() Settings { return *s.settings.Load() }

// find returns the node of that name, nil if there is none.
func (s *Set) find(name string) *node {
	if name == s.primary.Name {
		return s.primary
	}
	for _, n := range *s.replicas.Load() {
		if n.Name == name {
			return n
		}
	}
	return nil
}

// Admits tells whether the breaker of that node lets reads pass now; false for an
// unknown name, true for the primary, which has no breaker.
func (s *Set) Admits(name string) bool {
	n := s.find(name)
	return n != nil && n.admits()
}

// Breaker returns the breaker of a replica, to force or inspect it; nil for the
// primary and for an unknown name.
func (s *Set) Breaker(name string) *breaker.Breaker {
	if n := s.find(name); n != nil {
		return n.breaker
	}
	return nil
}
