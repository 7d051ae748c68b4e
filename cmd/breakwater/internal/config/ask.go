package config

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/breakwater-go/breakwater/readpath"
	"github.com/breakwater-go/breakwater/replica"
)

// ask has the libraries check what was read, and tells their faults at the places of the fields. A
// field with a fault was left at its default: what is said of it, or by comparison with it, would mislead.
func (r *reader) ask(c *Config) {
	faults := leaves(errors.Join(replica.CheckSettings(c.DB.Settings, 0), readPathFault(c.ReadPath)))
	if c.nodes {
		r.names(&c.DB)
		faults = append(faults, leaves(c.DB.Check())...)
	}
	r.consumerNames(c)
	for _, f := range faults {
		said := f.Error()
		for i, n := range c.DB.Replicas {
			said = strings.Replace(said, fmt.Sprintf("Replicas[%d] (%s).", i, n.Name), fmt.Sprintf("Replicas[%d].", i), 1)
		}
		r.tell(said)
	}
}

// leaves are the errors that were joined, and joined again.
func leaves(err error) (all []error) {
	joined, ok := err.(interface{ Unwrap() []error })
	switch {
	case err == nil:
		return nil
	case !ok:
		return []error{err}
	}
	for _, e := range joined.Unwrap() {
		all = append(all, leaves(e)...)
	}
	return all
}

// readPathFault is what a Router says to its Config.
func readPathFault(c *readpath.Config) error {
	if c == nil {
		return nil
	}
	with := *c
	with.Backend = noBackend{}
	router, err := readpath.New(with)
	if err == nil {
		router.Close()
	}
	return err
}

// noBackend stands in where no node is asked.
type noBackend struct{ readpath.Backend }

// Eligible finds no replica.
func (noBackend) Eligible(replica.Requirement) bool { return false }

// Sampled says that no node was.
func (noBackend) Sampled() bool { return false }

// fieldName is a Go field in the text of a library.
var fieldName = regexp.MustCompile(`\b[A-Z]\w*(\[\d+\])?(\.[A-Z]\w*)*`)

// zeroIsDefault is how Go code asks for a default; in the file that is to leave the key out.
var zeroIsDefault = regexp.MustCompile(`, or 0 for [^;]*$`)

// tell notes a library's fault, "package: Field is Value: mend", in the words of the file.
func (r *reader) tell(said string) {
	pkg, rest, _ := strings.Cut(said, ": ")
	rest = zeroIsDefault.ReplaceAllString(rest, "")
	name := fieldName.FindString(rest)
	at, known := r.places[pkg+": "+name]
	if !known || !strings.HasPrefix(rest, name) {
		r.fault(r.home(pkg), "%s", rest)
		return
	}
	misleads := r.faulty[at.path]
	text := fieldName.ReplaceAllStringFunc(rest[len(name):], func(word string) string {
		other, ok := r.places[pkg+": "+word]
		if !ok {
			return word
		}
		misleads = misleads || r.faulty[other.path]
		return short(other.path)
	})
	if misleads {
		return
	}
	if strings.HasSuffix(at.path, "_env") {
		text = " names a variable whose value" + text
	}
	r.fault(at, "%s", strings.TrimPrefix(text, " "))
}

// short is a path without the section that it lies in.
func short(path string) string {
	if inner, ok := strings.CutPrefix(path, "settings."); ok {
		return inner
	}
	return path[strings.LastIndexByte(path, '.')+1:]
}

// home is where the faults of a package are told whose field is not known.
func (r *reader) home(pkg string) place {
	key := map[string]string{"pgxread": "primary", "replica": "settings", "breaker": "settings", "emit": "consumers", "httpsink": "consumers", "boltletters": "dead_letters", "telemetry": "tracing"}[pkg]
	if key == "" {
		key = "degraded_mode"
	}
	return r.places["section: "+key]
}
