package config

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// name is that of a consumer, which stands in metrics, logs and addresses.
func name(key string, to *string) field {
	return field{key, "emit: Name", func(r *reader, at place) {
		s, ok := scalar(at, "!!str")
		if !ok || s == "" || s != strings.TrimSpace(s) || !harmless.MatchString(s) {
			r.fault(at, "is %s: use a text of up to 64 letters, digits, spaces and _.:,+%%-", show(at))
			return
		}
		*to = s
	}}
}

// texts is a list of at most so many of them, each once.
func texts(key string, most int, to *[]string) field {
	return field{key, "", func(r *reader, at place) {
		items := r.list(at)
		if len(items) == 0 && !r.faulty[at.path] {
			r.fault(at, "is empty: name at least one, or remove the key")
		}
		if len(items) > most {
			r.fault(at, "has %d names: give at most %d", len(items), most)
			return
		}
		for _, item := range items {
			s, ok := scalar(item, "!!str")
			switch {
			case !r.usable(item):
			case !ok || s == "":
				r.fault(item, "is %s: write a text, in quotes if it looks like a number", show(item))
			case slices.Contains(*to, s):
				r.fault(item, "is %s, which is there already: name each once", show(item))
			default:
				*to = append(*to, s)
			}
		}
	}}
}

// word takes one of a few.
func word(key string, words []string, take func(string)) field {
	return field{key, "", func(r *reader, at place) {
		w, ok := scalar(at, "!!str")
		if !ok || !slices.Contains(words, w) {
			last := len(words) - 1
			r.fault(at, "is %s: use %s or %s", show(at), strings.Join(words[:last], ", "), words[last])
			return
		}
		take(w)
	}}
}

// units of sizes, the longest first.
var units = []struct {
	name  string
	bytes int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}}

// size is a number of bytes, with or without a unit.
func size(key, lib string, to *int64) field {
	return field{key, lib, func(r *reader, at place) {
		digits, ok := scalar(at, "!!int", "!!str")
		unit := int64(1)
		for _, u := range units {
			if rest, found := strings.CutSuffix(digits, u.name); found {
				digits, unit = strings.TrimSuffix(rest, " "), u.bytes
			}
		}
		n, err := strconv.ParseInt(digits, 10, 64)
		if !ok || err != nil || !wholeNumber.MatchString(digits) || n < 1 || n > math.MaxInt64/unit {
			r.fault(at, "is %s: use a whole number of bytes, or one of KiB, MiB or GiB, such as 256MiB", show(at))
			return
		}
		*to = n * unit
	}}
}

// wholeFrom0 is whole, and 0 is none, which the libraries call -1.
func wholeFrom0(key, lib string, to *int) field {
	return field{key, lib, func(r *reader, at place) {
		digits, ok := scalar(at, "!!int")
		n, err := strconv.Atoi(digits)
		switch {
		case !ok || err != nil || !wholeNumber.MatchString(digits) || n < 0 || n > math.MaxInt32:
			r.fault(at, "is %s: use a whole number, 0 to %d; 0 is none", show(at), math.MaxInt32)
		case n == 0:
			*to = -1
		default:
			*to = n
		}
	}}
}
