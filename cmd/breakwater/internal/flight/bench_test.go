//go:build unix

package flight

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
)

// What the recorder costs a load: a round trip over loopback, which blocks and wakes goroutines as a read does, under a breaker.
func BenchmarkRoundTrip(b *testing.B) {
	for _, on := range []bool{false, true} {
		b.Run(fmt.Sprintf("recorder=%v", on), func(b *testing.B) {
			if on {
				r, err := Start(Config{})
				if err != nil {
					b.Fatal(err)
				}
				defer r.Close()
			}
			guarded, err := breaker.New(breaker.Config{})
			if err != nil {
				b.Fatal(err)
			}
			addr, before := echo(b), processTime(b)
			b.RunParallel(func(pb *testing.PB) {
				conn, err := (&net.Dialer{}).DialContext(b.Context(), "tcp", addr)
				if err != nil {
					b.Error(err)
					return
				}
				defer conn.Close()
				buf := make([]byte, 64)
				for pb.Next() {
					_, _ = breaker.Do(b.Context(), guarded, func(context.Context) (int, error) { return roundTrip(conn, buf) })
				}
			})
			b.ReportMetric(float64(processTime(b)-before)/float64(b.N), "cpu-ns/op")
		})
	}
}

// processTime is what the process has computed: it says more than the clock where others compute beside it.
func processTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func roundTrip(conn net.Conn, buf []byte) (int, error) {
	if _, err := conn.Write(buf); err != nil {
		return 0, err
	}
	return io.ReadFull(conn, buf)
}

// echo is a server that answers with what it gets.
func echo(b *testing.B) string {
	b.Helper()
	l, err := (&net.ListenConfig{}).Listen(b.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	return l.Addr().String()
}

// What a snapshot costs: its time, and its size.
func BenchmarkSnapshot(b *testing.B) {
	r, err := Start(Config{})
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	var buf bytes.Buffer
	for b.Loop() {
		buf.Reset()
		if err := r.write(&buf); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(buf.Len()), "bytes")
}
