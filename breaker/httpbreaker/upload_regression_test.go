package httpbreaker

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// A response that stalls ends though the caller's upload waits beside it: over HTTP/2 a Read of the response went on
// as long as the Read of the request's body.
func TestStallBesideAnUpload(t *testing.T) {
	for name, http2 := range map[string]bool{"HTTP/1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			over := make(chan struct{})
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_ = http.NewResponseController(w).EnableFullDuplex()
				w.WriteHeader(http.StatusOK)
				_ = http.NewResponseController(w).Flush()
				<-over
			}))
			s.EnableHTTP2 = http2
			s.StartTLS()
			t.Cleanup(s.Close)
			t.Cleanup(func() { close(over) })
			tr := newTransport(t, Config{Base: s.Client().Transport, StallTimeout: 20 * time.Millisecond})
			waiting, writer := io.Pipe()
			t.Cleanup(func() { _ = writer.Close() })
			req := newRequest(t, s.URL)
			req.Method, req.Body, req.ContentLength = http.MethodPost, waiting, -1
			ended := make(chan error, 2)
			go func() {
				_, _, err := fetch(tr, req)
				ended <- err
			}()
			select {
			case err := <-ended:
				if !errors.Is(err, ErrTimeout) {
					t.Errorf("got %v, want a timeout", err)
				}
			case <-time.After(10 * time.Second):
				_ = writer.Close()
				t.Error("the response is still read")
			}
			go func() { // a Write that nobody reads waits for the cleanup's Close
				var err error
				for err == nil {
					_, err = writer.Write([]byte("x"))
				}
				ended <- err
			}()
			select {
			case err := <-ended:
				if !errors.Is(err, io.ErrClosedPipe) {
					t.Errorf("the upload: got %v, want that it was closed", err)
				}
			case <-time.After(10 * time.Second):
				t.Error("the upload is left behind")
			}
		})
	}
}
