package replica_test

import (
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/breakwater-go/breakwater/replica"
)

func at(timeline uint32, lsn uint64) replica.Position {
	return replica.Position{SystemID: "7", Timeline: timeline, LSN: lsn}
}

// REQ-R12: a position travels as a text that a URL and a cookie carry as it is.
func TestPositionText(t *testing.T) {
	for text, want := range map[string]replica.Position{
		"":                                 {},
		"7458123456789012345.1.16B374D848": {SystemID: "7458123456789012345", Timeline: 1, LSN: 0x16B374D848},
		"7.4294967295.FFFFFFFFFFFFFFFF":    {SystemID: "7", Timeline: 1<<32 - 1, LSN: 1<<64 - 1},
		"a-Z_0.12.1":                       {SystemID: "a-Z_0", Timeline: 12, LSN: 1},
	} {
		got, err := replica.ParsePosition(text)
		if err != nil || got != want || got.String() != text || url.QueryEscape(text) != text {
			t.Errorf("ParsePosition(%q) = %+v, %v, printed %q", text, got, err, got)
		}
	}
}

func TestPositionTextFaults(t *testing.T) {
	long := strings.Repeat("7", 33)
	for _, text := range []string{
		"7", "7.1", "7.1.", ".1.1", "7..1", "7.0.1", "7.1.0", "7.01.1", "7.1.01", "7.1.a", "7.+1.1", "7.1.1.1", "7.4294967296.1",
		"7.1.10000000000000000", " 7.1.1", "7 .1.1", "7.1.1\n", "ü.1.1", "7%2E1.1", "none", long + ".1.1", long + long + long + long,
	} {
		got, err := replica.ParsePosition(text)
		if !errors.Is(err, replica.ErrMalformedPosition) || !got.IsZero() {
			t.Errorf("ParsePosition(%q) = %v, %v", text, got, err)
		}
		if err != nil && len(err.Error()) > 300 {
			t.Errorf("the error about a text of %d bytes has %d", len(text), len(err.Error()))
		}
	}
}

func TestPositionJSON(t *testing.T) {
	var got struct{ P replica.Position }
	text, err := json.Marshal(struct{ P replica.Position }{at(1, 255)})
	if err != nil || string(text) != `{"P":"7.1.FF"}` || json.Unmarshal(text, &got) != nil || got.P != at(1, 255) {
		t.Errorf("%s read again as %+v, %v", text, got, err)
	}
	if err := json.Unmarshal([]byte(`{"P":"x"}`), &got); err == nil || got.P != at(1, 255) {
		t.Errorf("a malformed text: %v, left %v", err, got.P)
	}
}

func TestPositionMerge(t *testing.T) {
	none := replica.Position{}
	for _, tc := range []struct {
		name       string
		a, b, want replica.Position
	}{
		{"none", none, none, none},
		{"one", at(1, 5), none, at(1, 5)},
		{"later of one timeline", at(1, 5), at(1, 6), at(1, 6)},
		{"equal", at(1, 5), at(1, 5), at(1, 5)},
		{"newer timeline, though it is lower", at(1, 900), at(2, 6), at(2, 6)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, pair := range [][2]replica.Position{{tc.a, tc.b}, {tc.b, tc.a}} {
				if got, err := pair[0].Merge(pair[1]); err != nil || got != tc.want {
					t.Errorf("%v and %v: %v, %v", pair[0], pair[1], got, err)
				}
			}
		})
	}
	foreign := replica.Position{SystemID: "8", Timeline: 1, LSN: 9}
	got, err := at(1, 5).Merge(foreign)
	pe, ok := errors.AsType[*replica.PositionError](err)
	if !ok || !errors.Is(err, replica.ErrForeignPosition) || errors.Is(err, replica.ErrNoReplica) || pe.Position != foreign || !got.IsZero() {
		t.Errorf("of two clusters: %v, %v", got, err)
	}
}

// A context carries the merged position of one cluster.
func TestPositionInContext(t *testing.T) {
	ctx := t.Context()
	if p := replica.PositionFrom(ctx); !p.IsZero() {
		t.Errorf("an empty context carries %v", p)
	}
	foreign := replica.Position{SystemID: "8", Timeline: 1, LSN: 9}
	for _, step := range []struct{ add, want replica.Position }{
		{at(1, 5), at(1, 5)},
		{at(1, 3), at(1, 5)},
		{replica.Position{}, at(1, 5)},
		{at(2, 1), at(2, 1)},
		{foreign, foreign},
	} {
		ctx = replica.WithPosition(ctx, step.add) //nolint:fatcontext // what is tested
		if got := replica.PositionFrom(ctx); got != step.want {
			t.Errorf("after %v the context carries %v, want %v", step.add, got, step.want)
		}
	}
}

func key(id string) replica.PositionKey {
	return replica.PositionKey{ID: id, Secret: []byte("a secret of sixteen bytes and more: " + id)}
}

