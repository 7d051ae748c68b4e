package api

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

const token = "t0ken-of-the-test"

func hello(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }

// guarded has a token, a page, routes of others of both kinds.
func guarded(c *Config) {
	c.Token = func() string { return token }
	c.Page = http.HandlerFunc(hello)
	c.Routes = []Route{
		{Pattern: "GET /metrics", Handler: http.HandlerFunc(hello), Open: true},
		{Pattern: "GET /replica/{name}", Handler: http.HandlerFunc(hello)},
		{Pattern: "POST /api/v1/emit", Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			n, err := io.Copy(io.Discard, r.Body)
			fmt.Fprint(w, n, err)
		}), Intake: true},
	}
}

// Who has which credential gets what (REQ-O4).
func TestCredentials(t *testing.T) {
	w := newWorld(t)
	h := w.serve(guarded).Handler()
	for _, c := range []struct {
		method, target, auth string
		want                 int
	}{
		{"GET", "/livez", "", 200},
		{"GET", "/readyz", "", 200},
		{"GET", "/", "", 200},
		{"GET", "/app.js", "", 200},
		{"GET", "/metrics", "", 200},
		{"GET", "/replica/r1", "", 401},
		{"GET", "/replica/r1", "Bearer " + token, 200},
		{"GET", "/api/v1/status", "", 401},
		{"GET", "/api/v1/status", "Bearer " + token, 200},
		{"GET", "/api/v1/status", "bearer  " + token, 200},
		{"GET", "/api/v1/status", "Basic " + token, 401},
		{"GET", "/api/v1/status", token, 401},
		{"GET", "/api/v1/status", "Bearer " + token + "x", 401},
		{"GET", "/api/v1/status", "Bearer", 401},
		{"GET", "/api/v1/status?token=" + token, "", 401}, // never in a URL
		{"GET", "/api/v1/events", "", 401},
		{"GET", "/api/v1/history", "", 401},
		{"GET", "/api/v1/export", "", 401},
		{"GET", "/api/v1/dead-letters?consumer=ledger", "", 401},
		{"POST", "/api/v1/breakers/r1", "", 401},
		{"PATCH", "/api/v1/breakers/r1", "", 401},
		{"PATCH", "/api/v1/read-path", "", 401},
		{"POST", "/api/v1/dead-letters/replay", "", 401},
		{"DELETE", "/api/v1/dead-letters", "", 401},
		{"POST", "/api/v1/faults", "", 401},
		{"POST", "/api/v1/emit", "", 401},
		{"POST", "/api/v1/emit", "Bearer " + token, 200},
		{"GET", "/api/v1/nothing", "", 401}, // what there is is nobody's business
		{"POST", "/livez", "", 401},
		{"POST", "/", "", 401},
	} {
		answer, body := ask(t, h, c.method, c.target, "", "Authorization", c.auth)
		if answer.StatusCode != c.want {
			t.Errorf("%s %s with %q: got %d, want %d: %s", c.method, c.target, c.auth, answer.StatusCode, c.want, body)
		}
		if (c.want == 401) != (answer.Header.Get("WWW-Authenticate") != "") || strings.Contains(body, token) {
			t.Errorf("%s %s: got %v %s", c.method, c.target, answer.Header, body)
		}
	}
}

// The token can change; one that got lost lets nobody in.
func TestTokenChanges(t *testing.T) {
	w := newWorld(t)
	now := token
	h := w.serve(func(c *Config) { c.Token = func() string { return now } }).Handler()
	for _, c := range []struct {
		now, sent string
		want      int
	}{{token, token, 200}, {"next", token, 401}, {"next", "next", 200}, {"", "", 401}} {
		now = c.now
		if answer, _ := ask(t, h, "GET", "/api/v1/status", "", "Authorization", "Bearer "+c.sent); answer.StatusCode != c.want {
			t.Errorf("%q for %q: got %d, want %d", c.sent, c.now, answer.StatusCode, c.want)
		}
	}
}

