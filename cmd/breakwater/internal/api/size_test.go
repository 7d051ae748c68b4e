package api

import (
	"bytes"
	"encoding/json"
	"testing"
)

// A status takes a small part of its text in the history, and is told as it was, also where its key has gone out of use.
func TestHistoryIsSmall(t *testing.T) {
	var h history
	text := func(i int) []byte {
		s := Status{Mode: "serve", Replicas: []Replica{{}, {}, {}}, Consumers: []Consumer{{Name: "a"}, {Name: "b"}, {Name: "c"}}}
		for j := range s.Consumers {
			s.Consumers[j].Emitted, s.Consumers[j].Delivered = uint64(i*167), uint64(i*166)
		}
		b, err := json.Marshal(&s)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for i := range historySize + keyFor + 1 {
		h.add(text(i))
	}
	all := h.last(historySize)
	size := 0
	for _, p := range all {
		size += cap(p.text)
	}
	t.Logf("%d bytes of JSON take %d in the history", len(text(0)), size/len(all))
	if size/len(all) > len(text(0))/8 {
		t.Errorf("a status takes %d bytes of its %d", size/len(all), len(text(0)))
	}
	var out bytes.Buffer
	if err := writeList(&out, all); err != nil {
		t.Fatal(err)
	}
	var got []json.RawMessage
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || len(got) != historySize {
		t.Fatalf("got %d statuses, %v", len(got), err)
	}
	for i, g := range got {
		if want := text(i + keyFor + 1); !bytes.Equal(g, want) {
			t.Fatalf("status %d differs", i)
		}
	}
}
