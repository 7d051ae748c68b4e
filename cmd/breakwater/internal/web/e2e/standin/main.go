// Command standin plays a lab for the tests of the page: made-up replicas that follow the breaker's rules in fast motion, real consumers
// with their dead letters, and the real interface over HTTP. It needs no PostgreSQL, and shows each state within seconds.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/api"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/web"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "loopback address")
	token := flag.String("token", "", "bearer token to ask for")
	daemon := flag.Bool("daemon", false, "play the daemon: without the lab's parts")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *listen, *token, *daemon)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, listen, token string, daemon bool) error {
	hub := api.NewHub(nil)
	tide := newTide(hub)
	shops, err := newShops(hub) //nolint:contextcheck // its lanes end with Close
	if err != nil {
		return err
	}
	mode := api.About{Mode: "lab", Version: "0.0.0-standin", Started: time.Now(), Fleet: "simulated", Simulated: true}
	if daemon {
		mode = api.About{Mode: "serve", Version: "0.0.0-standin", Started: time.Now(), Fleet: "postgres 15.18", ConfigHash: "4f1c9a70be2d5531"}
	}
	standard := api.NewStandard(api.StandardConfig{Hub: hub, Parts: shops.parts, About: func() api.About { return mode }})
	play := &play{Standard: standard, tide: tide, shops: shops, hub: hub, daemon: daemon}
	config := api.Config{Hub: hub, Source: play, Actions: play, Page: web.Handler()}
	config.Routes = tide.traces()
	if !daemon {
		config.Lab = newBench(tide, shops, hub)
	}
	if token != "" {
		config.Token = func() string { return token }
	}
	return serve(ctx, config, play, listen)
}

func serve(ctx context.Context, config api.Config, play *play, listen string) error {
	server, err := api.New(config)
	if err != nil {
		return err
	}
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
	if err != nil {
		return err
	}
	fmt.Printf("http://%s/\n", ln.Addr()) // what the test waits for
	var running sync.WaitGroup
	running.Go(func() { play.tide.run(ctx) })
	running.Go(func() { play.shops.run(ctx) })
	running.Go(func() { <-ctx.Done(); server.Close() }) //nolint:contextcheck // it bounds itself
	err = server.Serve(ln)
	running.Wait()
	play.Close()
	return errors.Join(err, play.shops.router.Close()) //nolint:contextcheck // the same
}