// A page of another origin changes nothing, and one whose name was made to resolve to this machine sees nothing.
func TestOrigins(t *testing.T) {
	w := newWorld(t)
	open, closed := w.serve(nil).Handler(), w.serve(guarded).Handler()
	for _, c := range []struct {
		name string
		h    http.Handler
		head []string
		want int
	}{
		{"the page", open, []string{"Sec-Fetch-Site", "same-origin"}, 200},
		{"the page in an old browser", open, []string{"Origin", "http://127.0.0.1:8080"}, 200},
		{"curl", open, nil, 200},
		{"localhost", open, []string{"Host", "localhost:8080"}, 200},
		{"another loopback address", open, []string{"Host", "[::1]:8080"}, 200},
		{"another site", open, []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"another origin", open, []string{"Origin", "http://evil.example"}, 403},
		{"another port", open, []string{"Origin", "http://127.0.0.1:9090"}, 403},
		{"rebinding", open, []string{"Host", "evil.example:8080"}, 403},
		{"rebinding, same origin", open, []string{"Host", "evil.example", "Origin", "http://evil.example", "Sec-Fetch-Site", "same-origin"}, 403},
		{"an address that is not ours", open, []string{"Host", "10.0.0.1"}, 403},
		{"any host with a credential", closed, []string{"Host", "breakwater.internal", "Authorization", "Bearer " + token}, 200},
		{"another site with a credential", closed, []string{"Sec-Fetch-Site", "cross-site", "Authorization", "Bearer " + token}, 403},
	} {
		answer, body := ask(t, c.h, "POST", "/api/v1/breakers/r1", `{"state":"auto"}`, c.head...)
		if answer.StatusCode != c.want {
			t.Errorf("%s: got %d, want %d: %s", c.name, answer.StatusCode, c.want, body)
		}
	}
	if answer, _ := ask(t, open, "GET", "/api/v1/status", "", "Host", "evil.example"); answer.StatusCode != http.StatusForbidden {
		t.Errorf("rebinding reads the status: got %d, want 403", answer.StatusCode)
	}
	for mode, want := range map[string]int{"no-cors": 403, "cors": 403, "navigate": 200} {
		if answer, _ := ask(t, open, "GET", "/api/v1/status", "", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", mode); answer.StatusCode != want {
			t.Errorf("another site asks, mode %s: got %d, want %d", mode, answer.StatusCode, want)
		}
	}
	if answer, _ := ask(t, open, "GET", "/livez", "", "Host", ""); answer.StatusCode != http.StatusOK {
		t.Errorf("a check without Host: got %d, want 200", answer.StatusCode)
	}
}

func TestHeaders(t *testing.T) {
	w := newWorld(t)
	h := w.serve(guarded).Handler()
	for _, target := range []string{"/", "/livez", "/api/v1/status"} {
		answer, _ := ask(t, h, "GET", target, "")
		for name, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Content-Security-Policy": contentPolicy, "Cache-Control": "no-store",
			"Access-Control-Allow-Origin": "",
		} {
			if got := answer.Header.Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", target, name, got, want)
			}
		}
	}
}

// An intake reads its body itself, of any size.
func TestIntake(t *testing.T) {
	w := newWorld(t)
	h := w.serve(guarded).Handler()
	if _, body := ask(t, h, "POST", "/api/v1/emit", strings.Repeat("x", 100<<10), "Authorization", "Bearer "+token); body != "102400 <nil>" {
		t.Errorf("got %s", body)
	}
}

// Without a credential nobody else can reach it (REQ-O4).
func TestListen(t *testing.T) {
	w := newWorld(t)
	open, closed := w.serve(nil), w.serve(guarded)
	for _, c := range []struct {
		s    *Server
		addr string
		ok   bool
	}{
		{open, "127.0.0.1:0", true},
		{open, "localhost:0", true},
		{open, "0.0.0.0:0", false},
		{open, ":0", false},
		{open, "[::]:0", false},
		{open, "192.0.2.1:0", false},
		{open, "127.0.0.1", false},
		{closed, "0.0.0.0:0", true},
	} {
		ln, err := c.s.Listen(t.Context(), c.addr)
		if (err == nil) != c.ok {
			t.Errorf("%s: got %v, want success %t", c.addr, err, c.ok)
		}
		if err == nil {
			ln.Close()
		} else if !strings.Contains(err.Error(), ": use ") {
			t.Errorf("%s: got %v, want the mend", c.addr, err)
		}
	}
	ln, err := open.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if _, err := open.Listen(t.Context(), ln.Addr().String()); err == nil || !strings.Contains(err.Error(), "another address") {
		t.Errorf("an address in use: got %v", err)
	}
}

// What a header may hold, and how long it may take, is bounded.
func TestLimits(t *testing.T) {
	w := newWorld(t)
	base := w.listen(w.serve(nil))
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/livez", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Long", strings.Repeat("x", 17<<10))
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("got %d, want 431", answer.StatusCode)
	}
}

// With client certificates one is a credential, and none gets nothing.
func TestClientCertificates(t *testing.T) {
	w := newWorld(t)
	ca, cert := certificate(t)
	s := w.serve(func(c *Config) {
		c.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, ClientCAs: ca, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS13}
	})
	if err := s.mayListen(t.Context(), "0.0.0.0:0"); err != nil {
		t.Errorf("it is a credential: %v", err)
	}
	base := strings.Replace(w.listen(s), "http://", "https://", 1)
	for _, c := range []struct {
		certs []tls.Certificate
		ok    bool
	}{{[]tls.Certificate{cert}, true}, {nil, false}} {
		client := &http.Client{Transport: &http.Transport{
			DisableKeepAlives: true, ForceAttemptHTTP2: true,
			TLSClientConfig: &tls.Config{RootCAs: ca, Certificates: c.certs, MinVersion: tls.VersionTLS13},
		}}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/api/v1/status", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Do(r)
		if err == nil {
			answer.Body.Close()
		}
		if ok := err == nil && answer.StatusCode == http.StatusOK; ok != c.ok {
			t.Errorf("%d certificates: got %v, want success %t", len(c.certs), err, c.ok)
		}
	}
}

// certificate is one for a server and a client on loopback, and what trusts it.
func certificate(t *testing.T) (*x509.CertPool, tls.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return pool, tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
