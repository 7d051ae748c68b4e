package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A place is a value in the file, or the mapping in which it is missing.
type place struct {
	path   string
	node   *yaml.Node
	secret bool // no value at or below it is shown
}

// reader walks the tree and collects the faults.
type reader struct {
	file   string
	faults FaultErrors
	untold int              // faults beyond mostFaults
	faulty map[string]bool  // paths that have a fault
	places map[string]place // of what the libraries check too, by "package: Field"
	given  map[string]place // keys of the root

	secrets []string          // what must never be shown
	files   map[string]string // that were read beside, with the sums of their texts
}

func (r *reader) fault(at place, format string, args ...any) {
	if r.full() {
		r.untold++
		return
	}
	path := at.path
	if path == "" {
		path = theFile
	}
	r.faulty[path] = true
	r.faults = append(r.faults, Fault{r.file, at.node.Line, at.node.Column, path, fmt.Sprintf(format, args...)})
}

// full says that no fault is told any more.
func (r *reader) full() bool { return len(r.faults) == mostFaults }

// faultyBelow tells whether anything in a section has a fault.
func (r *reader) faultyBelow(path string) bool {
	for p := range r.faulty {
		if strings.HasPrefix(p, path+".") {
			return true
		}
	}
	return false
}

// A field is a key that a mapping may have.
type field struct {
	key  string
	lib  string // the libraries' name, "package: Field"; "" where they know none
	read func(r *reader, at place)
}

var (
	plain = regexp.MustCompile(`^[A-Za-z_][\w-]*$`)
	// harmless texts cannot be a connection string.
	harmless = regexp.MustCompile(`^[\p{L}\p{N}_ .:,+%-]{0,64}$`)
)

func (p place) child(key string, n *yaml.Node) place {
	path := p.path + "." + key
	switch {
	case p.path == "":
		path = key
	case !harmless.MatchString(key):
		path = p.path + "[…]"
	case !plain.MatchString(key):
		path = p.path + "[" + strconv.Quote(key) + "]"
	}
	return place{path, n, p.secret}
}

// mapping reads the fields of a mapping and returns those that it has; nil where there is no mapping.
func (r *reader) mapping(at place, fields ...field) map[string]place {
	if !r.isMapping(at) {
		return nil
	}
	known := map[string]field{}
	for _, f := range fields {
		known[f.key] = f
		r.places[f.lib] = at.child(f.key, at.node)
	}
	given := map[string]place{}
	for _, p := range r.pairs(at) {
		f, ok := known[p.key.Value]
		switch value := at.child(f.key, p.value); {
		case !ok:
			r.unknown(at, p.key, known)
		case !r.twice(at, given, p):
			given[f.key], r.places[f.lib] = value, value
			if r.usable(value) {
				f.read(r, value)
			}
		}
	}
	return given
}

type pair struct{ key, value *yaml.Node }

func (r *reader) isMapping(at place) bool {
	ok := at.node.Kind == yaml.MappingNode
	if !ok {
		r.fault(at, "is %s: write keys with values", show(at))
	}
	return ok
}

// pairs are the keys of a mapping with their values.
func (r *reader) pairs(at place) (pairs []pair) {
	for c := range slices.Chunk(at.node.Content, 2) {
		key := place{at.path, c[0], at.secret}
		switch k := c[0]; {
		case k.ShortTag() == "!!merge":
			r.fault(key, "has a merge key (<<), which is not taken: write the keys out")
		case k.Kind != yaml.ScalarNode || k.Anchor != "" || k.Style&yaml.TaggedStyle != 0:
			r.fault(key, "has a key that is no plain word: write a plain one")
		default:
			pairs = append(pairs, pair{k, c[1]})
		}
	}
	return pairs
}

// twice tells whether a key was there before, which is a fault.
func (r *reader) twice(at place, given map[string]place, p pair) bool {
	first, ok := given[p.key.Value]
	if ok {
		r.fault(at.child(p.key.Value, p.key), "is given twice, first in line %d: keep one", first.node.Line)
	}
	return ok
}

// usable notes what no value may be.
func (r *reader) usable(at place) bool {
	switch n := at.node; {
	case n.Kind == yaml.AliasNode:
		r.fault(at, "is an alias, which is not taken: write the value itself, or put a text that begins with * in quotes")
	case n.Anchor != "":
		r.fault(at, "has an anchor, which is not taken: remove it, or put a text that begins with & in quotes")
	case n.Style&yaml.TaggedStyle != 0:
		r.fault(at, "has a tag, which is not taken: remove it, or put a text that begins with ! in quotes")
	case n.ShortTag() == "!!null":
		r.fault(at, "is empty: give a value, or remove the key")
	default:
		return true
	}
	return false
}

// unknown suggests what may have been meant. Where secrets are, only what is near to a known key is
// shown: anything else may be a piece of a password.
func (r *reader) unknown(at place, key *yaml.Node, fields map[string]field) {
	if r.full() { // what is not told is not looked for
		r.untold++
		return
	}
	here, known := at.child(key.Value, key), slices.Sorted(maps.Keys(fields))
	near := nearest(key.Value, known)
	switch {
	case near != "":
		r.fault(here, "is an unknown key: did you mean %s?", near)
	case at.secret || !harmless.MatchString(key.Value):
		r.fault(place{at.path, key, true}, "has an unknown key, which may be a piece of a secret and is not shown: use %s", strings.Join(known, ", "))
	default:
		r.fault(here, "is an unknown key: use %s", strings.Join(known, ", "))
	}
}

// list are the items of a list.
func (r *reader) list(at place) (items []place) {
	if at.node.Kind != yaml.SequenceNode {
		r.fault(at, "is %s: write a list", show(at))
		return nil
	}
	for i, n := range at.node.Content {
		items = append(items, place{fmt.Sprintf("%s[%d]", at.path, i), n, at.secret})
	}
	return items
}

// show is a value as a fault shows it.
func show(at place) string {
	n := at.node
	switch tag := n.ShortTag(); {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case at.secret && tag != "!!str":
		return "no text"
	case at.secret || !harmless.MatchString(n.Value):
		return "a text that may hold a secret and is not shown"
	case tag == "!!str":
		return strconv.Quote(n.Value)
	default:
		return n.Value
	}
}
