package httpbreaker

import (
	"context"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
)

// An upload watches the body of a request, to tell a host that fails from a caller whose own
// reader does: one that is slow would else open the breaker for everybody.
type upload struct {
	io.ReadCloser
	phase  atomic.Int32
	once   sync.Once // closes
	length int64     // what the request says; not positive: nothing
	read   int64     // for one goroutine at a time, as Read is
}

// The phases of an upload. Reads move it between idle and reading, and a Read's error to broken;
// Close moves idle to closed and reading to starved. The last three stay.
const (
	uploadIdle int32 = iota
	uploadReading
	uploadBroken  // the reader failed, or gave more or less than the request says
	uploadClosed  // Base needs no more of it
	uploadStarved // the call ended while it waited for the reader
)

// watchUpload returns nil for a body that cannot fail: none, or one that can be had again, which
// is in memory and which Base sends best when it sees it as it is.
func watchUpload(req *http.Request) *upload {
	if req.Body == nil || req.Body == http.NoBody || req.GetBody != nil {
		return nil
	}
	return &upload{ReadCloser: req.Body, length: req.ContentLength}
}

// Read reads on.
func (u *upload) Read(p []byte) (int, error) {
	u.phase.CompareAndSwap(uploadIdle, uploadReading)
	n, err := u.ReadCloser.Read(p)
	u.read += int64(n)
	next := uploadIdle
	if err != nil && err != io.EOF || u.hasWrongLength(err == io.EOF) {
		next = uploadBroken
	}
	u.phase.CompareAndSwap(uploadReading, next)
	return n, err
}

// hasWrongLength reports whether what was read, or all of it, is not what the request says: net/http
// then breaks the connection off.
func (u *upload) hasWrongLength(ended bool) bool {
	return u.length > 0 && (u.read > u.length || ended && u.read < u.length)
}

// Close closes the body, once.
func (u *upload) Close() (err error) {
	if !u.phase.CompareAndSwap(uploadIdle, uploadClosed) {
		u.phase.CompareAndSwap(uploadReading, uploadStarved)
	}
	u.once.Do(func() { err = u.ReadCloser.Close() })
	return err
}

// closeWith closes the body as soon as ctx ends, unless stop was called before: net/http returns
// no earlier than a Read of the body that it is in, and over HTTP/2 no Read of the response does.
func (u *upload) closeWith(ctx context.Context) (stop func() bool) {
	if u == nil {
		return func() bool { return true }
	}
	return context.AfterFunc(ctx, func() { _ = u.Close() }) // the call has its error
}

// isOver reports whether nothing reads the body any more.
func (u *upload) isOver() bool {
	if u == nil {
		return true
	}
	phase := u.phase.Load()
	return phase != uploadIdle && phase != uploadReading
}

// broke reports whether the caller's reader did not deliver what it should.
func (u *upload) broke() bool { return u != nil && u.phase.Load() == uploadBroken }

// starved reports whether the call waits, or waited when it ended, for the caller's reader.
func (u *upload) starved() bool {
	if u == nil {
		return false
	}
	phase := u.phase.Load()
	return phase == uploadReading || phase == uploadStarved
}
