package consumer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// command is one line to a consumer; what is not set asks for nothing.
type command struct {
	Become *Behaviour `json:"become,omitempty"`
	IDs    bool       `json:"ids,omitempty"` // in the answer
}

// answer is the line that follows each command, and the first one of all.
type answer struct {
	URL    string `json:"url,omitempty"` // only in the first
	Report Report `json:"report"`
}

// headerTimeout bounds the headers of a request.
const headerTimeout = 5 * time.Second

// Options say what a consumer is like.
type Options struct {
	Seed uint64 // of its latencies
	// Forget has it keep no IDs, so that it can run for as long as one likes: duplicates and order are then not seen. Default: false.
	Forget bool
}

// Run serves until in ends or ctx does: it tells its address on out, then obeys.
func Run(ctx context.Context, o Options, in io.Reader, out io.Writer) error {
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("consumer: %w", err)
	}
	s := newServer(o)
	web := &http.Server{Handler: s, ReadHeaderTimeout: headerTimeout}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = web.Serve(ln)
	}()
	defer func() {
		_ = web.Close()
		<-served
	}()
	obeyed := make(chan error, 1)
	go func() { obeyed <- s.obey("http://"+ln.Addr().String()+"/", in, out) }() // a read of in ends by nothing but its end
	select {
	case err = <-obeyed:
		return err
	case <-ctx.Done():
		return nil
	}
}

func (s *server) obey(url string, in io.Reader, out io.Writer) error {
	commands, answers := json.NewDecoder(in), json.NewEncoder(out)
	if err := answers.Encode(answer{URL: url}); err != nil {
		return err
	}
	for {
		var c command
		switch err := commands.Decode(&c); {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return nil
		case err != nil:
			return fmt.Errorf("consumer: a command: %w", err)
		}
		if c.Become != nil {
			s.become(*c.Become)
		}
		if err := answers.Encode(answer{Report: s.told(c.IDs)}); err != nil {
			return err
		}
	}
}
