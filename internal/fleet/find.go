package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// minMajor is the oldest server that takes our settings: wal_keep_size came
// with 13.
const minMajor = 13

// ErrNoServer means that no usable PostgreSQL server was found. The error that
// wraps it says where was looked and what to install.
var ErrNoServer = errors.New("fleet: no PostgreSQL server found")

// Binaries are the programs of one PostgreSQL server installation.
type Binaries struct {
	Dir     string // where they are
	Version string // as Fleet.Version: "postgres 15.18"
	major   int    // 15
}

func (b Binaries) path(program string) string { return filepath.Join(b.Dir, program) }

// Psql returns the path of psql beside the server's programs, or "" if there
// is none.
func (b Binaries) Psql() string {
	p := b.path("psql")
	if !executable(p) {
		return ""
	}
	return p
}

// places is where Find looks when it is told nothing; a variable of Find's, so
// that tests can look elsewhere.
type places struct {
	path  string   // as $PATH
	globs []string // patterns of directories, the highest version first within each
}

func usualPlaces() places {
	return places{path: os.Getenv("PATH"), globs: []string{
		"/usr/lib/postgresql/*/bin",         // Debian, Ubuntu
		"/usr/pgsql-*/bin",                  // RPMs of the PostgreSQL project
		"/opt/homebrew/opt/postgresql*/bin", // Homebrew on Apple silicon
		"/usr/local/opt/postgresql*/bin",    // Homebrew on Intel
		"/home/linuxbrew/.linuxbrew/opt/postgresql*/bin",
		"/Applications/Postgres.app/Contents/Versions/*/bin",
		"/usr/libexec/postgresql*", // Alpine
		"/usr/local/pgsql/bin",     // built from source
	}}
}

// Find returns the PostgreSQL server in binDir, or if that is "" the first of:
// PATH (symbolic links resolved), then the places where Debian, the RPMs,
// Homebrew and others put it, the highest version of each. It runs
// "postgres --version". The error matches ErrNoServer.
func Find(ctx context.Context, binDir string) (Binaries, error) {
	if binDir != "" {
		b, err := inspect(ctx, binDir)
		if err != nil {
			return Binaries{}, fmt.Errorf("%w: BinDir %q: %w: name the directory that holds initdb and postgres, or none to search", ErrNoServer, binDir, err)
		}
		return b, nil
	}
	return usualPlaces().find(ctx)
}

func (p places) find(ctx context.Context) (Binaries, error) {
	var looked []string
	for _, dir := range p.dirs() {
		b, err := inspect(ctx, dir)
		if err == nil {
			return b, nil
		}
		if !errors.Is(err, os.ErrNotExist) {
			looked = append(looked, err.Error())
		}
	}
	where := append([]string{"PATH"}, p.globs...)
	msg := "looked in " + strings.Join(where, ", ")
	if len(looked) > 0 {
		msg += "; unusable: " + strings.Join(looked, "; ")
	}
	return Binaries{}, fmt.Errorf("%w: %s; %s", ErrNoServer, msg, howToInstall)
}

const howToInstall = "install it (Debian, Ubuntu: apt-get install postgresql; Fedora, RHEL: dnf install postgresql-server; " +
	"Alpine: apk add postgresql; macOS: brew install postgresql) or name its directory"

// dirs lists candidates, best first.
func (p places) dirs() []string {
	var dirs []string
	for _, d := range filepath.SplitList(p.path) {
		real, err := filepath.EvalSymlinks(filepath.Join(d, "postgres"))
		if err == nil {
			dirs = append(dirs, filepath.Dir(real))
		}
	}
	for _, g := range p.globs {
		found, err := filepath.Glob(g)
		if err != nil {
			continue // only a malformed pattern, of which there is none
		}
		slices.SortStableFunc(found, func(a, b string) int { return cmp.Compare(versionIn(b), versionIn(a)) })
		dirs = append(dirs, found...)
	}
	return dirs
}

var lastNumber = regexp.MustCompile(`(\d+)(?:\.\d+)?(?:/bin)?$`)

// versionIn reads the major version that a directory's name ends in, else 0.
func versionIn(dir string) int {
	m := lastNumber.FindStringSubmatch(dir)
	if m == nil {
		return 0
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		return 0
	}
	return n
}

func inspect(ctx context.Context, dir string) (Binaries, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return Binaries{}, err
	}
	b := Binaries{Dir: dir}
	for _, program := range []string{"initdb", "postgres"} {
		if p := b.path(program); !executable(p) {
			return Binaries{}, fmt.Errorf("%s: %w, or not executable", p, os.ErrNotExist)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, b.path("postgres"), "--version").Output()
	if err != nil {
		return Binaries{}, fmt.Errorf("%s --version: %w", b.path("postgres"), err)
	}
	b.Version, b.major, err = parseVersion(string(out))
	if err != nil {
		return Binaries{}, fmt.Errorf("%s: %w", dir, err)
	}
	return b, nil
}

var versionLine = regexp.MustCompile(`\(PostgreSQL\) ((\d+)\S*)`)

// parseVersion turns "postgres (PostgreSQL) 15.18 (Debian …)" into
// "postgres 15.18" and 15.
func parseVersion(line string) (version string, major int, err error) {
	m := versionLine.FindStringSubmatch(line)
	if m == nil {
		return "", 0, fmt.Errorf("no PostgreSQL version in %q", strings.TrimSpace(line))
	}
	major, err = strconv.Atoi(m[2])
	if err != nil || major < minMajor {
		return "", 0, fmt.Errorf("PostgreSQL %s is too old: install %d or newer", m[1], minMajor)
	}
	return "postgres " + m[1], major, nil
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}
