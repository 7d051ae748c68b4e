package cloudevent

import (
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/breakwater-go/breakwater/emit"
)

// Media types, and the extension that carries a key.
const (
	jsonType       = "application/json"
	eventType      = "application/cloudevents"
	StructuredType = eventType + "+json; charset=UTF-8"
	partitionKey   = "partitionkey"
)

// An InvalidError says why a trigger can be no CloudEvent, or a request is none. No consumer will ever take it, so it matches
// emit.ErrRejected.
type InvalidError struct{ Faults error }

// Error names every fault. It shows no values.
func (e *InvalidError) Error() string { return "not a CloudEvent: " + e.Faults.Error() }

// Is matches emit.ErrRejected.
func (*InvalidError) Is(target error) bool { return target == emit.ErrRejected }

// Unwrap returns the faults, joined.
func (e *InvalidError) Unwrap() error { return e.Faults }

// An attribute is one of an event, but for datacontenttype.
type attribute struct{ name, value string }

// attributes are those of a trigger, in a fixed order, or an *InvalidError.
func attributes(t emit.Trigger) ([]attribute, error) {
	all := make([]attribute, 0, 7+len(t.Attributes))
	all = append(all, attribute{"specversion", "1.0"}, attribute{"id", t.ID}, attribute{"source", t.Source}, attribute{"type", t.Type})
	faults := required(all)
	stamp, err := timestamp(t.Time)
	for _, a := range []attribute{{"subject", t.Subject}, {"time", stamp}, {partitionKey, t.Key}} {
		if a.value != "" {
			all = append(all, a)
		}
	}
	faults = append(faults, err, clash(t))
	for _, name := range slices.Sorted(maps.Keys(t.Attributes)) {
		faults = append(faults, nameFault(name))
		if name != partitionKey || t.Key == "" {
			all = append(all, attribute{name, t.Attributes[name]})
		}
	}
	for _, a := range all {
		faults = append(faults, valueFault(a))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, &InvalidError{err}
	}
	return all, nil
}

func required(all []attribute) (faults []error) {
	for _, a := range all {
		if a.value == "" {
			faults = append(faults, fmt.Errorf("it has no %s", a.name))
		}
	}
	return faults
}

// timestamp is t as RFC 3339 has it; the zero time is none.
func timestamp(t time.Time) (string, error) {
	if t.IsZero() {
		return "", nil
	}
	text, err := t.UTC().MarshalText()
	if err != nil {
		return "", errors.New("time: its year is not in 0 to 9999")
	}
	return string(text), nil
}

func clash(t emit.Trigger) error {
	if p, ok := t.Attributes[partitionKey]; ok && t.Key != "" && p != t.Key {
		return errors.New("attribute partitionkey is not the Key, which is sent by that name")
	}
	return nil
}

// nameFault: lower-case letters and digits, and none that has a field of its own.
func nameFault(name string) error {
	switch name {
	case "specversion", "id", "source", "type", "subject", "time", "datacontenttype", "data":
		return fmt.Errorf("attribute %s: set the trigger's own field", name)
	}
	if !IsName(name) {
		return fmt.Errorf("attribute %.40q: use lower-case letters and digits", name)
	}
	return nil
}

// IsName reports whether an attribute can be named so.
func IsName(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
}

func valueFault(a attribute) error {
	if !utf8.ValidString(a.value) || strings.ContainsFunc(a.value, isForbidden) {
		return fmt.Errorf("%.40s: it has control characters, or is not UTF-8", a.name)
	}
	if a.name == "source" || a.name == "dataschema" {
		if _, err := url.Parse(a.value); err != nil {
			return fmt.Errorf("%s: it is no URI", a.name)
		}
	}
	return nil
}

// isForbidden knows control characters and what Unicode calls noncharacters.
func isForbidden(r rune) bool {
	return r < 0x20 || r >= 0x7f && r <= 0x9f || r >= 0xfdd0 && r <= 0xfdef || r&0xfffe == 0xfffe
}

// contentType is that of a trigger's data, and whether JSON of it stands in a structured event as it is. Other types of JSON, "…+json", go in
// base64, which every receiver reads: the SDK for Go 2.16 takes no such JSON as it is (cloudevents/sdk-go 797).
func contentType(t emit.Trigger) (value string, inline bool, err error) {
	if t.ContentType == "" || t.ContentType == jsonType {
		return jsonType, true, nil
	}
	media, _, err := mime.ParseMediaType(t.ContentType)
	switch {
	case err != nil || strings.ContainsFunc(t.ContentType, isForbidden):
		return "", false, &InvalidError{errors.New("datacontenttype: it is no media type")}
	case strings.HasPrefix(media, eventType):
		return "", false, &InvalidError{errors.New("datacontenttype: receivers would take it for the event itself")}
	}
	return t.ContentType, media == jsonType || media == "text/json", nil
}
