package proxycheck

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/replica"
)

// AgentConfig says who is asked for. Set is required.
type AgentConfig struct {
	// Set is asked at each check; nil from it: no replica takes reads.
	Set func() *replica.Set
	// MaxStaleness is the bound of the reads that the proxy sends. Default: that of the Set.
	MaxStaleness time.Duration
	// Redact takes secrets out of the reason, which may be an operator's words. Default: none.
	Redact func(string) string
	// Clients is how many checks may be under way at once; what exceeds it is closed unanswered, which changes nothing in HAProxy. Default: 256.
	Clients int
	// Timeout bounds one check, name and answer. Default: 2 s.
	Timeout time.Duration
}

// An Agent answers the agent checks of HAProxy. Make it with NewAgent.
//
// HAProxy connects, sends the name of a replica and a line feed (agent-send "r1\n"), and is answered with one line: "up 35%", its part of its share of
// traffic, which follows the slow start (REQ-R9); or a word for down with the reason behind a number sign. The words all do the same and tell people why:
// "stopped" by an operator, "down" unreachable or not known, "fail" all else. It never says ready, drain or maint, which are the operator's.
type Agent struct {
	config AgentConfig // immutable
	conns  sync.WaitGroup
	ended  chan struct{}
	mu     struct {
		sync.Mutex
		closed bool
		open   map[io.Closer]bool // listeners and connections
	}
}

// NewAgent makes an Agent. The error names every fault of the configuration.
func NewAgent(c AgentConfig) (*Agent, error) {
	if c.Clients == 0 {
		c.Clients = 256
	}
	if c.Timeout == 0 {
		c.Timeout = 2 * time.Second
	}
	var faults []error
	if c.Set == nil {
		faults = append(faults, errors.New("proxycheck: Set is nil: give a function that returns the Set"))
	}
	if c.MaxStaleness < 0 {
		faults = append(faults, fmt.Errorf("proxycheck: MaxStaleness is %v: give a time above 0", c.MaxStaleness))
	}
	if c.Clients < 0 {
		faults = append(faults, fmt.Errorf("proxycheck: Clients is %d: give a number above 0", c.Clients))
	}
	if c.Timeout < 0 {
		faults = append(faults, fmt.Errorf("proxycheck: Timeout is %v: give a time above 0", c.Timeout))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	a := &Agent{config: c, ended: make(chan struct{})}
	a.mu.open = map[io.Closer]bool{}
	return a, nil
}

// again is how long it waits after an accept that failed, for want of file descriptors say.
const again = 100 * time.Millisecond

// Serve answers on a listener, which it closes, until Close; then it returns nil. Another error is that of a listener that was closed elsewhere.
func (a *Agent) Serve(l net.Listener) error {
	if !a.enter(l, 0) {
		return nil
	}
	defer a.leave(l)
	for {
		conn, err := l.Accept()
		switch {
		case err == nil:
			a.take(conn)
		case a.isClosed():
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("proxycheck: the listener of the agent checks ended: %w", err)
		default:
			a.pause()
		}
	}
}

func (a *Agent) pause() {
	t := time.NewTimer(again)
	defer t.Stop()
	select {
	case <-t.C:
	case <-a.ended:
	}
}

// enter remembers what Close has to close, unless it is too late or there are most already; 0 is no limit. What is not taken is closed.
func (a *Agent) enter(c io.Closer, most int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.mu.closed || most > 0 && len(a.mu.open) >= most {
		_ = c.Close()
		return false
	}
	a.mu.open[c] = true
	a.conns.Add(1)
	return true
}

func (a *Agent) leave(c io.Closer) {
	_ = c.Close()
	a.mu.Lock()
	delete(a.mu.open, c)
	a.mu.Unlock()
	a.conns.Done()
}

func (a *Agent) isClosed() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.mu.closed
}

// Close ends all listeners and connections, and waits for them. It may be called again, and returns nil.
func (a *Agent) Close() error {
	a.mu.Lock()
	if !a.mu.closed {
		a.mu.closed = true
		close(a.ended)
	}
	for c := range a.mu.open {
		_ = c.Close()
	}
	a.mu.Unlock()
	a.conns.Wait()
	return nil
}

// take answers a check on a goroutine of its own; the listener is one of those that are open.
func (a *Agent) take(conn net.Conn) {
	if a.enter(conn, a.config.Clients+1) {
		go func() {
			defer a.leave(conn)
			a.answer(conn)
		}()
	}
}

const (
	// maxName is more than any name of a node should have.
	maxName = 256
	// restWithin is how long a name may take once it has begun. One without its line feed is answered then, which is sooner than HAProxy gives up.
	restWithin = 200 * time.Millisecond
)

func (a *Agent) answer(conn net.Conn) {
	_ = conn.SetDeadline(time.Now().Add(a.config.Timeout))
	r := bufio.NewReaderSize(io.LimitReader(conn, maxName), maxName)
	if _, err := r.Peek(1); err != nil {
		return // nothing comes: of whom it asks is not known, and no answer changes nothing
	}
	_ = conn.SetReadDeadline(time.Now().Add(min(restWithin, a.config.Timeout)))
	line, _ := r.ReadString('\n') // what came is the name
	_, _ = io.WriteString(conn, a.words(strings.TrimSpace(line))+"\n")
}

// words is the answer about a replica. HAProxy takes what follows the number sign for its log and its page.
func (a *Agent) words(name string) string {
	set := a.config.Set()
	v, known := look(set, name, a.config.MaxStaleness)
	switch {
	case !known:
		return "down #" + oneLine(unknown(name))
	case v.Condition == replica.Fit:
		return fmt.Sprintf("up %d%%", percent(v.Share))
	}
	word := "fail"
	if b := set.Breaker(name); b != nil && b.State() == breaker.ForcedOpen {
		word = "stopped"
	} else if v.Condition == replica.Unreachable || v.Condition == replica.NoSample {
		word = "down"
	}
	return fmt.Sprintf("%s #%v: %s", word, v.Condition, oneLine(redacted(a.config.Redact, why(set, name, &v))))
}
