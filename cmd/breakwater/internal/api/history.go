package api

import (
	"bytes"
	"compress/flate"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

const (
	// historySize is how many statuses are kept, one a second.
	historySize = 900
	tickEvery   = time.Second
)

// A history keeps the statuses of the last 15 minutes as JSON, compressed: one is much like another, and a fleet with many consumers has a large
// one. So they are told as what differs from a recent one.
type history struct {
	packer *flate.Writer // of who adds
	key    []byte        // its dictionary
	left   int           // statuses until the next key

	mu     sync.Mutex
	kept   [historySize]packed // by n modulo historySize; each immutable
	n      int                 // statuses so far
	frame  []byte              // the newest, as the stream writes it
	ticked chan struct{}       // closed by the next one; nil: nobody waits
}

// packed is a status, compressed with another one as the dictionary.
type packed struct{ text, key []byte }

// keyFor is how many statuses share a dictionary.
const keyFor = 300

// add takes in the next status; one caller at a time.
func (h *history) add(status []byte) {
	packed := h.pack(status)
	frame := fmt.Appendf(nil, "event: status\ndata: %s\n\n", status)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.kept[h.n%historySize] = packed
	h.n++
	h.frame = frame
	if h.ticked != nil {
		close(h.ticked)
		h.ticked = nil
	}
}

// current returns the frame of the newest status, its number, and a channel that the next one closes.
func (h *history) current() (frame []byte, n int, ticked <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ticked == nil {
		h.ticked = make(chan struct{})
	}
	return h.frame, h.n, h.ticked
}

// last returns up to that many statuses, historySize at most, compressed, oldest first.
func (h *history) last(seconds int) (all []packed) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := h.n - min(seconds, h.n); i < h.n; i++ {
		all = append(all, h.kept[i%historySize])
	}
	return all
}

func (h *history) pack(text []byte) packed {
	var to bytes.Buffer
	if h.left == 0 {
		h.key, h.left = bytes.Clone(text), keyFor
		h.packer, _ = flate.NewWriterDict(&to, flate.DefaultCompression, h.key) // a level that there is; the fastest one has no use for a dictionary
	}
	h.left--
	h.packer.Reset(&to)
	_, _ = h.packer.Write(text) // into memory: it never fails
	_ = h.packer.Close()
	return packed{bytes.Clone(to.Bytes()), h.key}
}

// writeList writes statuses as a JSON list.
func writeList(w io.Writer, all []packed) error {
	unpack := flate.NewReader(nil)
	between := "["
	for _, p := range all {
		_, err := io.WriteString(w, between)
		if err == nil {
			err = unpack.(flate.Resetter).Reset(bytes.NewReader(p.text), p.key) // it is one, says flate
		}
		if err == nil {
			_, err = io.Copy(w, unpack)
		}
		if err != nil {
			return err
		}
		between = ",\n"
	}
	if len(all) == 0 {
		_, err := io.WriteString(w, "[]")
		return err
	}
	_, err := io.WriteString(w, "]")
	return err
}

// ticks collects the Status once a second until Close.
func (s *Server) ticks() {
	every := time.NewTicker(tickEvery)
	defer every.Stop()
	for {
		select {
		case <-s.ending.Done():
			return
		case <-every.C:
			s.tick()
		}
	}
}

// tick takes one Status in, marshalled once for the history and all clients.
func (s *Server) tick() {
	status, err := s.status()
	if err != nil {
		s.conf.Hub.Fault("status", err)
		return
	}
	s.history.add(status)
}

// status is how things stand, as JSON. A panic of the Source, or of the Lab, is an error.
func (s *Server) status() (text []byte, err error) {
	defer func() {
		if v := recover(); v != nil {
			s.panics.Add(1)
			err = fmt.Errorf("it panicked: %v", v)
		}
	}()
	st := s.conf.Source.Status()
	if s.conf.Lab != nil {
		st.Lab = new(s.conf.Lab.Status())
	}
	if st.Reload != nil {
		st.Reload = new(*st.Reload)
		st.Reload.Error = s.conf.Redact.Text(st.Reload.Error)
	}
	clients, cutOff, _ := s.streams.stats()
	st.Stream = Stream{Last: s.conf.Hub.Last(), Boot: s.conf.Hub.Boot(), Clients: clients, CutOff: cutOff}
	text, err = json.Marshal(&st)
	if err != nil {
		return nil, errors.New("it cannot be told as JSON: " + err.Error())
	}
	return text, nil
}
