package cloudevent

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/breakwater-go/breakwater/emit"
)

// Binary sets the headers of a trigger in binary mode: its data is the body as it is. An error is an *InvalidError.
func Binary(h http.Header, t emit.Trigger) error {
	e, faults := encode(t)
	if err := invalid(faults); err != nil {
		return err
	}
	for _, a := range e.attributes {
		h.Set("Ce-"+a.name, Percent(a.value))
	}
	h.Set("Content-Type", e.media)
	return nil
}

// Structured is the body of a trigger in structured mode; its content type is StructuredType. Data of type application/json or text/json
// stands in it as it is; all else in base64, also what only says that it is JSON. An error is an *InvalidError.
func Structured(t emit.Trigger) ([]byte, error) {
	e, faults := encode(t)
	if err := invalid(faults); err != nil {
		return nil, err
	}
	b := append(make([]byte, 0, 512+2*len(t.Data)), '{')
	for _, a := range append(e.attributes, attribute{"datacontenttype", e.media}) {
		b = append(appendString(append(appendString(b, a.name), ':'), a.value), ',')
	}
	return append(appendData(b, t.Data, e.inline), '}'), nil
}

// appendData appends the member data, or takes back the comma before it.
func appendData(b, data []byte, inline bool) []byte {
	switch {
	case len(data) == 0:
		return b[:len(b)-1]
	case inline && json.Valid(data):
		return append(append(b, `"data":`...), data...)
	default:
		b = append(b, `"data_base64":"`...)
		return append(base64.StdEncoding.AppendEncode(b, data), '"')
	}
}

func appendString(b []byte, s string) []byte {
	quoted, _ := json.Marshal(s) // a string always is JSON
	return append(b, quoted...)
}

// Percent encodes what cannot stand in a header as it is: all but printable ASCII, and space, quote and percent.
func Percent(s string) string {
	if !strings.ContainsFunc(s, isEncoded) {
		return s
	}
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; isEncoded(rune(c)) {
			b.Write([]byte{'%', digits[c>>4], digits[c&15]})
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

func isEncoded(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '%' }
