package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"

	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/emitlab"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/lab"
)

// renderer writes what happens; it is called from one goroutine.
type renderer interface {
	line(lab.Line)
	live(lab.Live)
	consumers(emitlab.Live)
	end()
}

// screen hands events to a renderer without making a sampler wait for a slow terminal.
type screen struct {
	events chan any
	done   chan struct{}
	over   <-chan struct{} // the run was interrupted
}

const (
	queued = 4096
	// lastWords is how long an interrupted run waits for an output that nobody reads.
	lastWords = time.Second
)

func (f *labFlags) screen(ctx context.Context, out io.Writer) screen {
	s := screen{events: make(chan any, queued), done: make(chan struct{}), over: ctx.Done()}
	r := f.renderer(out)
	go func() {
		defer close(s.done)
		for e := range s.events {
			switch e := e.(type) {
			case lab.Line:
				r.line(e)
			case lab.Live:
				r.live(e)
			case emitlab.Live:
				r.consumers(e)
			}
		}
		r.end()
	}()
	return s
}

func (f *labFlags) renderer(out io.Writer) renderer {
	switch {
	case f.json:
		w := bufio.NewWriter(out)
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false) // reasons hold ">"
		return jsonLines{w, e}
	case !f.headless && isTerminal(out):
		return newTable(out, f.Scenario, func() (width, height int) { return terminalSize(out) })
	}
	return textLines{out}
}

func (s screen) line(l lab.Line) {
	select {
	case s.events <- l:
		return
	default: // the output is behind: wait for it, unless nobody wants it any more
	}
	select {
	case s.events <- l:
	case <-s.over:
	}
}

func (s screen) live(l any) { // a lab.Live or an emitlab.Live
	select {
	case s.events <- l:
	default: // a picture of now is worth nothing later
	}
}

// close waits until everything is written; once interrupted, not for long: a pipe that
// nobody reads must not keep the servers running. Nothing may be sent after it.
func (s screen) close() {
	close(s.events)
	select {
	case <-s.done:
	case <-s.over:
		select {
		case <-s.done:
		case <-time.After(lastWords):
		}
	}
}

func isTerminal(w io.Writer) bool {
	fd, ok := descriptor(w)
	return ok && term.IsTerminal(fd) && os.Getenv("TERM") != "dumb"
}

// terminalSize is that of a terminal, or the usual one where it does not tell.
func terminalSize(w io.Writer) (width, height int) {
	if fd, ok := descriptor(w); ok {
		width, height, err := term.GetSize(fd)
		if err == nil && width > 0 && height > 0 {
			return width, height
		}
	}
	return 80, 24
}

func descriptor(w io.Writer) (fd int, ok bool) {
	if outer, ok := w.(watched); ok {
		w = outer.Writer
	}
	f, ok := w.(*os.File)
	if !ok {
		return 0, false
	}
	return int(f.Fd()), true //nolint:gosec // a descriptor is small
}

// jsonLines writes one JSON object a line.
type jsonLines struct {
	w *bufio.Writer
	e *json.Encoder
}

func (j jsonLines) line(l lab.Line) {
	if err := j.e.Encode(l); err != nil {
		fmt.Fprintf(j.w, "{\"kind\":\"error\",\"error\":%q}\n", err.Error())
	}
	_ = j.w.Flush()
}

func (jsonLines) live(lab.Live)          {}
func (jsonLines) consumers(emitlab.Live) {}
func (jsonLines) end()                   {}

// textLines writes lines for people.
type textLines struct{ w io.Writer }

func (t textLines) line(l lab.Line) {
	if s := describe(l); s != "" {
		fmt.Fprintln(t.w, s)
	}
}

func (textLines) live(lab.Live)          {}
func (textLines) consumers(emitlab.Live) {}
func (textLines) end()                   {}
