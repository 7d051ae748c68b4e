package relay_test

import (
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/internal/relay"
)

// patience bounds waits that a broken relay would make endless.
const patience = 10 * time.Second

// echo answers every byte with itself and counts its connections' ends.
func echo(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				io.Copy(c, c)
			})
		}
	})
	t.Cleanup(func() { ln.Close(); wg.Wait() })
	return ln.Addr().String()
}

func start(t *testing.T, target string) *relay.Relay {
	t.Helper()
	r, err := relay.New(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func dial(t *testing.T, r *relay.Relay) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp4", r.Addr())
	if err != nil {
		t.Fatal(err)
	}
	c.SetDeadline(time.Now().Add(patience))
	t.Cleanup(func() { c.Close() })
	return c
}

func say(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := c.Write([]byte(text)); err != nil {
		t.Fatalf("write %q: %v", text, err)
	}
}

func hear(t *testing.T, c net.Conn, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
		t.Fatalf("got %q, %v, want %q", got, err, want)
	}
}

func wantReset(t *testing.T, c net.Conn) {
	t.Helper()
	_, err := c.Read(make([]byte, 1))
	if !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
		t.Fatalf("got %v, want a reset", err)
	}
}

// wantNewReset connects; the reset may come with the connect or with the read.
func wantNewReset(t *testing.T, r *relay.Relay) {
	t.Helper()
	c, err := net.Dial("tcp4", r.Addr())
	if errors.Is(err, syscall.ECONNRESET) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	wantReset(t, c)
}

func set(t *testing.T, r *relay.Relay, m relay.Mode) {
	t.Helper()
	if err := r.SetMode(m); err != nil {
		t.Fatal(err)
	}
}

func TestPassCarriesBytesAndTheEnd(t *testing.T) {
	r := start(t, echo(t))
	c := dial(t, r)
	say(t, c, "hello")
	hear(t, c, "hello")
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(c); err != nil || len(rest) != 0 {
		t.Fatalf("after the end: got %q, %v, want an orderly end", rest, err)
	}
	if got, want := r.Accepts(), int64(1); got != want {
		t.Errorf("accepts: got %d, want %d", got, want)
	}
}

func TestRefuseResetsOldAndNewThenHeals(t *testing.T) {
	r := start(t, echo(t))
	old := dial(t, r)
	say(t, old, "a")
	hear(t, old, "a")
	set(t, r, relay.Refuse)
	wantReset(t, old)
	wantNewReset(t, r)
	set(t, r, relay.Pass)
	c := dial(t, r)
	say(t, c, "b")
	hear(t, c, "b")
}

// A connection that lost bytes must not go on with a hole in its stream; one
// that was idle all the while loses nothing and goes on.
func TestBlackholeSwallowsAndHealResetsTheHoled(t *testing.T) {
	r := start(t, echo(t))
	holed, idle := dial(t, r), dial(t, r)
	for _, c := range []net.Conn{holed, idle} {
		say(t, c, "a")
		hear(t, c, "a")
	}
	set(t, r, relay.Blackhole)
	say(t, holed, "lost")
	fresh := dial(t, r)
	say(t, fresh, "lost too")
	for _, c := range []net.Conn{holed, fresh} {
		wantSilence(t, c)
	}
	set(t, r, relay.Pass)
	wantReset(t, holed)
	wantReset(t, fresh)
	say(t, idle, "b")
	hear(t, idle, "b")
}

// wantSilence reads for a short while: the connection must neither answer nor end.
func wantSilence(t *testing.T, c net.Conn) {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	n, err := c.Read(make([]byte, 1))
	var ne net.Error
	if n != 0 || !errors.As(err, &ne) || !ne.Timeout() {
		t.Fatalf("got %d bytes, %v, want silence", n, err)
	}
	c.SetReadDeadline(time.Now().Add(patience))
}

// A closing is a packet like any other: in a black hole the other side never
// learns of it.
func TestBlackholeSwallowsTheEnd(t *testing.T) {
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	r := start(t, ln.Addr().String())
	client := dial(t, r)
	server, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	say(t, client, "a")
	hear(t, server, "a")
	set(t, r, relay.Blackhole)
	client.Close()
	wantSilence(t, server)
	set(t, r, relay.Refuse)
	server.SetReadDeadline(time.Now().Add(patience))
	wantReset(t, server)
}

func TestDelayShiftsTheStreamInOrder(t *testing.T) {
	const delay = 50 * time.Millisecond
	r := start(t, echo(t))
	if err := r.SetDelay(delay); err != nil {
		t.Fatal(err)
	}
	c := dial(t, r)
	begin := time.Now()
	for _, s := range []string{"1", "2", "3", "4", "5"} {
		say(t, c, s)
	}
	hear(t, c, "12345")
	if got, least := time.Since(begin), 2*delay; got < least {
		t.Errorf("there and back in %v, want at least %v", got, least)
	}
	if err := r.SetDelay(-1); err == nil {
		t.Error("a negative delay was accepted")
	}
}

func TestTargetDownResetsAndMovedTargetIsFound(t *testing.T) {
	gone, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	r := start(t, gone.Addr().String())
	wantNewReset(t, r)
	var old net.Conn
	for range 2 {
		if err := r.SetTarget(echo(t)); err != nil {
			t.Fatal(err)
		}
		if old != nil {
			wantReset(t, old) // its other end is at the target from before
		}
		old = dial(t, r)
		say(t, old, "a")
		hear(t, old, "a")
	}
}

func TestBadInput(t *testing.T) {
	if _, err := relay.New(t.Context(), "nowhere"); err == nil {
		t.Error("a target without a port was accepted")
	}
	r := start(t, echo(t))
	if err := r.SetTarget("nowhere"); err == nil {
		t.Error("SetTarget: a target without a port was accepted")
	}
	if err := r.SetMode(relay.Mode(9)); err == nil {
		t.Error("SetMode: an unknown mode was accepted")
	}
}

func TestCloseInEveryModeEndsEverything(t *testing.T) {
	for _, m := range []relay.Mode{relay.Pass, relay.Refuse, relay.Blackhole} {
		t.Run(m.String(), func(t *testing.T) {
			r := start(t, echo(t))
			c := dial(t, r)
			say(t, c, "a")
			hear(t, c, "a")
			set(t, r, m)
			if m == relay.Blackhole {
				say(t, dial(t, r), "never read")
			}
			for range 2 {
				if err := r.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := net.Dial("tcp4", r.Addr()); err == nil {
				t.Error("the port still answers after Close")
			}
			if err := r.SetMode(relay.Pass); !errors.Is(err, relay.ErrClosed) {
				t.Errorf("SetMode after Close: got %v, want ErrClosed", err)
			}
		})
	}
}
