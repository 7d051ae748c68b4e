// Command soak runs `breakwater serve` as a process of its own for minutes, before a real fleet of three replicas and real consumers, with
// emits, clients of the page's stream, reloads and faults, and judges what it did: the figures on standard output, as one JSON object, and by its exit status
// whether they held. `make soak` runs it.
//
// # Concurrency
//
// run starts what it needs and waits for all of it; each part's counts are its own until then, or atomic.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// options are those of the command line.
type options struct {
	binary  string
	length  time.Duration
	emits   int // a second
	clients int
	reload  time.Duration // between two
	fault   time.Duration // between two
}

func main() {
	var o options
	flag.StringVar(&o.binary, "binary", "", "the breakwater program")
	flag.DurationVar(&o.length, "for", 10*time.Minute, "how long, at least 30s")
	flag.IntVar(&o.emits, "emits", 500, "emits a second")
	flag.IntVar(&o.clients, "clients", 20, "clients of the stream of events")
	flag.DurationVar(&o.reload, "reload", 5*time.Second, "between two reloads")
	flag.DurationVar(&o.fault, "fault", 15*time.Second, "between two faults")
	flag.Parse()
	if o.binary == "" || o.length < 30*time.Second || o.emits < 1 || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "soak: wrong usage: give --binary, and --for of at least 30s; see --help")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	s, err := run(ctx, o)
	stop()
	if err != nil {
		log.Fatal("soak: ", err)
	}
	out := json.NewEncoder(os.Stdout)
	out.SetIndent("", "  ")
	_ = out.Encode(s)
	if len(s.Failed) > 0 {
		os.Exit(1)
	}
}
