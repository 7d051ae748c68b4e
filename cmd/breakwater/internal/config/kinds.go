package config

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/breakwater-go/breakwater/readpath"
	"github.com/breakwater-go/breakwater/replica"
)

// section is a key with a mapping or list of its own.
func section(key string, read func(r *reader, at place)) field {
	return field{key, "section: " + key, read}
}

// scalar is the text of a scalar of one of these tags.
func scalar(at place, tags ...string) (string, bool) {
	for _, tag := range tags {
		if at.node.ShortTag() == tag {
			return at.node.Value, true
		}
	}
	return "", false
}

// text is one that is not empty.
func text(key, lib string, to *string) field {
	return field{key, lib, func(r *reader, at place) {
		switch s, ok := scalar(at, "!!str"); {
		case !ok:
			r.fault(at, "is %s: write a text, in quotes if it looks like a number", show(at))
		case s == "":
			r.fault(at, "is empty: give a text, or remove the key")
		default:
			*to = s
		}
	}}
}

// longest keeps sums of durations from overflowing, as in the libraries.
const longest = 365 * 24 * time.Hour

// span is what a duration may be; usual is its default, or an example.
type span struct {
	least       time.Duration
	usual       string
	zero, never bool // 0s means none; never is taken
}

func (s span) mend() string {
	mend := "use a duration with its unit, "
	if s.least > 0 {
		mend += fmt.Sprintf("at least %v and ", s.least)
	}
	mend += "at most 8760h, such as " + s.usual
	if s.zero {
		mend += "; 0s is none"
	}
	if s.never {
		mend += "; or never"
	}
	return mend
}

func (s span) read(at place) (time.Duration, bool) {
	word, ok := scalar(at, "!!str")
	if s.never && ok && word == "never" {
		return replica.Never, true
	}
	d, err := time.ParseDuration(word)
	if d == 0 && err == nil && s.zero {
		return -1, ok
	}
	return d, ok && err == nil && d > 0 && d >= s.least && d <= longest
}

func duration(key, lib string, to *time.Duration, s span) field {
	return field{key, lib, func(r *reader, at place) {
		d, ok := s.read(at)
		if !ok {
			r.fault(at, "is %s: %s", show(at), s.mend())
			return
		}
		*to = d
	}}
}

// Numbers are decimal: 010 is eight to some readers of YAML.
var (
	wholeNumber   = regexp.MustCompile(`^[+-]?(0|[1-9]\d*)$`)
	decimalNumber = regexp.MustCompile(`^[+-]?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$`)
)

func readNumber(at place) (float64, bool) {
	digits, ok := scalar(at, "!!int", "!!float")
	v, err := strconv.ParseFloat(digits, 64)
	return v, ok && err == nil && decimalNumber.MatchString(digits)
}

// number takes what ok says.
func number(key, lib string, to *float64, ok func(float64) bool, mend string) field {
	return field{key, lib, func(r *reader, at place) {
		v, isNumber := readNumber(at)
		if !isNumber || !ok(v) {
			r.fault(at, "is %s: use %s", show(at), mend)
			return
		}
		*to = v
	}}
}

// whole takes whole numbers from 1 to most.
func whole(key, lib string, to *int, most int, usual string) field {
	return field{key, lib, func(r *reader, at place) {
		digits, ok := scalar(at, "!!int")
		n, err := strconv.Atoi(digits)
		if !ok || err != nil || !wholeNumber.MatchString(digits) || n < 1 || n > most {
			r.fault(at, "is %s: use a whole number, 1 to %d, such as %s", show(at), most, usual)
			return
		}
		*to = n
	}}
}

// seconds are a number, as the names that end in _s say.
func seconds(key, lib string, to *time.Duration, usual string) field {
	return field{key, lib, func(r *reader, at place) {
		v, ok := readNumber(at)
		if !ok || v < 0.001 || v > longest.Seconds() {
			r.fault(at, "is %s: use a number of seconds without a unit, 0.001 to 31536000, such as %s", show(at), usual)
			return
		}
		*to = time.Duration(math.Round(v * float64(time.Second)))
	}}
}

func yes(key string, to *bool) field {
	return field{key, "", func(r *reader, at place) {
		word, ok := scalar(at, "!!bool")
		b, err := strconv.ParseBool(word)
		if !ok || err != nil {
			r.fault(at, "is %s: use true or false", show(at))
			return
		}
		*to = b
	}}
}

// only takes the one value that there is, as it stands in the file; why says what for.
func only(key, value, why string) field {
	tag, bare := "!!str", strings.Trim(value, `"`)
	if wholeNumber.MatchString(value) {
		tag = "!!int"
	}
	return field{key, "", func(r *reader, at place) {
		if got, ok := scalar(at, tag); !ok || got != bare {
			r.fault(at, "is %s: write %s, the only value: %s", show(at), value, why)
		}
	}}
}

func class(key, lib string, to *readpath.Class) field {
	return field{key, lib, func(r *reader, at place) {
		if c, ok := r.class(at); ok {
			*to = c
		}
	}}
}

func (r *reader) class(at place) (c readpath.Class, ok bool) {
	word, ok := scalar(at, "!!str")
	if !ok || c.UnmarshalText([]byte(word)) != nil {
		r.fault(at, "is %s: use critical, degradable or sheddable", show(at))
		return 0, false
	}
	return c, true
}
