package config

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/pgxread"
	"github.com/breakwater-go/breakwater/readpath"
	"github.com/breakwater-go/breakwater/replica"
)

var update = flag.Bool("update", false, "write the expected faults anew")

// secret is the password in every file of testdata/faults that has one, or a piece of it.
var secret = regexp.MustCompile(`hunter2|ter2|app:`)

func setEnv(t *testing.T) {
	t.Helper()
	t.Setenv("BREAKWATER_TEST_R1", "host=r1 user=app")
	t.Setenv("BREAKWATER_TEST_R2", "host=r2 user=app")
	t.Setenv("BREAKWATER_TEST_BAD", "host=h password=hunter2 port=x")
	t.Setenv("BREAKWATER_TEST_SHORT", "hunter2")
}

// Every fault of a file at once, with its place and its mend, and nothing of a secret.
func TestFaults(t *testing.T) {
	setEnv(t)
	files, err := filepath.Glob("testdata/faults/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(err, "no files")
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			_, err = Parse(filepath.Base(file), text)
			if err == nil {
				t.Fatal("no fault")
			}
			got, golden := err.Error()+"\n", strings.TrimSuffix(file, ".yaml")+".txt"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil { //nolint:gosec // it is for everybody to read
					t.Fatal(err)
				}
			}
			want, _ := os.ReadFile(golden)
			if got != string(want) {
				t.Errorf("got\n%swant\n%s", got, want)
			}
			if shown := secret.FindString(got); shown != "" {
				t.Errorf("%q is shown in\n%s", shown, got)
			}
			checkPlaces(t, text, err)
		})
	}
}

// checkPlaces: each fault lies inside the file, and they are in its order.
func checkPlaces(t *testing.T, text []byte, err error) {
	t.Helper()
	faults, ok := errors.AsType[FaultErrors](err)
	if !ok || len(faults) == 0 {
		t.Fatalf("got %T, want FaultErrors", err)
	}
	lines := strings.Split(strings.TrimPrefix(string(text), byteOrderMark), "\n")
	for i, f := range faults {
		if f.Line < 1 || f.Line > len(lines) || f.Column < 1 || f.Column > len([]rune(lines[f.Line-1]))+1 {
			t.Errorf("outside the file: %v", f)
		}
		if i > 0 && (f.Line < faults[i-1].Line || f.Line == faults[i-1].Line && f.Column < faults[i-1].Column) {
			t.Errorf("out of order: %v", f)
		}
		if f.Text == "" || strings.Contains(f.String(), "\n") {
			t.Errorf("not one line that says something: %q", f.String())
		}
	}
}

// Ten mistakes are found in one go.
func TestTenMistakes(t *testing.T) {
	setEnv(t)
	_, err := Load("testdata/faults/ten-mistakes.yaml")
	if faults, _ := errors.AsType[FaultErrors](err); len(faults) != 10 {
		t.Errorf("got %d faults, want 10:\n%v", len(faults), err)
	}
}

// The block of docs/requirements.md is taken as it stands there, with all of its values (REQ-D9).
func TestBlockOfTheRequirements(t *testing.T) {
	block, err := os.ReadFile("testdata/requirements.yaml")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../../../docs/requirements.md")
	if err != nil || !strings.Contains(string(page), "\n\n"+string(block)+"\n") {
		t.Fatalf("not the block of docs/requirements.md (%v):\n%s", err, block)
	}
	c, err := Load("testdata/requirements.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want := readpath.Config{
		Budget:    readpath.Budget{Rate: 200, Burst: 200},
		Critical:  readpath.CriticalPolicy{RetryAfter: 2 * time.Second},
		Sheddable: readpath.SheddablePolicy{RetryAfter: 5 * time.Second},
		Recovery:  readpath.Recovery{Order: []readpath.Class{readpath.Critical, readpath.Degradable, readpath.Sheddable}, Sustain: 30 * time.Second},
	}
	if !reflect.DeepEqual(*c.ReadPath, want) || !c.StaleCache {
		t.Errorf("got %+v with a cache: %v\nwant %+v and a cache", *c.ReadPath, c.StaleCache, want)
	}
}

