package api

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// decode reads the body of a request, one JSON object, into a struct by the names of its json tags. Each field that is unknown, there twice, null or of another
// type is a fault, all of them at once.
func decode(r *http.Request, into any) error {
	body, err := io.ReadAll(r.Body) // from memory
	if err != nil {
		return err
	}
	return invalid(object("", body, reflect.ValueOf(into).Elem()))
}

// mostFaults bounds what is told of one body: of one with ten thousand wrong names that would be megabytes.
const mostFaults = 100

// unknownField begins the mend of one; what there is follows.
const unknownField = "unknown: use "

// object reads one JSON object into a struct, whose place in the body is told before the names of its fields.
func object(place string, text []byte, into reflect.Value) (faults []FieldFault) {
	bad := func(mend string) []FieldFault {
		return append(faults, FieldFault{cmp.Or(strings.TrimSuffix(place, "."), "body"), shown(text), mend})
	}
	fields := fieldsOf(into)
	d := json.NewDecoder(bytes.NewReader(text))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return bad("send one JSON object")
	}
	seen := map[string]bool{}
	for d.More() {
		if len(faults) > mostFaults {
			return bad("it has many faults: mend those that are told first")
		}
		name, value, err := member(d)
		if err != nil {
			return bad("it is no JSON: " + err.Error())
		}
		to, known := fields[name]
		switch {
		case !known:
			faults = append(faults, FieldFault{place + name, shown(value), unknownField + strings.Join(slices.Sorted(maps.Keys(fields)), ", ")})
		case seen[name]:
			faults = append(faults, FieldFault{place + name, shown(value), "give it once"})
		default:
			faults = append(faults, set(place+name, value, to)...)
		}
		seen[name] = true
	}
	if _, err := d.Token(); err != nil {
		return bad("it is no JSON: " + err.Error())
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return bad("send nothing after the object")
	}
	return faults
}

// member reads one name and its value.
func member(d *json.Decoder) (name string, value json.RawMessage, err error) {
	t, err := d.Token()
	if err != nil {
		return "", nil, err
	}
	name, _ = t.(string)
	err = d.Decode(&value)
	return name, value, err
}

// set reads a value into its field.
func set(name string, value json.RawMessage, to reflect.Value) []FieldFault {
	if string(value) == "null" { // as if it were not there, a filter would select more than it says
		return []FieldFault{{name, "null", "give a value, or leave it out"}}
	}
	if to.Kind() == reflect.Pointer && to.Type().Elem().Kind() == reflect.Struct {
		to.Set(reflect.New(to.Type().Elem()))
		to = to.Elem()
	}
	if to.Kind() == reflect.Struct {
		return object(name+".", value, to)
	}
	if err := json.Unmarshal(value, to.Addr().Interface()); err != nil {
		return []FieldFault{{name, shown(value), "use " + kindOf(to.Type())}}
	}
	return nil
}

// kindOf says in words what a field takes.
func kindOf(t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		return kindOf(t.Elem())
	}
	if w, ok := reflect.TypeAssert[interface{ takes() string }](reflect.Zero(t)); ok {
		return w.takes()
	}
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Uint64:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	case reflect.Slice:
		return "a list of texts"
	default:
		return "a text"
	}
}

// fieldsOf are the fields of a struct by their json names, those of embedded structs too.
func fieldsOf(v reflect.Value) map[string]reflect.Value {
	fields := map[string]reflect.Value{}
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous:
			maps.Copy(fields, fieldsOf(v.Field(i)))
		case name != "" && name != "-":
			fields[name] = v.Field(i)
		}
	}
	return fields
}

// longestShown is how much of a value is shown, in bytes.
const longestShown = 64

// shown is a piece of JSON as it is shown.
func shown(text []byte) string {
	if len(text) > longestShown {
		return strings.ToValidUTF8(string(text[:longestShown]), "") + "…"
	}
	return strings.ToValidUTF8(string(text), "�")
}

// quote is a value as it is shown.
func quote(s string) string {
	if len(s) > longestShown {
		return strconv.Quote(s[:longestShown]) + "…"
	}
	return strconv.Quote(s)
}

// milliseconds is a number of them, or the word never.
type milliseconds float64

// UnmarshalJSON takes a number or "never".
func (m *milliseconds) UnmarshalJSON(text []byte) error {
	if string(text) == `"never"` {
		*m = milliseconds(math.Inf(1))
		return nil
	}
	var f float64
	if err := json.Unmarshal(text, &f); err != nil {
		return fmt.Errorf("milliseconds: %w", err)
	}
	*m = milliseconds(f)
	return nil
}

func (milliseconds) takes() string { return `a number of milliseconds, or "never"` }
