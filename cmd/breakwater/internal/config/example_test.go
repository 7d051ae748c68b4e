package config

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/emit"
)

const exampleToken = "0123456789abcdef-of-the-example"

// writeCertificate makes a certificate that signs itself, and its key.
func writeCertificate(t *testing.T, dir, cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"}, NotAfter: time.Now().Add(time.Hour)}
	signed, err := x509.CreateCertificate(rand.Reader, &template, &template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: signed}, key: {Type: "PRIVATE KEY", Bytes: raw}} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// parseExample reads the example with the variables and files that it names.
func parseExample(t *testing.T, text []byte) *Config {
	t.Helper()
	for _, name := range []string{"PRIMARY", "PRIMARY_READS", "R1", "R1_SAMPLE", "R2"} {
		t.Setenv(name+"_DSN", "host="+strings.ToLower(name))
	}
	t.Setenv("PRIMARY_DSN", "host=primary password=password-of-primary")
	t.Setenv("LEDGER_URL", "https://ledger.internal/events")
	t.Setenv("LEDGER_TOKEN", exampleToken)
	t.Setenv("OTLP_HEADERS", "api-key=hunter2hunter2")
	dir := t.TempDir()
	writeCertificate(t, dir, "client.pem", "client-key.pem")
	writeCertificate(t, dir, "server.pem", "server-key.pem")
	writeCertificate(t, dir, "ca.pem", "ca-key.pem")
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte(exampleToken+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Parse(filepath.Join(dir, "configuration.md"), text)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// checkExampleOfDaemon: what the daemon alone heeds has its defaults.
func checkExampleOfDaemon(t *testing.T, c *Config) {
	t.Helper()
	want := emit.Consumer{
		Name: "ledger", Types: []string{"order.paid", "order.refunded"}, Timeout: 200 * time.Millisecond, Slow: 50 * time.Millisecond, Bulkhead: 16,
		Breaker: breaker.Config{Open: breaker.Backoff{Base: 100 * time.Millisecond, Max: 2 * time.Second, Jitter: 20 * time.Millisecond, Sticky: 10 * time.Second}},
		Replay:  emit.Replay{Share: 0.2, MaxAttempts: 10},
	}
	if got := c.Consumers[0].Lane; !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	s := c.Consumers[0].Sink
	if s.URL != "https://ledger.internal/events" || s.Structured || s.Bearer != exampleToken || s.TLS.CA == "" || s.TLS.Cert == "" || s.TLS.Key == "" {
		t.Errorf("got %+v", s)
	}
	d := c.Daemon
	if d.Auth.Bearer != exampleToken || d.Auth.TLS.Cert == "" || !d.Auth.OpenMetrics || !d.Auth.OpenReplica {
		t.Errorf("got %+v", d.Auth)
	}
	d.Auth = Auth{}
	wantDaemon := Daemon{
		Listen: "127.0.0.1:8080", AgentListen: "127.0.0.1:8081", PublishedNames: true, Log: Log{Level: "info"}, Shutdown: Shutdown{Deadline: 10 * time.Second},
		Tracing: Tracing{Endpoint: "localhost:4318", Headers: "api-key=hunter2hunter2", SampleRatio: 0.1, Timeout: 10 * time.Second},
	}
	if d != wantDaemon {
		t.Errorf("got  %+v\nwant %+v", d, wantDaemon)
	}
	for _, secret := range []string{exampleToken, "hunter2hunter2", "password-of-primary"} {
		if !slices.Contains(c.Secrets(), secret) {
			t.Errorf("%q is not among the secrets", secret)
		}
	}
	if len(c.Files()) != 6 {
		t.Errorf("got files %q, want 6", c.Files())
	}
}

// What a file leaves out is as in its complete example.
func TestDefaultsOfDaemon(t *testing.T) {
	c, err := Parse("f", []byte("consumers: [{name: a, url: 'http://a/'}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := Daemon{
		Listen: "127.0.0.1:8080", PublishedNames: true, Log: Log{Level: "info"}, Shutdown: Shutdown{Deadline: 10 * time.Second},
		Tracing: Tracing{SampleRatio: 0.1, Timeout: 10 * time.Second},
	}
	if c.Daemon != want {
		t.Errorf("got  %+v\nwant %+v", c.Daemon, want)
	}
	if err := c.Serve(); err != nil {
		t.Errorf("got %v, want something to serve", err)
	}
}

// A file that a program of one's own may use is not always one that the daemon can.
func TestServe(t *testing.T) {
	for text, want := range map[string]string{
		"settings: {trip: 1s}":                                      "f:1:1: the file has nothing to serve: ",
		"consumers: [{name: a, url: 'http://a/'}]":                  "",
		"{endpoints: {}, consumers: [{name: a, url: 'http://a/'}]}": "f:1:1: primary is missing: ",
	} {
		c, err := Parse("f", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		err = c.Serve()
		if (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}

func compileSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(Schema))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("config.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("config.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// byJSON is the YAML of a file as a JSON document.
func byJSON(t *testing.T, text []byte) (doc any) {
	t.Helper()
	if err := yaml.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	doc, err = jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func checkSchemaTakes(t *testing.T, text []byte) {
	t.Helper()
	if err := compileSchema(t).Validate(byJSON(t, text)); err != nil {
		t.Errorf("the schema refuses the example: %v", err)
	}
}

// The schema and the reader know the same keys.
func TestSchemaAndReaderAgree(t *testing.T) {
	var root map[string]any
	if err := json.Unmarshal([]byte(Schema), &root); err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{}
	walkSchema(root, "", got)
	want := keysByPath(t)
	want[""] = want[theFile]
	delete(want, theFile)
	if !reflect.DeepEqual(got, want) {
		for path, keys := range want {
			if !slices.Equal(got[path], keys) {
				t.Errorf("%q: the schema has %q, the reader %q", path, got[path], keys)
			}
		}
		t.Errorf("got %d mappings, want %d", len(got), len(want))
	}
}

// walkSchema collects the keys of each mapping by its path.
func walkSchema(node map[string]any, path string, found map[string][]string) {
	if items, ok := node["items"].(map[string]any); ok {
		walkSchema(items, path+"[]", found)
	}
	properties, ok := node["properties"].(map[string]any)
	if !ok {
		return
	}
	for key, value := range properties {
		found[path] = append(found[path], key)
		if inner, ok := value.(map[string]any); ok {
			walkSchema(inner, strings.TrimPrefix(path+"."+key, "."), found)
		}
	}
	slices.Sort(found[path])
}

// What the reader refuses for a kind or a range, the schema refuses too; what only arithmetic finds, it takes.
func TestSchemaRefuses(t *testing.T) {
	s := compileSchema(t)
	for file, refused := range map[string]bool{
		"out-of-range": true, "wrong-kinds": true, "unknown-keys": true, "ten-mistakes": true, "daemon": true, "settings-that-contradict": false,
	} {
		text, err := os.ReadFile("testdata/faults/" + file + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		if file == "ten-mistakes" {
			text = bytes.Replace(text, []byte("  checkout: sheddable\n"), nil, 1) // YAML itself refuses it
		}
		text = bytes.ReplaceAll(text, []byte(".nan"), []byte(`"NaN"`)) // JSON has none
		text = bytes.ReplaceAll(text, []byte(".inf"), []byte(`"Infinity"`))
		if err := s.Validate(byJSON(t, text)); (err != nil) != refused {
			t.Errorf("%s: got %v, want refused: %v", file, err, refused)
		}
	}
}
