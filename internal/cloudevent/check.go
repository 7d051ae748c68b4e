package cloudevent

import (
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
	BatchType      = eventType + "-batch+json; charset=UTF-8"
	partitionKey   = "partitionkey"
)

// A Fault is one thing that is wrong with an event.
type Fault struct {
	// Attribute is whose it is; "" where it is the whole event's.
	Attribute string
	// Value is what it was, cut off after 40 characters; "" where there was none. It goes back to who sent it, and nowhere else.
	Value string
	// Text says what is wrong, without the value. Mend says what to do about it.
	Text, Mend string
}

func newFault(attribute, value, text, mend string) *Fault {
	return &Fault{Attribute: fmt.Sprintf("%.40s", attribute), Value: fmt.Sprintf("%.40s", value), Text: text, Mend: mend}
}

// An InvalidError says why a trigger can be no CloudEvent, or a request is none. No consumer will ever take it, so it matches
// emit.ErrRejected.
type InvalidError struct{ Faults []*Fault }

// Error names every fault. It shows no values.
func (e *InvalidError) Error() string {
	texts := make([]string, len(e.Faults))
	for i, f := range e.Faults {
		texts[i] = f.Text
	}
	return "not a CloudEvent: " + strings.Join(texts, "; ")
}

// Is matches emit.ErrRejected.
func (*InvalidError) Is(target error) bool { return target == emit.ErrRejected }

// invalid is nil without a fault.
func invalid(faults []*Fault) error {
	faults = slices.DeleteFunc(faults, func(f *Fault) bool { return f == nil })
	if len(faults) == 0 {
		return nil
	}
	return &InvalidError{faults}
}

// encoded is what is written of a trigger besides its data.
type encoded struct {
	attributes []attribute
	media      string
	inline     bool // see contentType
}

// encode returns what to write, and every fault of t; nil is none.
func encode(t emit.Trigger) (e encoded, faults []*Fault) {
	var media *Fault
	e.media, e.inline, media = contentType(t)
	e.attributes, faults = attributes(t)
	return e, append(faults, media)
}

// An attribute is one of an event, but for datacontenttype.
type attribute struct{ name, value string }

// attributes are those of a trigger, in a fixed order, and what is wrong with them; nil is nothing.
func attributes(t emit.Trigger) ([]attribute, []*Fault) {
	all := make([]attribute, 0, 7+len(t.Attributes))
	all = append(all, attribute{"specversion", "1.0"}, attribute{"id", t.ID}, attribute{"source", t.Source}, attribute{"type", t.Type})
	faults := required(all)
	stamp, late := timestamp(t.Time)
	for _, a := range []attribute{{"subject", t.Subject}, {"time", stamp}, {partitionKey, t.Key}} {
		if a.value != "" {
			all = append(all, a)
		}
	}
	faults = append(faults, late, clash(t))
	for _, name := range slices.Sorted(maps.Keys(t.Attributes)) {
		faults = append(faults, nameFault(name))
		if name != partitionKey || t.Key == "" {
			all = append(all, attribute{name, t.Attributes[name]})
		}
	}
	for _, a := range all {
		faults = append(faults, valueFault(a))
	}
	return all, faults
}

func required(all []attribute) (faults []*Fault) {
	for _, a := range all {
		if a.value == "" {
			faults = append(faults, newFault(a.name, "", "it has no "+a.name, mendOf(a.name)))
		}
	}
	return faults
}

// mendOf says what an attribute that every event has is to be.
func mendOf(name string) string {
	switch name {
	case "id":
		return "give each event an id of its own, the same when it is sent again"
	case "source":
		return `say by a URI reference where it comes from, "/shop" for one`
	case "type":
		return `say what happened, "order.paid" for one`
	}
	return "set it to 1.0"
}

// timestamp is t as RFC 3339 has it; the zero time is none.
func timestamp(t time.Time) (string, *Fault) {
	if t.IsZero() {
		return "", nil
	}
	text, err := t.UTC().MarshalText()
	if err != nil {
		return "", newFault("time", t.String(), "time: its year is not in 0 to 9999", mendTime)
	}
	return string(text), nil
}

func clash(t emit.Trigger) *Fault {
	if p, ok := t.Attributes[partitionKey]; ok && t.Key != "" && p != t.Key {
		return newFault(partitionKey, p, "attribute partitionkey is not the Key, which is sent by that name", "leave it out")
	}
	return nil
}

// nameFault: lower-case letters and digits, and none that has a field of its own.
func nameFault(name string) *Fault {
	switch name {
	case "specversion", "id", "source", "type", "subject", "time", "datacontenttype", "data":
		return newFault(name, "", fmt.Sprintf("attribute %s: set the trigger's own field", name), "set the field")
	}
	if !IsName(name) {
		return newFault(name, "", fmt.Sprintf("attribute %.40q: use lower-case letters and digits", name), mendName)
	}
	return nil
}

// What mends faults that are told in several places.
const (
	mendName = "use lower-case letters and digits"
	mendTime = "write it as 2026-01-02T03:04:05Z"
)

// IsName reports whether an attribute can be named so.
func IsName(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
}

func valueFault(a attribute) *Fault {
	if !utf8.ValidString(a.value) || strings.ContainsFunc(a.value, isForbidden) {
		text := fmt.Sprintf("%.40s: it has control characters, or is not UTF-8", a.name)
		return newFault(a.name, strings.ToValidUTF8(a.value, "\ufffd"), text, "leave them out")
	}
	if a.name == "source" || a.name == "dataschema" {
		if _, err := url.Parse(a.value); err != nil {
			return newFault(a.name, a.value, a.name+": it is no URI", "percent-encode what a URI cannot hold")
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
func contentType(t emit.Trigger) (value string, inline bool, fault *Fault) {
	if t.ContentType == "" || t.ContentType == jsonType {
		return jsonType, true, nil
	}
	media, _, err := mime.ParseMediaType(t.ContentType)
	switch {
	case err != nil || strings.ContainsFunc(t.ContentType, isForbidden):
		return "", false, newFault("datacontenttype", t.ContentType, "datacontenttype: it is no media type", `give one, "application/json" for one`)
	case strings.HasPrefix(media, eventType):
		return "", false, newFault("datacontenttype", t.ContentType, "datacontenttype: receivers would take it for the event itself", "send the event that it holds by itself")
	}
	return t.ContentType, media == jsonType || media == "text/json", nil
}