// Every value of that block counts: another one changes the result, or is a fault.
func TestEachValueOfTheBlockCounts(t *testing.T) {
	block, err := os.ReadFile("testdata/requirements.yaml")
	if err != nil {
		t.Fatal(err)
	}
	before, err := Parse("f", block)
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range [][2]string{
		{"rate_per_sec: 200", "rate_per_sec: 201"},
		{"burst: 200", "burst: 201"},
		{"fail_closed", "queue"},
		{"retry_after_s: 2", "retry_after_s: 3"},
		{"from_cache: true", "from_cache: false"},
		{"X-Data-Freshness: stale", "X-Data-Freshness: old"},
		{"primary_if_budget", "primary"},
		{"action: shed", "action: queue"},
		{"503", "500"},
		{"retry_after_s: 5", "retry_after_s: 6"},
		{"[critical, degradable, sheddable]", "[critical, sheddable, degradable]"},
		{"for_s: 30", "for_s: 31"},
	} {
		text := strings.Replace(string(block), change[0], change[1], 1)
		after, err := Parse("f", []byte(text))
		if text == string(block) || err == nil && reflect.DeepEqual(after.ReadPath, before.ReadPath) && after.StaleCache == before.StaleCache {
			t.Errorf("%q to %q has no effect", change[0], change[1])
		}
	}
}

// The complete example of docs/configuration.md has every key, each with its default.
func TestExampleOfTheDocs(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindSubmatch(page)
	if block == nil {
		t.Fatal("no example")
	}
	c := parseExample(t, block[1])
	checkExampleOfDaemon(t, c)
	checkSchemaTakes(t, block[1])
	wantDB := pgxread.Config{
		Primary:         pgxread.Node{Name: "primary", DSN: "host=primary password=password-of-primary"},
		PrimaryReadsDSN: "host=primary_reads",
		Replicas:        []pgxread.Node{{Name: "r1", DSN: "host=r1", SampleDSN: "host=r1_sample"}, {Name: "r2", DSN: "host=r2"}},
		Settings:        defaultSettings(t),
	}
	if !reflect.DeepEqual(c.DB, wantDB) {
		t.Errorf("got  %+v\nwant %+v", c.DB, wantDB)
	}
	wantPath := readpath.Config{
		Endpoints: map[string]readpath.Endpoint{
			"checkout": {Class: readpath.Critical}, "product_page": {Class: readpath.Degradable}, "recommendations": {Class: readpath.Sheddable},
		},
		DefaultClass: readpath.Critical,
		Budget:       readpath.Budget{Rate: 200, Burst: 200, Concurrent: 20, CriticalShare: 0.5, Processes: 1},
		Critical:     readpath.CriticalPolicy{MaxStaleness: 2 * time.Second, RetryAfter: 2 * time.Second},
		Degradable:   readpath.DegradablePolicy{MaxStaleness: 2250 * time.Millisecond, MaxAge: 5 * time.Minute, LateReplicas: 10 * time.Second, MaxWait: 250 * time.Millisecond, LoadTimeout: 2 * time.Second},
		Sheddable:    readpath.SheddablePolicy{MaxStaleness: 2250 * time.Millisecond, RetryAfter: 5 * time.Second},
		Recovery:     readpath.Recovery{Order: []readpath.Class{readpath.Critical, readpath.Degradable, readpath.Sheddable}, Sustain: 30 * time.Second},
	}
	if !reflect.DeepEqual(*c.ReadPath, wantPath) || !c.StaleCache {
		t.Errorf("got  %+v\nwant %+v", *c.ReadPath, wantPath)
	}
	for _, key := range knownKeys(t) {
		if !strings.Contains(string(page), "`"+key+"`") {
			t.Errorf("docs/configuration.md does not tell of `%s`", key)
		}
		if !strings.Contains(string(block[1]), key) {
			t.Errorf("the example lacks %s", key)
		}
	}
}

