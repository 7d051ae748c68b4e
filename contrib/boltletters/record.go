package boltletters

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/breakwater-go/breakwater/emit"
)

// A record is a letter without what its place tells (consumer, priority, parked, sequence):
//
//	byte 0      recordVersion
//	bytes 1–4   CRC-32C of the body, then of the place
//	bytes 5–    body: what attempts change stands at its ends, so that a settlement rewrites little of it;
//	            times of 16 bytes, the number of attempts of 4, other numbers as varints, texts after their length
const (
	recordVersion = 1
	recordHead    = 5
	maxAttemptErr = 500
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli) //nolint:gochecknoglobals // a constant table

var errBadRecord = errors.New("boltletters: record is damaged")

// encode writes the body of a letter behind room for the head, which seal fills in.
func encode(l *emit.Letter) []byte {
	t := &l.Trigger
	b := make([]byte, recordHead, recordHead+160+len(t.Data)+len(t.ID)+len(t.Type)+len(t.Source)+len(t.Subject)+len(t.Key))
	b = appendTime(appendTime(b, l.StoredAt), l.NotBefore)
	b = binary.BigEndian.AppendUint32(b, uint32(min(max(0, l.Attempts), math.MaxInt32))) //nolint:gosec // bounded
	for _, s := range []string{t.Type, t.Key, t.ID, t.Source, t.Subject, t.Priority, t.ContentType} {
		b = appendText(b, s)
	}
	b = appendTime(b, t.Time)
	b = binary.AppendUvarint(b, uint64(len(t.Attributes)))
	for k, v := range t.Attributes {
		b = appendText(appendText(b, k), v)
	}
	b = append(binary.AppendUvarint(b, uint64(len(t.Data))), t.Data...)
	b = appendText(b, string(l.Reason))
	last := l.Last[max(0, len(l.Last)-emit.KeptAttempts):]
	b = binary.AppendUvarint(b, uint64(len(last)))
	for _, a := range last {
		b = appendText(appendTime(b, a.At), cut(a.Err))
	}
	return b
}

// seal fills in the head for the place of the record.
func seal(record []byte, at place) {
	record[0] = recordVersion
	binary.BigEndian.PutUint32(record[1:], checksum(record[recordHead:], at))
}

func checksum(body []byte, at place) uint32 {
	sum := crc32.Update(crc32.Checksum(body, castagnoli), castagnoli, at.lane.name())
	var seq [8]byte
	binary.BigEndian.PutUint64(seq[:], at.seq)
	return crc32.Update(sum, castagnoli, seq[:])
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// appendTime keeps the instant and the offset of its zone, for any time.
func appendTime(b []byte, t time.Time) []byte {
	_, offset := t.Zone()
	b = binary.BigEndian.AppendUint64(b, uint64(t.Unix())) //nolint:gosec // two's complement, there and back
	b = binary.BigEndian.AppendUint32(b, uint32(t.Nanosecond()))
	return binary.BigEndian.AppendUint32(b, uint32(int32(offset)))
}

// cut shortens the words of an attempt to what is kept of them.
func cut(s string) string {
	if len(s) <= maxAttemptErr {
		return s
	}
	n := maxAttemptErr
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// A letterView is a record as it lies in the file: its texts are valid until the transaction ends.
type letterView struct {
	place
	storedAt, notBefore time.Time
	attempts            int
	last                []emit.Attempt
	reason              []byte
	texts               [7][]byte // as encode orders them
	time                time.Time
	attributes          [][2][]byte
	data                []byte
}

func (v *letterView) kind() []byte { return v.texts[0] }
func (v *letterView) key() []byte  { return v.texts[1] }

// view reads a record and verifies it.
func view(record []byte, at place) (letterView, error) {
	v := letterView{place: at}
	if len(record) < recordHead || record[0] != recordVersion {
		return v, fmt.Errorf("%w: it does not begin with version %d", errBadRecord, recordVersion)
	}
	body := record[recordHead:]
	if got, want := checksum(body, at), binary.BigEndian.Uint32(record[1:]); got != want {
		return v, fmt.Errorf("%w: its checksum is %08x, not %08x", errBadRecord, got, want)
	}
	r := reader{rest: body}
	v.storedAt, v.notBefore, v.attempts = r.time(), r.time(), r.attempts()
	for i := range v.texts {
		v.texts[i] = r.text()
	}
	v.time = r.time()
	for range r.count() {
		v.attributes = append(v.attributes, [2][]byte{r.text(), r.text()})
	}
	v.data, v.reason = r.text(), r.text()
	for range r.count() {
		v.last = append(v.last, emit.Attempt{At: r.time(), Err: string(r.text())})
	}
	if r.short {
		return v, fmt.Errorf("%w: it ends within a field", errBadRecord)
	}
	return v, nil
}

// letter copies the view.
func (v *letterView) letter() emit.Letter {
	t := emit.Trigger{
		Type: string(v.texts[0]), Key: string(v.texts[1]), ID: string(v.texts[2]), Source: string(v.texts[3]),
		Subject: string(v.texts[4]), Priority: string(v.texts[5]), ContentType: string(v.texts[6]), Time: v.time,
	}
	if len(v.data) > 0 {
		t.Data = slices.Clone(v.data)
	}
	if len(v.attributes) > 0 {
		t.Attributes = make(map[string]string, len(v.attributes))
		for _, a := range v.attributes {
			t.Attributes[string(a[0])] = string(a[1])
		}
	}
	return emit.Letter{
		Seq: v.seq, Consumer: v.lane.consumer, Priority: int(v.lane.priority), Parked: v.lane.parked, Trigger: t, Reason: emit.Reason(v.reason),
		StoredAt: v.storedAt, NotBefore: v.notBefore, Attempts: v.attempts, Last: v.last,
	}
}

// A reader takes fields off a body; once it is too short all of them are zero.
type reader struct {
	rest  []byte
	short bool
}

func (r *reader) take(n uint64) []byte {
	if n > uint64(len(r.rest)) {
		r.rest, r.short = nil, true
		return nil
	}
	b := r.rest[:n:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) number() uint64 {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 {
		r.rest, r.short = nil, true
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

// count is a number of things that follow, each of at least a byte.
func (r *reader) count() uint64 {
	n := r.number()
	if n > uint64(len(r.rest)) {
		r.rest, r.short = nil, true
		return 0
	}
	return n
}

func (r *reader) text() []byte { return r.take(r.number()) }

func (r *reader) attempts() int {
	b := r.take(4)
	if b == nil {
		return 0
	}
	return int(binary.BigEndian.Uint32(b))
}

func (r *reader) time() time.Time {
	b := r.take(16)
	if b == nil {
		return time.Time{}
	}
	t := time.Unix(int64(binary.BigEndian.Uint64(b)), int64(binary.BigEndian.Uint32(b[8:]))) //nolint:gosec // two's complement, there and back
	if offset := int(int32(binary.BigEndian.Uint32(b[12:]))); offset != 0 {                  //nolint:gosec // as above
		return t.In(time.FixedZone("", offset))
	}
	return t.UTC()
}
