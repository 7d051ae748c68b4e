package simfleet

import (
	"encoding/binary"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/truth"
	"github.com/breakwater-go/breakwater/replica/postgres"
)

// statement is one of the closed set. run answers it: a row or none, or an SQLSTATE.
type statement struct {
	parameters []uint32
	columns    []uint32 // their types
	tag        string
	run        func(s *session, arguments []string) (row []any, code, message string)
}

const binaryFormat = 1

// find looks a statement up, or sends an error and returns nil.
func (s *session) find(sql string) *statement {
	switch {
	case sql == postgres.SampleSQL:
		return &statement{columns: sampleColumns, tag: "SELECT 1", run: sample}
	case sql == postgres.InstanceSQL:
		return &statement{columns: []uint32{pgtype.TextOID}, tag: "SELECT 1", run: instance}
	case sql == postgres.PositionSQL:
		return &statement{columns: slices.Repeat([]uint32{pgtype.TextOID}, 4), tag: "SELECT 1", run: position}
	case sql == truth.ReadSQL:
		return &statement{columns: []uint32{pgtype.Int8OID}, tag: "SELECT 1", run: read}
	case sql == truth.SlowReadSQL:
		return &statement{columns: []uint32{pgtype.Int8OID}, tag: "SELECT 1", run: slowRead}
	case sql == truth.WriteSQL:
		return &statement{parameters: []uint32{pgtype.Int8OID, pgtype.TextOID}, tag: "UPDATE 1", run: write}
	case slices.Contains(truth.SetupSQL(), sql):
		return &statement{tag: "CREATE TABLE", run: nothing}
	}
	word, _, _ := strings.Cut(strings.TrimSpace(strings.ToUpper(sql)), " ")
	switch word = strings.TrimSuffix(word, ";"); word {
	case "", "--":
		return &statement{run: nothing}
	case "BEGIN", "START":
		return &statement{tag: "BEGIN", run: transaction(true)}
	case "COMMIT", "ROLLBACK", "END":
		return &statement{tag: word, run: transaction(false)}
	case "SET", "RESET", "DISCARD", "DEALLOCATE":
		return &statement{tag: word, run: nothing}
	case "SELECT":
		if strings.TrimRight(strings.ToLower(sql), "; ") == "select 1" {
			return &statement{columns: []uint32{pgtype.Int4OID}, tag: "SELECT 1", run: one}
		}
	}
	s.fail("0A000", fmt.Sprintf("the simulated fleet does not know the statement %.60q; take --fleet postgres", sql))
	return nil
}

func nothing(*session, []string) ([]any, string, string) { return nil, "", "" }

// instance is the column of sample that tells servers apart.
func instance(s *session, arguments []string) ([]any, string, string) {
	row, code, message := sample(s, arguments)
	return row[2:3], code, message
}

func one(*session, []string) ([]any, string, string) { return []any{int32(1)}, "", "" }

func transaction(begins bool) func(*session, []string) ([]any, string, string) {
	return func(s *session, _ []string) ([]any, string, string) {
		s.inTx = begins
		return nil, "", ""
	}
}

func read(s *session, _ []string) ([]any, string, string) {
	f := s.node.fleet
	f.mu.Lock()
	defer f.mu.Unlock()
	s.node.catchUpLocked()
	return []any{s.node.replayed.n}, "", ""
}

// slowRead reads, and then takes its time, as the query would.
func slowRead(s *session, arguments []string) ([]any, string, string) {
	row, code, message := read(s, arguments)
	t := time.NewTimer(truth.SlowRead)
	defer t.Stop()
	select {
	case <-t.C:
	case <-s.gone:
	}
	return row, code, message
}

func write(s *session, arguments []string) ([]any, string, string) {
	if !s.node.primary {
		return nil, postgres.ReadOnlyTransaction, "cannot execute UPDATE in a read-only transaction"
	}
	n, err := strconv.ParseInt(arguments[0], 10, 64)
	if err != nil {
		return nil, "22P02", "the counter's value is not a number"
	}
	f := s.node.fleet
	f.mu.Lock()
	defer f.mu.Unlock()
	f.committedLocked(state{n: n, pos: recordEnd(f.mu.writes.insert() + recordSize)})
	return nil, "", ""
}