func signer(tb testing.TB, keys ...replica.PositionKey) *replica.PositionSigner {
	tb.Helper()
	s, err := replica.NewPositionSigner(keys...)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func TestPositionSigner(t *testing.T) {
	s, p := signer(t, key("k1")), at(3, 0xABCDEF)
	text := s.Sign(p)
	if got, err := s.Verify(text); err != nil || got != p {
		t.Errorf("Verify(%q) = %v, %v", text, got, err)
	}
	if url.QueryEscape(text) != text || len(text) > replica.MaxPositionText || !strings.HasPrefix(text, p.String()+".k1.") {
		t.Errorf("signed text %q", text)
	}
	longest := replica.Position{SystemID: strings.Repeat("7", 32), Timeline: 1<<32 - 1, LSN: 1<<64 - 1}
	wide := signer(t, key("0123456789abcdef"))
	if text := wide.Sign(longest); len(text) != replica.MaxPositionText {
		t.Errorf("the longest text has %d bytes, MaxPositionText is %d", len(text), replica.MaxPositionText)
	} else if got, err := wide.Verify(text); err != nil || got != longest {
		t.Errorf("the longest text: %v, %v", got, err)
	}
	if got, err := s.Verify(s.Sign(replica.Position{})); err != nil || !got.IsZero() {
		t.Errorf("none: %v, %v", got, err)
	}
	if _, err := (&replica.PositionSigner{}).Verify(text); !errors.Is(err, replica.ErrPositionSignature) {
		t.Errorf("zero signer: %v", err)
	}
}

// REQ-R12: whatever is changed in a signed position, it is refused.
func TestTamperedPositionIsRefused(t *testing.T) {
	s := signer(t, key("k1"), key("k2"))
	text := s.Sign(at(3, 0xABCDEF))
	for i := range len(text) {
		for _, c := range []byte("0A.z~") {
			tampered := text[:i] + string(c) + text[i+1:]
			if tampered == text {
				continue
			}
			got, err := s.Verify(tampered)
			if !errors.Is(err, replica.ErrPositionSignature) && !errors.Is(err, replica.ErrMalformedPosition) || !got.IsZero() {
				t.Fatalf("Verify(%q) = %v, %v", tampered, got, err)
			}
		}
	}
	for tampered, want := range map[string]error{
		"7.3.ABCDEF":       replica.ErrMalformedPosition, // not signed
		text + "A":         replica.ErrPositionSignature,
		text[:len(text)-1]: replica.ErrPositionSignature,
		"7.3.FFFFFFFFFFFF" + strings.TrimPrefix(text, "7.3.ABCDEF"): replica.ErrPositionSignature,
		strings.Replace(text, ".k1.", ".k2.", 1):                    replica.ErrPositionSignature,
		strings.Replace(text, ".k1.", ".k9.", 1):                    replica.ErrPositionSignature,
		strings.Repeat(text, 20):                                    replica.ErrMalformedPosition,
	} {
		if _, err := s.Verify(tampered); !errors.Is(err, want) {
			t.Errorf("Verify(%q): %v, want %v", tampered, err, want)
		}
	}
}

// Keys are rotated without a refusal: the new one is known everywhere before it signs.
func TestPositionKeysRotate(t *testing.T) {
	p := at(1, 9)
	before, during, after := signer(t, key("old"), key("new")), signer(t, key("new"), key("old")), signer(t, key("new"))
	for _, pair := range [][2]*replica.PositionSigner{{before, during}, {during, before}, {during, after}} {
		if got, err := pair[1].Verify(pair[0].Sign(p)); err != nil || got != p {
			t.Errorf("%q: %v, %v", pair[0].Sign(p), got, err)
		}
	}
	if _, err := after.Verify(before.Sign(p)); !errors.Is(err, replica.ErrPositionSignature) {
		t.Errorf("a retired key: %v", err)
	}
}

func TestPositionSignerFaults(t *testing.T) {
	if _, err := replica.NewPositionSigner(); err == nil {
		t.Error("no key: no error")
	}
	short := replica.PositionKey{ID: "a.b", Secret: []byte("hush")}
	_, err := replica.NewPositionSigner(key("k"), short, key("k"))
	if err == nil {
		t.Fatal("no error")
	}
	for _, part := range []string{`keys[1].ID is "a.b"`, "keys[1].Secret has 4 bytes", `keys[2].ID is "k"`} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
	if strings.Contains(err.Error(), "hush") {
		t.Errorf("%q shows a secret", err)
	}
}

func FuzzPosition(f *testing.F) {
	s := signer(f, key("k1"))
	f.Add("7458123456789012345.1.16B374D848")
	f.Add(s.Sign(at(1, 5)))
	f.Fuzz(func(t *testing.T, text string) {
		if p, err := replica.ParsePosition(text); err == nil && p.String() != text {
			t.Errorf("%q was read as %+v, which prints as %q", text, p, p)
		}
		if p, err := s.Verify(text); err == nil && s.Sign(p) != text {
			t.Errorf("%q was accepted as %v, which is signed %q", text, p, s.Sign(p))
		}
	})
}
