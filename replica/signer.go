package replica

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

// ErrPositionSignature is matched by the error of a signed position whose signature is not
// by one of the keys: it was tampered with, or its key has been retired.
var ErrPositionSignature = errors.New("replica: the position's signature is not valid")

const (
	maxKeyID  = 16
	minSecret = 16
	// tagSize is how many bytes of the HMAC are kept, and tagText how long they are as text.
	tagSize = 16
	tagText = (tagSize*8 + 5) / 6
)

// PositionKey is a key of a PositionSigner.
type PositionKey struct {
	// ID names the key in what it signed: 1 to 16 letters, digits, hyphens and underscores. Required.
	ID string
	// Secret is at least 16 bytes, 32 random ones for choice. Required.
	Secret []byte
}

// PositionSigner signs positions that travel through a client, so that nobody can make one
// up: a position far ahead has its read wait, and then use the primary's budget.
// What it signed does not expire, since an old position asks for less than a new one. Its methods
// may be called concurrently. Make one with NewPositionSigner; the zero value refuses all.
type PositionSigner struct{ keys []PositionKey }

// NewPositionSigner makes a signer that signs with the first key and accepts what any of
// them signed: to rotate, put the new key last everywhere, then first, then take the old one
// out. The error joins every fault, each naming its field; none shows a secret.
func NewPositionSigner(keys ...PositionKey) (*PositionSigner, error) {
	var faults []error
	if len(keys) == 0 {
		faults = append(faults, errors.New("replica: keys is empty: give at least one PositionKey"))
	}
	s := &PositionSigner{}
	for i, k := range keys {
		faults = append(faults, k.fault(i), s.twinFault(i, k.ID))
		s.keys = append(s.keys, PositionKey{k.ID, []byte(string(k.Secret))})
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return s, nil
}

func (k *PositionKey) fault(i int) error {
	var faults []error
	if !isWord(k.ID, maxKeyID) {
		faults = append(faults, fmt.Errorf("replica: keys[%d].ID is %q: give 1 to %d letters, digits, hyphens or underscores", i, k.ID, maxKeyID))
	}
	if len(k.Secret) < minSecret {
		faults = append(faults, fmt.Errorf("replica: keys[%d].Secret has %d bytes: give at least %d", i, len(k.Secret), minSecret))
	}
	return errors.Join(faults...)
}

func (s *PositionSigner) twinFault(i int, id string) error {
	if s.find(id) == nil {
		return nil
	}
	return fmt.Errorf("replica: keys[%d].ID is %q, which another key has: give each key its own", i, id)
}

func (s *PositionSigner) find(id string) *PositionKey {
	for i := range s.keys {
		if s.keys[i].ID == id {
			return &s.keys[i]
		}
	}
	return nil
}

// Sign returns p as text with the key's ID and a signature, as safe to carry as String:
// 7458123456789012345.1.16B374D848.k1.21hoTSDipMwBAY7XiyvSOA. None is the empty text,
// as it is on the zero signer.
func (s *PositionSigner) Sign(p Position) string {
	if p.IsZero() || len(s.keys) == 0 {
		return ""
	}
	k := &s.keys[0]
	body := p.String() + "." + k.ID
	return body + "." + k.tag(body)
}

// tag is the HMAC-SHA256 of body with a name of its purpose, cut to 128 bits.
func (k *PositionKey) tag(body string) string {
	mac := hmac.New(sha256.New, k.Secret)
	mac.Write([]byte("breakwater position\x00" + body))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:tagSize])
}

// Verify returns the position that Sign signed. The empty text is none. The error of any other
// text matches ErrMalformedPosition or ErrPositionSignature; the comparison takes the same time
// wherever the two signatures differ.
func (s *PositionSigner) Verify(text string) (Position, error) {
	if text == "" {
		return Position{}, nil
	}
	body, tag, _ := cutLast(text)
	position, id, signed := cutLast(body)
	if p, err := ParsePosition(position); err != nil || p.IsZero() || !signed || len(text) > MaxPositionText {
		return Position{}, malformed(text)
	}
	k := s.find(id)
	if k == nil {
		return Position{}, fmt.Errorf("%w: no key has its ID %.*q", ErrPositionSignature, maxKeyID, id)
	}
	if !hmac.Equal([]byte(tag), []byte(k.tag(body))) {
		return Position{}, fmt.Errorf("%w: key %q", ErrPositionSignature, id)
	}
	return ParsePosition(position)
}

// cutLast cuts s around its last dot.
func cutLast(s string) (before, after string, found bool) {
	if i := strings.LastIndexByte(s, '.'); i >= 0 {
		return s[:i], s[i+1:], true
	}
	return s, "", false
}
