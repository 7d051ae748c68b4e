package httpread

import (
	"net/http"
	"sync/atomic"

	"github.com/breakwater-go/breakwater/replica"
)

// Positions carries a client's position with its requests, so that it reads its own writes
// from a replica (REQ-R12): a header for programs, a cookie for browsers. The zero value works,
// without signatures. Its methods may be called concurrently; it must not be copied after
// its first use.
type Positions struct {
	// Header is the name of the header, in requests and responses. Default: Breakwater-Position.
	Header string
	// Cookie is the name of the cookie, which is HttpOnly and SameSite=Lax, and lasts an hour. A name that
	// begins with __Host- keeps other hosts of the domain from setting one, which would not be deleted here. Default: none is set or read.
	Cookie string
	// InsecureCookie leaves Secure out of the cookie, for development without TLS. Default: false.
	InsecureCookie bool
	// Signer signs positions, so that nobody can make one up. Default: they are not signed.
	Signer *replica.PositionSigner

	refused atomic.Uint64
}

const (
	defaultHeader = "Breakwater-Position"
	cookieSeconds = 3600
)

// Handler runs next with the position of the request in its context: of the header, or else of the cookie.
// A position that is malformed, or whose signature is wrong, is counted and answered with status 400, and its cookie
// is deleted, so that the client's next request comes through.
func (p *Positions) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		pos, err := p.read(req)
		if err != nil {
			p.refused.Add(1)
			p.cookie(w, "", -1)
			http.Error(w, "the position in "+p.header()+" or its cookie is none that was given out", http.StatusBadRequest)
			return
		}
		next.ServeHTTP(w, req.WithContext(replica.WithPosition(req.Context(), pos)))
	})
}

// Set gives the client the position that was taken after its write. Call it before the response is written.
func (p *Positions) Set(w http.ResponseWriter, pos replica.Position) {
	if pos.IsZero() {
		return
	}
	text := p.text(pos)
	w.Header().Set(p.header(), text)
	p.cookie(w, text, cookieSeconds)
}

// Refused is how many requests came with a position that was none.
func (p *Positions) Refused() uint64 { return p.refused.Load() }

func (p *Positions) header() string {
	if p.Header == "" {
		return defaultHeader
	}
	return p.Header
}

func (p *Positions) text(pos replica.Position) string {
	if p.Signer != nil {
		return p.Signer.Sign(pos)
	}
	return pos.String()
}

func (p *Positions) read(req *http.Request) (replica.Position, error) {
	text := req.Header.Get(p.header())
	if text == "" && p.Cookie != "" {
		if c, err := req.Cookie(p.Cookie); err == nil {
			text = c.Value
		}
	}
	switch {
	case text == "":
		return replica.Position{}, nil
	case p.Signer != nil:
		return p.Signer.Verify(text)
	default:
		return replica.ParsePosition(text)
	}
}

func (p *Positions) cookie(w http.ResponseWriter, text string, seconds int) {
	if p.Cookie == "" {
		return
	}
	http.SetCookie(w, &http.Cookie{
		Name: p.Cookie, Value: text, Path: "/", MaxAge: seconds,
		HttpOnly: true, Secure: !p.InsecureCookie, SameSite: http.SameSiteLaxMode,
	})
}
