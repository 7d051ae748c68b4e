package cloudevent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// maxMembers bounds what is kept of an event beside its bytes: a member costs about 100 more.
const maxMembers = 256

// object reads a JSON object and nothing after it. A name that comes twice has two meanings, of which a consumer might take the other.
func object(body []byte) (map[string]json.RawMessage, *Fault) {
	d, members := decoder(body), map[string]json.RawMessage{}
	if !opens(d, '{') {
		return nil, newFault("", "", "its body is no JSON object", "send one event as a JSON object in UTF-8")
	}
	for d.More() {
		name, _ := d.Token() // what is no name fails below
		var raw json.RawMessage
		if d.Decode(&raw) != nil {
			break // and it ends badly
		}
		text, _ := name.(string)
		switch _, twice := members[text]; {
		case twice:
			return nil, newFault(text, "", fmt.Sprintf("member %.40q is there twice", text), "send it once")
		case len(members) == maxMembers:
			return nil, newFault("", "", fmt.Sprintf("it has over %d attributes", maxMembers), "send what is more as data")
		}
		members[text] = raw
	}
	if !ends(d, '}') {
		return nil, newFault("", "", "its body is no JSON object", "send one event as a JSON object in UTF-8")
	}
	return members, nil
}

// eachOf calls do with each element of a JSON array, with nothing after it, until an error.
func eachOf(body []byte, do func(json.RawMessage) error) error {
	d, fault := decoder(body), newFault("", "", "its body is no JSON array", "send a list of events as a JSON array in UTF-8")
	if !opens(d, '[') {
		return invalid([]*Fault{fault})
	}
	for d.More() {
		var raw json.RawMessage
		if d.Decode(&raw) != nil {
			break // and it ends badly
		}
		if err := do(raw); err != nil {
			return err
		}
	}
	if !ends(d, ']') {
		return invalid([]*Fault{fault})
	}
	return nil
}

// decoder reads nothing where body is not UTF-8, which encoding/json would mend.
func decoder(body []byte) *json.Decoder {
	if !utf8.Valid(body) {
		body = nil
	}
	return json.NewDecoder(bytes.NewReader(body))
}

func opens(d *json.Decoder, with json.Delim) bool {
	token, err := d.Token()
	return err == nil && token == with
}

func ends(d *json.Decoder, with json.Delim) bool {
	if token, err := d.Token(); err != nil || token != with {
		return false
	}
	_, err := d.Token()
	return errors.Is(err, io.EOF)
}
