package httpread_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/breakwater-go/breakwater/readpath/httpread"
	"github.com/breakwater-go/breakwater/replica"
)

func signer(t *testing.T) *replica.PositionSigner {
	t.Helper()
	s, err := replica.NewPositionSigner(replica.PositionKey{ID: "a", Secret: []byte(strings.Repeat("k", 32))})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// REQ-R12: a client gets the position of its write, and its next request carries it.
func TestPositionsGoRound(t *testing.T) {
	wrote := replica.Position{SystemID: "7458123456789012345", Timeline: 1, LSN: 0x16B374D848}
	for name, p := range map[string]*httpread.Positions{
		"plain header":  {},
		"signed header": {Signer: signer(t), Header: "X-Position"},
		"cookie":        {Cookie: "position", Signer: signer(t)},
	} {
		t.Run(name, func(t *testing.T) {
			var got replica.Position
			h := p.Handler(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				got = replica.PositionFrom(req.Context())
				if req.Method == http.MethodPost {
					p.Set(w, wrote)
				}
			}))
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil))
			if !got.IsZero() {
				t.Errorf("first request: got %v, want none", got)
			}
			next := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
			switch {
			case p.Cookie != "":
				for _, c := range w.Result().Cookies() {
					if !c.HttpOnly || !c.Secure || c.SameSite != http.SameSiteLaxMode {
						t.Errorf("cookie: got %v", c)
					}
					next.AddCookie(c)
				}
			case p.Header != "":
				next.Header.Set(p.Header, w.Header().Get(p.Header))
			default:
				next.Header.Set("Breakwater-Position", w.Header().Get("Breakwater-Position"))
			}
			h.ServeHTTP(httptest.NewRecorder(), next)
			if got != wrote {
				t.Errorf("next request: got %v, want %v", got, wrote)
			}
		})
	}
}

// A position that nobody gave out is refused, counted, and its cookie deleted.
func TestTamperedPositionIsRefused(t *testing.T) {
	p := &httpread.Positions{Cookie: "position", Signer: signer(t)}
	h := p.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the handler ran") }))
	for i, text := range []string{"7.1.1", "nonsense", p.Signer.Sign(replica.Position{SystemID: "7", Timeline: 1, LSN: 5}) + "0"} {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		if i%2 == 0 {
			req.AddCookie(&http.Cookie{Name: "position", Value: text}) //nolint:gosec // a client's
		} else {
			req.Header.Set("Breakwater-Position", text)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, req)
		cookies := w.Result().Cookies()
		if w.Code != http.StatusBadRequest || len(cookies) != 1 || cookies[0].MaxAge >= 0 {
			t.Errorf("%s: got %d, %v; want 400 and a deleted cookie", text, w.Code, cookies)
		}
	}
	if got := p.Refused(); got != 3 {
		t.Errorf("refused: got %d, want 3", got)
	}
}
