package httpsink

import (
	"io"
	"sync"
)

// A payload is the data of a trigger while it is sent. net/http may go on reading a body after RoundTrip has returned; once
// release has returned, nobody reads the data, which is the caller's (emit.Sink).
type payload struct {
	mu struct {
		sync.Mutex

		data []byte // nil once released
	}
}

func (p *payload) open() io.ReadCloser { return &payloadReader{payload: p} }

// release waits for at most one Read.
func (p *payload) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.data = nil
}

// A payloadReader reads a payload once, for one goroutine.
type payloadReader struct {
	payload *payload
	at      int
}

// Read copies under the lock.
func (r *payloadReader) Read(b []byte) (int, error) {
	r.payload.mu.Lock()
	defer r.payload.mu.Unlock()
	switch data := r.payload.mu.data; {
	case data == nil:
		return 0, io.ErrClosedPipe
	case r.at == len(data):
		return 0, io.EOF
	default:
		n := copy(b, data[r.at:])
		r.at += n
		return n, nil
	}
}

// Close does nothing: the payload is released by Deliver.
func (*payloadReader) Close() error { return nil }
