// Command threeclasses is an HTTP server with a read of each class: an account's balance is critical, a
// product's detail degradable, its recommendations sheddable. A deposit gives the client a cookie, with
// which it reads its own write.
//
//	go run ./dev/examples/threeclasses -dsn 'postgres://…' -replica 'postgres://…' -replica … -create -listen localhost:8081
//	curl -i localhost:8081/accounts/1
//	curl -i -d cents=500 localhost:8081/accounts/1/deposit
//	curl -i localhost:8081/products/1
//	curl -i localhost:8081/products/1/recommendations
//
// A lab that runs in another terminal (go run ./cmd/breakwater lab) has servers for it, and prints their connection
// strings. docs/degraded.md explains this code.
//
// Pause replay on every replica (SELECT pg_wal_replay_pause()) and ask again: the balance is the primary's, or 503 with
// Retry-After; the product comes with X-Data-Freshness: stale, a Warning and its Age; the recommendations are 503.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// stopWithin is how long requests under way may take to end.
const stopWithin = 10 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	config

	listen string
	create bool
}

func parse(args []string, out io.Writer) (o options, err error) {
	f := flag.NewFlagSet("threeclasses", flag.ContinueOnError)
	f.SetOutput(out)
	f.StringVar(&o.dsn, "dsn", "", "connection string of the primary")
	f.Func("replica", "connection string of a replica; once for each", func(dsn string) error {
		o.replicas = append(o.replicas, dsn)
		return nil
	})
	f.StringVar(&o.listen, "listen", "localhost:8080", "address to serve on")
	f.DurationVar(&o.recovery, "recovery", 0, "how long a replica must be well before the next class gets it back (default 30s)")
	f.BoolVar(&o.create, "create", false, "create the tables and their rows where they are missing")
	secret := f.String("secret", "", "signs the positions in cookies, at least 16 bytes; the same for all processes (default: random)")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	o.secret = []byte(*secret)
	if *secret == "" {
		o.secret = []byte(rand.Text())
	}
	if o.dsn == "" {
		err = errors.New("threeclasses: -dsn is missing: give the connection string of the primary")
	}
	return o, err
}

// run serves until ctx ends, then lets the requests under way end.
func run(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args, out)
	if err != nil {
		return err
	}
	s, err := newServer(ctx, o.config)
	if err != nil {
		return err
	}
	defer s.Close()
	if o.create {
		if err := s.store.create(ctx); err != nil {
			return err
		}
	}
	var listens net.ListenConfig
	l, err := listens.Listen(ctx, "tcp", o.listen)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "serving on http://"+l.Addr().String())
	return serve(ctx, l, s.Handler())
}

func serve(ctx context.Context, l net.Listener, h http.Handler) error {
	web := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}
	ended := make(chan error, 1)
	go func() { ended <- web.Serve(l) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
	defer cancel()
	return web.Shutdown(bounded)
}
