package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// document returns the root of the file's one document, nil if there is none that can be read.
func (r *reader) document(text []byte) *yaml.Node {
	if at, what := strange(text); what != "" {
		r.faultAt(text, at, what)
		return nil
	}
	docs, read, err := documents(text)
	if err != nil {
		r.noYAML(text, read, err.Error())
		return nil
	}
	if len(docs) == 0 || docs[0].Content[0].ShortTag() == "!!null" {
		r.faultAt(text, 0, "is empty: write degraded_mode, or primary and replicas, as docs/configuration.md shows")
		return nil
	}
	if len(docs) > 1 {
		r.fault(place{path: theFile, node: &docs[1]}, "has a second document: keep one, without a line of ---")
	}
	return docs[0].Content[0]
}

// documents parses all of them; two are enough to know that there are too many. After an error read is how far the parser came, with the few characters that
// it looks ahead.
func documents(text []byte) (docs []yaml.Node, read int, err error) {
	in := &single{text: text}
	for d := yaml.NewDecoder(in); ; {
		var n yaml.Node
		switch err := d.Decode(&n); {
		case errors.Is(err, io.EOF):
			return docs, in.read, nil
		case err != nil:
			return nil, in.read, err
		}
		if len(docs) < 2 {
			docs = append(docs, n)
		}
	}
}

// A single is a reader that gives a byte at a time, so that the parser reads no further than it must.
type single struct {
	text []byte
	read int
}

// Read gives the next byte.
func (s *single) Read(p []byte) (int, error) {
	if s.read == len(s.text) {
		return 0, io.EOF
	}
	n := copy(p[:1], s.text[s.read:])
	s.read += n
	return n, nil
}

const byteOrderMark = "\ufeff"

// strange finds the first character that has no place in a configuration. What YAML counts as
// the end of a line, and editors do not, is among them.
func strange(text []byte) (at int, what string) {
	at = len(text) - len(bytes.TrimPrefix(text, []byte(byteOrderMark)))
	for at < len(text) {
		c, size := utf8.DecodeRune(text[at:])
		switch {
		case c == utf8.RuneError && size == 1:
			return at, "is not UTF-8 from here on: save it as UTF-8"
		case c == '\r' && !bytes.HasPrefix(text[at:], []byte("\r\n")):
			return at, "has a carriage return without a line feed: end lines with a line feed"
		case !strings.ContainsRune("\t\r\n", c) && (unicode.In(c, unicode.Cc, unicode.Zl, unicode.Zp) || c == 0xFEFF || c == 0xFFFE || c == 0xFFFF):
			return at, fmt.Sprintf("has the invisible character %U: remove it", c)
		}
		at += size
	}
	return at, ""
}

// mostSearched bounds the search for the place of a problem, which parses what is before it some 20 times.
const mostSearched = 64 << 10

// noYAML tells a problem at the place where it comes into being, or, where that would be searched for too long, at the one where the parser gave up.
func (r *reader) noYAML(text []byte, read int, problem string) {
	at, hint := max(0, read-1), fmt.Sprintf(" (over %d KiB from the start the place is not searched for, it may be further up)", mostSearched>>10)
	if read <= mostSearched {
		at, hint = firstWith(text, problem), ""
	}
	at = begin(text, at, problem)
	r.faultAt(text, at, "is no YAML: "+words(problem, text, at)+hint)
}

// begin is that of the character or the alias that ends at an offset.
func begin(text []byte, at int, problem string) int {
	if strings.Contains(problem, "anchor") {
		at = max(0, bytes.LastIndexByte(text[:min(at+1, len(text))], '*'))
	}
	for at > 0 && at < len(text) && !utf8.RuneStart(text[at]) {
		at--
	}
	return at
}

// firstWith finds where the problem comes into being: the YAML library tells a line that is
// sometimes the one before, and no column. The text up to there has the problem, the text
// before does not.
func firstWith(text []byte, problem string) int {
	without, with := 0, len(text)
	for with-without > 1 {
		mid := without + (with-without)/2
		if _, _, err := documents(text[:mid]); err != nil && err.Error() == problem {
			with = mid
		} else {
			without = mid
		}
	}
	return without
}

var lineOfProblem = regexp.MustCompile(`^yaml: (line \d+: )?`)

// words is a problem at an offset, without the library's own line, and without the name of an anchor, which may be a
// piece of a password.
func words(problem string, text []byte, at int) string {
	indent := text[bytes.LastIndexByte(text[:at], '\n')+1:]
	if indent = indent[:len(indent)-len(bytes.TrimLeft(indent, " \t"))]; bytes.ContainsRune(indent, '\t') {
		return "here is a tab: indent by spaces"
	}
	if strings.Contains(problem, "anchor") {
		return "here is an alias, which is not taken: write the value itself, or put a text that begins with * in quotes"
	}
	problem = lineOfProblem.ReplaceAllString(problem, "")
	return problem + ": mend it here or just before"
}

// faultAt notes a fault of the file at an offset of its text.
func (r *reader) faultAt(text []byte, offset int, what string) {
	before := bytes.TrimPrefix(text[:offset], []byte(byteOrderMark))
	line := before[bytes.LastIndexByte(before, '\n')+1:]
	n := yaml.Node{Line: 1 + bytes.Count(before, []byte("\n")), Column: 1 + utf8.RuneCount(line)}
	r.fault(place{path: theFile, node: &n}, "%s", what)
}
