// Package config reads the configuration file, docs/configuration.md. All faults of a file are
// told at once, each with its line, column and mend; none shows a connection string.
package config

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/breakwater-go/breakwater/pgxread"
	"github.com/breakwater-go/breakwater/readpath"
)

// Config is what a file says.
type Config struct {
	// DB has the nodes and the settings of the replica set. Without nodes in the file its
	// Primary.DSN is empty.
	DB pgxread.Config
	// ReadPath is nil unless the file has degraded_mode or endpoints. It lacks Backend, Cache and
	// Observer.
	ReadPath *readpath.Config
	// StaleCache says that ReadPath wants a Cache; without one no stale answer is kept.
	StaleCache bool
	// Consumers are who is told of triggers. Their names differ from each other and from those of the replicas.
	Consumers []Consumer
	// DeadLetters is where triggers wait that could not be delivered.
	DeadLetters DeadLetters
	// Priorities and DefaultPriority are those of triggers; empty: those of package emit.
	Priorities      []string
	DefaultPriority string
	// Daemon is what only the daemon heeds.
	Daemon Daemon
	// Hash tells files apart by their text, in 12 hexadecimal digits.
	Hash string

	nodes  bool // the file has nodes
	reader *reader
}

// maxSize is the size above which a file is refused, in bytes.
const maxSize = 1 << 20

// Load reads a file and the environment variables that it names. The error is a FaultErrors.
func Load(name string) (*Config, error) {
	text, err := read(name)
	if err != nil {
		return nil, FaultErrors{{File: name, Line: 1, Column: 1, Path: theFile, Text: err.Error()}}
	}
	return Parse(name, text)
}

// Parse is Load for the text of a file.
func Parse(name string, text []byte) (*Config, error) {
	r := &reader{file: name, places: map[string]place{}, faulty: map[string]bool{}, files: map[string]string{}}
	c := &Config{StaleCache: true, Hash: sum(text)[:12], reader: r}
	if root := r.document(text); root != nil {
		r.top(place{node: root}, c)
		r.ask(c)
	}
	if len(r.faults) > 0 {
		return nil, r.faults.sorted(r.untold)
	}
	return c, nil
}

// HasNodes tells whether the file names nodes.
func (c *Config) HasNodes() bool { return c.nodes }

// Files are those that the file names and that were read with it, certificates and tokens, each with the SHA-256 of what was read, in
// hexadecimal digits.
func (c *Config) Files() map[string]string { return c.reader.files }

// Secrets are the texts that must never be shown: passwords, tokens, queries of URLs.
func (c *Config) Secrets() []string { return c.reader.secrets }

// Fault is what is wrong with a value of the file, by the name that pgxread has for it, such as
// "Replicas[0].DSN".
func (c *Config) Fault(field, text string) Fault {
	return c.fault("pgxread: "+field, text)
}

// ConsumerFault is what is wrong with the URL of a consumer.
func (c *Config) ConsumerFault(i int, text string) Fault {
	return c.fault(fmt.Sprintf("url: %d", i), text)
}

func (c *Config) fault(key, text string) Fault {
	at := c.reader.places[key]
	return Fault{File: c.reader.file, Line: at.node.Line, Column: at.node.Column, Path: at.path, Text: text}
}

func read(name string) ([]byte, error) {
	text, err := ReadFile(name)
	switch {
	case errors.Is(err, syscall.EISDIR):
		return nil, errors.New("is a directory: name a file")
	case err != nil:
		return nil, unreadable(err)
	case len(text) > maxSize:
		return nil, errors.New("is over 1 MiB: a configuration is smaller; name another file")
	}
	return text, nil
}

// ReadFile returns what a file holds, of one of over 1 MiB the begin, which is over 1 MiB too. It waits for no writer of a named pipe: one that nobody
// has open is empty.
func ReadFile(name string) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	return io.ReadAll(io.LimitReader(f, maxSize+1))
}

func sum(text []byte) string {
	s := sha256.Sum256(text)
	return hex.EncodeToString(s[:])
}

func unreadable(err error) error {
	if path, ok := errors.AsType[*os.PathError](err); ok {
		err = path.Err
	}
	return fmt.Errorf("cannot be read, %w: name a file that can", err)
}
