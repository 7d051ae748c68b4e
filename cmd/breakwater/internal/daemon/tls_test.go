package daemon

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// certificate makes one that signs itself, for the address of these tests, and its key.
func certificate(t *testing.T, dir, name string, serial int64) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := x509.Certificate{SerialNumber: big.NewInt(serial), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotAfter: time.Now().Add(time.Hour)}
	signed, err := x509.CreateCertificate(rand.Reader, &template, &template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, name+"-key.pem"), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})))
	write(t, filepath.Join(dir, name+".pem"), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed})))
}

// trusting is a client's side: it trusts one certificate, and shows another one if own is a name.
func trusting(t *testing.T, dir, server, own string) *http.Transport {
	t.Helper()
	c := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool()}
	text, err := os.ReadFile(filepath.Join(dir, server+".pem"))
	if err != nil {
		t.Fatal(err)
	}
	c.RootCAs.AppendCertsFromPEM(text)
	if own != "" {
		pair, err := tls.LoadX509KeyPair(filepath.Join(dir, own+".pem"), filepath.Join(dir, own+"-key.pem"))
		if err != nil {
			t.Fatal(err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return &http.Transport{TLSClientConfig: c}
}

// REQ-O4: with a client_ca_file nobody without a certificate of it gets in, and a reload that takes the key away does not let him in either. The
// listener's own certificate is exchanged while it runs.
func TestMutualTLS(t *testing.T) {
	k := newTaker(t)
	file := configured(t, "auth: {tls: {cert_file: server.pem, key_file: server-key.pem, client_ca_file: client.pem}}\nconsumers: [{name: a, url: '"+k.URL+"'}]\n")
	dir := filepath.Dir(file)
	certificate(t, dir, "server", 1)
	certificate(t, dir, "client", 2)
	certificate(t, dir, "stranger", 3)
	r := start(t, file)
	ask := func(own string) (serial int64) {
		t.Helper()
		transport := trusting(t, dir, "server", own)
		defer transport.CloseIdleConnections()
		resp, err := (&http.Client{Transport: transport, Timeout: patience}).Get(r.url + "/api/v1/status")
		if err != nil {
			return 0
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return 0
		}
		return resp.TLS.PeerCertificates[0].SerialNumber.Int64()
	}
	for own, want := range map[string]int64{"client": 1, "stranger": 0, "": 0} {
		if got := ask(own); got != want {
			t.Errorf("with the certificate %q: got the server's number %d, want %d", own, got, want)
		}
	}
	certificate(t, dir, "server", 9)
	r.eventually("the new certificate", func() bool { return ask("client") == 9 })

	r.client.Transport = trusting(t, dir, "server", "client")
	got := r.reload("listen: 127.0.0.1:0\nauth: {tls: {cert_file: server.pem, key_file: server-key.pem}}\nconsumers: [{name: a, url: '" + k.URL + "'}]\n")
	if !got.OK || len(got.NeedsRestart) != 1 || got.NeedsRestart[0] != "auth.tls" {
		t.Errorf("got %+v, want a restart for auth.tls", got)
	}
	if ask("") != 0 {
		t.Error("after the reload nobody needs a certificate")
	}
}