// recordEnd moves a position on to where a record may end: never right behind the header of a page or segment,
// which postgres.Normalize would take for one that no record has filled.
func recordEnd(pos uint64) uint64 {
	for postgres.Normalize(pos, segmentSize) != pos {
		pos += 8
	}
	return pos
}

// insert is the insert position as PostgreSQL tells it: at a segment's start it
// counts the header already.
func (p state) insert() uint64 {
	if p.pos%segmentSize == 0 {
		return p.pos + headerSize
	}
	return p.pos
}

var sampleColumns = []uint32{
	pgtype.BoolOID, pgtype.TextOID, pgtype.TextOID, pgtype.TextOID, pgtype.TextOID, pgtype.TextOID,
	pgtype.TextOID, pgtype.TextOID, pgtype.TextOID, pgtype.BoolOID, pgtype.BoolOID, pgtype.TextOID, pgtype.Int8OID, pgtype.TextOID,
}

// sample answers postgres.SampleSQL, column by column.
func sample(s *session, _ []string) ([]any, string, string) {
	n, f := s.node, s.node.fleet
	f.mu.Lock()
	defer f.mu.Unlock()
	n.catchUpLocked()
	_, port, _ := net.SplitHostPort(n.addr)
	instance := strconv.FormatFloat(float64(n.started.UnixMicro())/1e6, 'f', 6, 64) + ":" + port
	var position, received, file, receivedTLI, receiver, flushed any
	if n.primary {
		position, file = postgres.FormatLSN(f.mu.writes.insert()), "00000001"
		flushed = postgres.FormatLSN(f.mu.writes.pos) // nothing is held back
	} else {
		position, received = postgres.FormatLSN(n.replayed.pos), postgres.FormatLSN(n.received.pos)
		if n.receiving() {
			receivedTLI, receiver = "1", "streaming"
		}
	}
	return []any{
		!n.primary, systemID, instance, position, received, file,
		receivedTLI, "1", receiver, n.paused, true, "breakwater", int64(segmentSize), flushed,
	}, "", ""
}

// systemID is that of every simulated cluster.
const systemID = "7000000000000000001"

// position answers postgres.PositionSQL.
func position(s *session, _ []string) ([]any, string, string) {
	if !s.node.primary {
		return nil, "55000", "recovery is in progress"
	}
	f := s.node.fleet
	f.mu.Lock()
	defer f.mu.Unlock()
	return []any{systemID, "00000001", postgres.FormatLSN(f.mu.writes.insert()), strconv.Itoa(segmentSize)}, "", ""
}

func (st *statement) describe(formats []int16) *pgproto3.RowDescription {
	d := &pgproto3.RowDescription{}
	for i, oid := range st.columns {
		d.Fields = append(d.Fields, pgproto3.FieldDescription{
			Name: []byte("c" + strconv.Itoa(i)), DataTypeOID: oid, DataTypeSize: -1, TypeModifier: -1, Format: formatOf(formats, i),
		})
	}
	return d
}

// formatOf is the protocol's rule: none means text, one means all, else one each.
func formatOf(formats []int16, i int) int16 {
	switch {
	case len(formats) == 0:
		return 0
	case len(formats) == 1:
		return formats[0]
	}
	return formats[i]
}

func decode(oid uint32, format int16, raw []byte) string {
	if format == binaryFormat && oid == pgtype.Int8OID && len(raw) == 8 {
		return strconv.FormatInt(int64(binary.BigEndian.Uint64(raw)), 10)
	}
	return string(raw)
}

func encodeRow(row []any, formats []int16) [][]byte {
	values := make([][]byte, len(row))
	for i, v := range row {
		values[i] = encode(v, formatOf(formats, i) == binaryFormat)
	}
	return values
}

func encode(v any, inBinary bool) []byte {
	switch v := v.(type) {
	case nil:
		return nil
	case string:
		return []byte(v)
	case bool:
		switch {
		case inBinary && v:
			return []byte{1}
		case inBinary:
			return []byte{0}
		case v:
			return []byte("t")
		}
		return []byte("f")
	case int32:
		if inBinary {
			return binary.BigEndian.AppendUint32(nil, uint32(v))
		}
	case int64:
		if inBinary {
			return binary.BigEndian.AppendUint64(nil, uint64(v))
		}
	}
	return fmt.Append(nil, v)
}
