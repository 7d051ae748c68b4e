package relay_test

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/internal/relay"
)

// Under any interleaving of modes, what a client hears is a prefix of what it
// said: never a byte out of order, never a hole.
func TestStressNoHolesUnderChangingModes(t *testing.T) {
	r := start(t, echo(t))
	stop := make(chan struct{})
	var heard atomic.Int64 // bytes, by all clients
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					counting(t, r, &heard)
				}
			}
		})
	}
	modes := []relay.Mode{relay.Blackhole, relay.Pass, relay.Refuse, relay.Pass}
	begin := time.Now()
	for i := 0; i < 200 || heard.Load() == 0 && time.Since(begin) < patience; i++ {
		set(t, r, modes[i%len(modes)])
		_ = r.SetDelay(time.Duration(i%3) * time.Millisecond)
		c := dialQuiet(r)
		if c != nil {
			c.Close()
		}
	}
	set(t, r, relay.Pass)
	close(stop)
	clients.Wait()
	if got := heard.Load(); got == 0 {
		t.Errorf("got %d bytes through in %v, want some: this shows nothing", got, time.Since(begin))
	}
}

func dialQuiet(r *relay.Relay) net.Conn {
	c, err := net.Dial("tcp4", r.Addr())
	if err != nil {
		return nil
	}
	return c
}

// counting says 0, 1, 2, … and checks that it hears them in order until the
// connection ends or is mute for a moment.
func counting(t *testing.T, r *relay.Relay, heard *atomic.Int64) {
	t.Helper()
	c := dialQuiet(r)
	if c == nil {
		return
	}
	defer c.Close()
	buf := make([]byte, 1)
	for i := range 100 {
		c.SetDeadline(time.Now().Add(20 * time.Millisecond))
		if _, err := c.Write([]byte{byte(i)}); err != nil {
			return
		}
		if _, err := c.Read(buf); err != nil {
			return
		}
		heard.Add(1)
		if got, want := buf[0], byte(i); got != want {
			t.Errorf("got %d, want %d: a hole in the stream", got, want)
			return
		}
	}
}
