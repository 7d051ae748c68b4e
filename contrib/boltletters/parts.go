package boltletters

import (
	"bytes"
	"encoding/binary"

	"go.etcd.io/bbolt"
)

// partSize is the most of a record that one value holds: four values, which bbolt may leave in one node, fit into a page.
// So all nodes are of one page, and a free page is as good as any other: with bigger values a
// letter would need a run of free pages, and a file with many of them could still be too full for it.
const partSize = pageSize/4 - 64

const (
	pageSize  = 4096
	keySize   = 8
	perPart   = 8 + 16 // its key and bbolt's element
	maxRecord = partSize * 65_535
)

// putParts stores a record under its sequence; the second part and later ones have two bytes more in their keys.
func putParts(bucket *bbolt.Bucket, seq uint64, record []byte) error {
	return replaceParts(bucket, seq, nil, record)
}

// replaceParts stores a record in the place of another and writes only the parts that differ.
func replaceParts(bucket *bbolt.Bucket, seq uint64, old, record []byte) error {
	if len(old) > len(record) && len(old) > partSize {
		if err := deleteParts(bucket, seq, old); err != nil {
			return err
		}
		return putParts(bucket, seq, record)
	}
	for at := 0; at < len(record); at += partSize {
		end := min(at+partSize, len(record))
		if end <= len(old) && bytes.Equal(old[at:end], record[at:end]) {
			continue
		}
		if err := bucket.Put(partKey(seq, at/partSize), record[at:end]); err != nil {
			return err
		}
	}
	return nil
}

func partKey(seq uint64, part int) []byte {
	if part == 0 {
		return seqKey(seq)
	}
	return binary.BigEndian.AppendUint16(seqKey(seq), uint16(part)) //nolint:gosec // at most maxRecord
}

// getParts is the record of a sequence, nil if there is none; valid until the transaction ends, or a change.
func getParts(bucket *bbolt.Bucket, seq uint64) []byte {
	c := bucket.Cursor()
	key := seqKey(seq)
	k, v := c.Seek(key)
	if !bytes.HasPrefix(k, key) {
		return nil
	}
	record, _, _ := assemble(c, k, v)
	return record
}

// assemble is the record that begins at a cursor, and what comes after it.
func assemble(c *bbolt.Cursor, k, v []byte) (record, nextKey, next []byte) {
	seq, record := k[:min(len(k), keySize)], v
	nextKey, next = c.Next()
	if !bytes.HasPrefix(nextKey, seq) {
		return record, nextKey, next
	}
	record = bytes.Clone(v)
	for bytes.HasPrefix(nextKey, seq) {
		record = append(record, next...)
		nextKey, next = c.Next()
	}
	return record, nextKey, next
}

// deleteParts deletes all that has a sequence.
func deleteParts(bucket *bbolt.Bucket, seq uint64, record []byte) error {
	key := seqKey(seq)
	if len(record) < partSize {
		return bucket.Delete(key)
	}
	var keys [][]byte
	c := bucket.Cursor()
	for k, _ := c.Seek(key); bytes.HasPrefix(k, key); k, _ = c.Next() {
		keys = append(keys, bytes.Clone(k))
	}
	for _, k := range keys {
		if err := bucket.Delete(k); err != nil {
			return err
		}
	}
	return nil
}

func seqOf(key []byte) uint64 {
	if len(key) < keySize {
		return 0
	}
	return binary.BigEndian.Uint64(key)
}

// recordSize is what is counted of a record: its bytes, and for each part a key and bbolt's element.
func recordSize(record []byte) int64 {
	parts := max(1, (len(record)+partSize-1)/partSize)
	return int64(len(record) + parts*perPart)
}

// cost is what a record takes of the file, about. What is really in use is measured after each commit.
func cost(size int64) int64 { return size + size/8 }
