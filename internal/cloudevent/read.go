package cloudevent

import (
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/breakwater-go/breakwater/emit"
)

// Read reads a request in binary or structured mode. The error is an *InvalidError, or matches emit.ErrTooLarge where the body is over
// limit, or is that of reading the body.
func Read(req *http.Request, limit int64) (emit.Trigger, error) {
	body, err := io.ReadAll(io.LimitReader(req.Body, limit+1))
	switch {
	case err != nil:
		return emit.Trigger{}, fmt.Errorf("reading the body: %w", err)
	case int64(len(body)) > limit:
		return emit.Trigger{}, fmt.Errorf("%w: over %d bytes", emit.ErrTooLarge, limit)
	}
	return parse(req.Header, body, false)
}

// Parse reads an event, in binary or structured mode, of a request with these headers and this body; it takes only what can be written again. The trigger may keep
// parts of body. The error is an *InvalidError with every fault.
func Parse(h http.Header, body []byte) (emit.Trigger, error) { return parse(h, body, true) }

func parse(h http.Header, body []byte, strict bool) (emit.Trigger, error) {
	r := reader{values: map[string]string{}, strict: strict}
	switch media, _, _ := mime.ParseMediaType(h.Get("Content-Type")); {
	case media == eventType+"+json":
		r.structured(body)
	case strings.HasPrefix(media, eventType):
		r.unread = newFault("Content-Type", media, "its format is not read here", "send JSON, "+StructuredType)
	default:
		r.binary(h, body)
	}
	return r.trigger()
}

// Batch reads the events of a batch in JSON as Parse does, each by itself: one that is none has its *InvalidError in its place. The error is an *InvalidError where the body is no
// list, and matches emit.ErrTooLarge where it has more than most events.
func Batch(body []byte, most int) (items []Item, err error) {
	err = eachOf(body, func(raw json.RawMessage) error {
		if len(items) == most {
			return fmt.Errorf("%w: over %d events", emit.ErrTooLarge, most)
		}
		r := reader{values: map[string]string{}, strict: true}
		r.structured(raw)
		t, err := r.trigger()
		items = append(items, Item{t, err})
		return nil
	})
	return items, err
}

// An Item is an event of a batch, or says why it is none.
type Item struct {
	Trigger emit.Trigger
	Err     error
}

// A reader collects what a request says.
type reader struct {
	values map[string]string
	data   []byte
	faults []*Fault
	unread *Fault // why it could not be looked at at all
	strict bool   // what can be read and not written is at fault
}

func (r *reader) fault(attribute, value, text, mend string) {
	r.faults = append(r.faults, newFault(attribute, value, text, mend))
}

func (r *reader) binary(h http.Header, body []byte) {
	for name, values := range h {
		if name, ok := strings.CutPrefix(strings.ToLower(name), "ce-"); ok {
			r.header(name, values)
		}
	}
	if media := h.Get("Content-Type"); media != "" {
		r.values["datacontenttype"] = media
	}
	r.data = body
}

func (r *reader) header(name string, values []string) {
	value, err := url.PathUnescape(unquote(values[0]))
	if err != nil || len(values) > 1 || !utf8.ValidString(value) || name == "datacontenttype" || !IsName(name) {
		r.fault(name, values[0], fmt.Sprintf("header ce-%.40s cannot be read", name),
			"send it once, in UTF-8, percent-encoded; a media type is told by Content-Type")
		return
	}
	r.values[name] = value
}

// unquote takes the quotes and backslashes off that older senders put in.
func unquote(s string) string {
	if len(s) < 2 || s[0] != '"' || s[len(s)-1] != '"' {
		return s
	}
	var b strings.Builder
	for i := 1; i < len(s)-1; i++ {
		if s[i] == '\\' && i+1 < len(s)-1 {
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func (r *reader) structured(body []byte) {
	members, fault := object(body)
	if r.unread = fault; fault != nil {
		return
	}
	data, base64 := members["data"], members["data_base64"]
	delete(members, "data")
	delete(members, "data_base64")
	for name, raw := range members {
		r.member(name, raw)
	}
	r.payload(data, base64)
}

func (r *reader) member(name string, raw json.RawMessage) {
	text := ""
	switch {
	case !IsName(name) || raw[0] == '{' || raw[0] == '[':
		r.fault(name, string(raw), fmt.Sprintf("member %.40q cannot be read", name), mendName+" in its name, and a string, number or boolean as its value")
	case raw[0] != '"' && string(raw) != "null":
		r.values[name] = string(raw)
	case json.Unmarshal(raw, &text) == nil && string(raw) != "null":
		r.values[name] = text
	}
}

// payload takes data in: JSON as it is, text from its string, bytes from base64.
func (r *reader) payload(data, base64 json.RawMessage) {
	media, _, _ := mime.ParseMediaType(r.values["datacontenttype"])
	text := ""
	switch {
	case base64 != nil:
		if data != nil || json.Unmarshal(base64, &r.data) != nil {
			r.fault("data_base64", "", "data_base64 cannot be read", "send data or data_base64, not both, and base64 as of RFC 4648")
		}
	case media == "" || declaresJSON(media):
		r.data = data
	case json.Unmarshal(data, &text) == nil || data == nil:
		r.data = []byte(text)
	default:
		r.fault("data", "", "data is no string", "send a string, or data_base64, or a datacontenttype of JSON")
	}
}

// trigger is what was read, unless something was wrong with it.
func (r *reader) trigger() (emit.Trigger, error) {
	if r.unread != nil {
		return emit.Trigger{}, invalid([]*Fault{r.unread})
	}
	if v := r.take("specversion"); v != "1.0" {
		r.fault("specversion", v, "specversion is not 1.0", mendOf("specversion"))
	}
	t := emit.Trigger{
		ID: r.take("id"), Type: r.take("type"), Source: r.take("source"), Subject: r.take("subject"),
		Key: r.take(partitionKey), ContentType: r.take("datacontenttype"), Data: r.data,
	}
	if stamp := r.take("time"); stamp != "" {
		var err error
		if t.Time, err = time.Parse(time.RFC3339, stamp); err != nil {
			r.fault("time", stamp, "time is not of RFC 3339", mendTime)
		}
	}
	if len(r.values) > 0 {
		t.Attributes = r.values
	}
	r.more(required([]attribute{{"id", t.ID}, {"source", t.Source}, {"type", t.Type}}))
	if r.strict {
		_, faults := encode(t)
		r.more(faults)
	}
	if err := invalid(r.faults); err != nil {
		return emit.Trigger{}, err
	}
	return t, nil
}

// more adds faults of attributes that have none yet: what could not be read is not missing besides.
func (r *reader) more(faults []*Fault) {
	for _, f := range faults {
		if f != nil && !slices.ContainsFunc(r.faults, func(told *Fault) bool { return told.Attribute == f.Attribute }) {
			r.faults = append(r.faults, f)
		}
	}
}

func (r *reader) take(name string) string {
	value := r.values[name]
	delete(r.values, name)
	return value
}

// declaresJSON knows application/json and all of its kind.
func declaresJSON(media string) bool {
	return strings.HasSuffix(media, "/json") || strings.HasSuffix(media, "+json")
}