// knownKeys asks the reader, which lists them to whoever writes an unknown one.
func knownKeys(t *testing.T) (all []string) {
	t.Helper()
	for _, keys := range keysByPath(t) {
		all = append(all, keys...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// keysByPath are the keys of each mapping of the file, by its path.
func keysByPath(t *testing.T) map[string][]string {
	t.Helper()
	_, err := Parse("f", []byte(`{
		"*********": 0, primary: {dsn: host=h, "*********": 0}, replicas: [{"*********": 0}], settings: {"*********": 0, open: {"*********": 0}},
		degraded_mode: {"*********": 0, primary_read_budget: {"*********": 0}, recovery: {"*********": 0},
			classes: {"*********": 0, critical: {"*********": 0}, degradable: {"*********": 0}, sheddable: {"*********": 0}}},
		consumers: [{"*********": 0, tls: {"*********": 0}, replay: {"*********": 0}, open: {"*********": 0}}],
		dead_letters: {"*********": 0}, auth: {"*********": 0, tls: {"*********": 0}},
		metrics: {"*********": 0}, tracing: {"*********": 0}, log: {"*********": 0}, shutdown: {"*********": 0}}`))
	faults, _ := errors.AsType[FaultErrors](err)
	found := map[string][]string{}
	for _, f := range faults {
		if _, keys, ok := strings.Cut(f.Text, "not shown: use "); ok {
			found[strings.ReplaceAll(f.Path, "[0]", "[]")] = strings.Split(keys, ", ")
		}
	}
	if len(found) != 23 {
		t.Fatalf("got %d mappings of\n%v", len(found), err)
	}
	return found
}

// nobody is the connector of a node that is not asked.
func nobody(context.Context) (replica.Conn, error) { return nil, errors.ErrUnsupported }

// defaultSettings are those that a Set has which was given none.
func defaultSettings(t *testing.T) replica.Settings {
	t.Helper()
	set, err := replica.NewSet(replica.Config{Primary: replica.Node{Name: "primary", Connect: nobody}})
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	return set.Settings()
}

// What may be off is, at 0.
func TestNone(t *testing.T) {
	c, err := Parse("f", []byte(`
settings: {trip: never, max_staleness: never, grace: 0s, ramp: 0s, open: {jitter: 0s, sticky: 0s}}
degraded_mode: {primary_read_budget: {critical_share: 0}, classes: {degradable: {serve_stale_from_cache: false, late_replicas: 0s}}}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := replica.Settings{Trip: replica.Never, MaxStaleness: replica.Never, Grace: -1, Ramp: -1, Open: breaker.Backoff{Jitter: -1, Sticky: -1}}
	if c.DB.Settings != want || c.ReadPath.Budget.CriticalShare != -1 || c.StaleCache {
		t.Errorf("got %+v, %+v, cache %v", c.DB.Settings, c.ReadPath.Budget, c.StaleCache)
	}
}

// REQ-D5: that late replicas may serve is a choice of the file.
func TestLateReplicasAreByChoice(t *testing.T) {
	for text, want := range map[string]time.Duration{"{}": 0, "{late_replicas: 0s}": 0, "{late_replicas: 90s}": 90 * time.Second} {
		c, err := Parse("f", []byte("degraded_mode: {classes: {degradable: "+text+"}}"))
		if err != nil || c.ReadPath.Degradable.LateReplicas != want {
			t.Errorf("%s: got %+v, %v, want %v", text, c, err, want)
		}
	}
}

// A file without degraded_mode and endpoints has no read path; endpoints alone have the default one.
func TestReadPathIsByChoice(t *testing.T) {
	for text, want := range map[string]bool{"settings: {trip: 1s}": false, "endpoints: {}": true, "degraded_mode: {}": true, "primary: {dsn: host=h}": false} {
		c, err := Parse("f", []byte(text))
		if err != nil || (c.ReadPath != nil) != want {
			t.Errorf("%s: got %+v, %v, want a read path: %v", text, c, err, want)
		}
	}
}

// Files that cannot be in testdata, or are none.
func TestFilesThatAreRefused(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	for name, want := range map[string]string{
		filepath.Join(dir, "none.yaml"): ":1:1: the file cannot be read, no such file or directory: name",
		dir:                             ":1:1: the file is a directory: name",
		write("empty.yaml", ""):         ":1:1: the file is empty: write",
		write("big.yaml", strings.Repeat("#\n", maxSize/2)+"#"):      ":1:1: the file is over 1 MiB:",
		write("latin1.yaml", "endpoints: {}\n# gr\xfc\xdfe\n"):       ":2:5: the file is not UTF-8 from here on: save",
		write("utf16.yaml", "\xff\xfee\x00n\x00"):                    ":1:1: the file is not UTF-8",
		write("mark.yaml", "\ufeffendpoints: a: b\n"):                ":1:13: the file is no YAML: mapping values are not allowed",
		write("nul.yaml", "endpoints: {\x00}\n"):                     ":1:13: the file has the invisible character U+0000: remove",
		write("mac.yaml", "endpoints: {}\rsettings: {}\r"):           ":1:14: the file has a carriage return without a line feed",
		write("next-line.yaml", "endpoints: {}\u0085settings: {}\n"): ":1:14: the file has the invisible character U+0085",
	} {
		_, err := Load(name)
		faults, _ := errors.AsType[FaultErrors](err)
		if len(faults) != 1 || !strings.HasPrefix(err.Error(), name+want) {
			t.Errorf("got  %v\nwant %s%s…", err, name, want)
		}
	}
	if _, err := Load(write("just.yaml", "endpoints: {}\n"+strings.Repeat("#", maxSize-14))); err != nil {
		t.Errorf("1 MiB: got %v, want none", err)
	}
}

// A pick keeps its candidates as the bits of one word: 64.
func TestMostReplicas(t *testing.T) {
	for n, want := range map[int]string{64: "", 65: "f:3:1: replicas has 65 nodes: give at most 64"} {
		text := []byte("primary: {dsn: host=h}\nreplicas:\n")
		for i := range n {
			text = fmt.Appendf(text, "- {name: r%d, dsn: host=h}\n", i)
		}
		_, err := Parse("f", text)
		if (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("%d: got %v, want %q", n, err, want)
		}
	}
}

// The fault of a field that only a server can tell has the field's place.
func TestFaultOfAField(t *testing.T) {
	setEnv(t)
	c, err := Parse("f", []byte("primary:\n  dsn: host=h\nreplicas:\n- name: r1\n  dsn_env: BREAKWATER_TEST_R1\n"))
	if err != nil {
		t.Fatal(err)
	}
	for field, want := range map[string]string{
		"Primary.DSN": "f:2:8: primary.dsn x", "Replicas[0].DSN": "f:5:12: replicas[0].dsn_env x", "Replicas[0].SampleDSN": "f:4:3: replicas[0].sample_dsn x",
	} {
		if got := c.Fault(field, "x").String(); got != want {
			t.Errorf("%s: got %q, want %q", field, got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	files, _ := filepath.Glob("testdata/*/*.yaml")
	for _, name := range append(files, "testdata/requirements.yaml") {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if c, err := Parse("f", text); err != nil {
			checkPlaces(t, text, err)
		} else if c == nil {
			t.Error("neither a Config nor a fault")
		}
	})
}

// A named pipe that nobody writes to is not waited for, and of a file that is too large no more is read than tells so.
func TestOddFiles(t *testing.T) {
	name := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(name); err == nil || !strings.Contains(err.Error(), "is empty") {
		t.Errorf("a pipe: got %v, want that it is empty", err)
	}
	large := filepath.Join(t.TempDir(), "large")
	if err := os.WriteFile(large, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(large, 1<<40); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(large); err == nil || !strings.Contains(err.Error(), "over 1 MiB") {
		t.Errorf("a large file: got %v, want that it is over 1 MiB", err)
	}
}

// So many consumers that a reload would last for minutes are one fault.
func TestTooManyConsumers(t *testing.T) {
	text := "consumers:\n" + strings.Repeat("- {name: a, url: 'http://a/'}\n", 1001)
	if _, err := Parse("c.yaml", []byte(text)); err == nil || err.Error() != "c.yaml:2:1: consumers has 1001 consumers: name at most 1000" {
		t.Errorf("got %.300v", err)
	}
}

// Port 0 is any that is free, so two addresses with it are not the same; with another port they are.
func TestAddressesOfTheirOwn(t *testing.T) {
	t.Setenv("BREAKWATER_TEST_R1", "host=r1 user=app")
	for port, want := range map[string]bool{"0": true, "8080": false} {
		at := "127.0.0.1:" + port
		_, err := Parse("f", []byte("primary: {dsn: host=h}\nreplicas: [{name: r1, dsn_env: BREAKWATER_TEST_R1}]\nlisten: "+at+"\nagent_listen: "+at+"\n"))
		if got := err == nil; got != want {
			t.Errorf("both on port %s: got %v, want fine: %v", port, err, want)
		}
	}
}

// A file that is long and nonsense costs little, and its faults fill no log.
func TestNonsense(t *testing.T) {
	lines := strings.Repeat("a: b\n", mostSearched/5)
	items := func(n int) string { return strings.Repeat(",x", n)[1:] }
	for _, c := range []struct{ name, text, want string }{
		{"a syntax error nearby", "a: b\nc: [\nd: e\n", "f:3:1: the file is no YAML: did not find expected ',' or ']': mend it here or just before"},
		{"one far from the start", lines + "\tc: d\n", "f:13108:2: the file is no YAML: here is a tab: indent by spaces (over 64 KiB from the start the place is not searched for, it may be further up)"},
		{"an alias far from the start", lines + "c: *d\n", "f:13108:4: the file is no YAML: here is an alias, which is not taken"},
		{"a long word far from the start", lines + "c: é" + strings.Repeat("é", 100) + ": d\n", "f:13108:108: the file is no YAML: mapping values"},
		{"many nodes", "primary: {dsn: host=h}\nreplicas: [" + items(100000) + "]\n", "f:2:11: replicas has 100000 nodes: give at most 64"},
		{"many priorities", "priorities: [" + items(100000) + "]\n", "f:1:13: priorities has 100000 names: give at most 64"},
		{"many types", "consumers: [{name: a, url: 'http://h/', types: [" + items(1001) + "]}]\n", "f:1:48: consumers[0].types has 1001 names: give at most 1000"},
	} {
		_, err := Parse("f", []byte(c.text))
		if err == nil || !strings.HasPrefix(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %.300v, want %s", c.name, err, c.want)
		}
	}
}

// Of many faults the first are told, and how many more there are.
func TestManyFaults(t *testing.T) {
	for n, want := range map[int]string{
		mostFaults: "f:100:1: a is an unknown key:", mostFaults + 1: "f:100:1: the file has 1 faults more, which are not told:", 50000: "f:100:1: the file has 49900 faults more, which are not told: at most 100 are, mend them first",
	} {
		_, err := Parse("f", []byte(strings.Repeat("a: b\n", n)))
		faults, _ := errors.AsType[FaultErrors](err)
		if len(faults) != min(n, mostFaults+1) || !strings.HasPrefix(faults[len(faults)-1].String(), want) {
			t.Errorf("%d faults: got %d, the last %v, want %s", n, len(faults), faults[len(faults)-1], want)
		}
	}
}
