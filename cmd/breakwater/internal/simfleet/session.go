package simfleet

import (
	"errors"
	"io"
	"net"
	"sync"

	"github.com/jackc/pgx/v5/pgproto3"
)

// session is one client's connection.
type session struct {
	node *node
	conn net.Conn
	wire *pgproto3.Backend
	gone chan struct{} // closed by end
	once sync.Once

	// used by serve's goroutine only
	prepared map[string]*statement
	portal   portal
	inTx     bool
	skipping bool // an error was sent: what follows is dropped until Sync
}

type portal struct {
	statement *statement
	arguments []string
	formats   []int16
}

func newSession(n *node, conn net.Conn) *session {
	return &session{
		node: n, conn: conn, wire: pgproto3.NewBackend(conn, conn),
		gone: make(chan struct{}), prepared: map[string]*statement{},
	}
}

// end breaks the connection, as a killed server does.
func (s *session) end() {
	s.once.Do(func() {
		close(s.gone)
		if tcp, ok := s.conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		_ = s.conn.Close()
	})
}

func (s *session) serve() {
	defer s.forget()
	defer s.end()
	if s.startup() != nil {
		return
	}
	for {
		m, err := s.wire.Receive()
		if err != nil || s.waitThawed() != nil {
			return
		}
		if _, done := m.(*pgproto3.Terminate); done {
			return
		}
		if s.answer(m) != nil {
			return
		}
	}
}

func (s *session) forget() {
	s.node.fleet.mu.Lock()
	defer s.node.fleet.mu.Unlock()
	delete(s.node.conns, s)
}

// waitThawed holds a frozen node's answer back until it thaws or is killed.
func (s *session) waitThawed() error {
	for {
		s.node.fleet.mu.Lock()
		thawed := s.node.thawed
		s.node.fleet.mu.Unlock()
		if thawed == nil {
			return nil
		}
		select {
		case <-thawed:
		case <-s.gone:
			return io.EOF
		}
	}
}

func (s *session) startup() error {
	for {
		m, err := s.wire.ReceiveStartupMessage()
		if err != nil {
			return err
		}
		if err := s.waitThawed(); err != nil {
			return err
		}
		switch m.(type) {
		case *pgproto3.StartupMessage:
			s.wire.Send(&pgproto3.AuthenticationOk{})
			for _, p := range [][2]string{
				{"server_version", "15.0 (simulated)"},
				{"client_encoding", "UTF8"},
				{"standard_conforming_strings", "on"},
				{"integer_datetimes", "on"},
				{"DateStyle", "ISO, MDY"},
			} {
				s.wire.Send(&pgproto3.ParameterStatus{Name: p[0], Value: p[1]})
			}
			s.wire.Send(&pgproto3.BackendKeyData{ProcessID: 1, SecretKey: []byte{0, 0, 0, 1}})
			return s.ready()
		case *pgproto3.SSLRequest, *pgproto3.GSSEncRequest:
			if _, err := s.conn.Write([]byte{'N'}); err != nil {
				return err
			}
		default: // a cancellation: there is nothing to cancel
			return errors.New("simfleet: no session asked for")
		}
	}
}

func (s *session) ready() error {
	status := byte('I')
	if s.inTx {
		status = 'T'
	}
	s.wire.Send(&pgproto3.ReadyForQuery{TxStatus: status})
	return s.wire.Flush()
}

// answer answers one message; an error means that the connection is broken.
func (s *session) answer(m pgproto3.FrontendMessage) error {
	switch m := m.(type) {
	case *pgproto3.Sync:
		s.skipping = false
		return s.ready()
	case *pgproto3.Query:
		if st := s.find(m.String); st != nil {
			s.portal = portal{statement: st}
			if len(st.columns) > 0 {
				s.wire.Send(st.describe(nil))
			}
			s.execute()
		}
		s.skipping = false
		return s.ready()
	case *pgproto3.Flush:
		return s.wire.Flush()
	}
	if !s.skipping {
		s.extended(m)
	}
	return nil
}

func (s *session) extended(m pgproto3.FrontendMessage) {
	switch m := m.(type) {
	case *pgproto3.Parse:
		if st := s.find(m.Query); st != nil {
			s.prepared[m.Name] = st
			s.wire.Send(&pgproto3.ParseComplete{})
		}
	case *pgproto3.Describe:
		s.describe(m)
	case *pgproto3.Bind:
		s.bind(m)
	case *pgproto3.Execute:
		s.execute()
	case *pgproto3.Close:
		if m.ObjectType == 'S' {
			delete(s.prepared, m.Name)
		}
		s.wire.Send(&pgproto3.CloseComplete{})
	default:
		s.fail("0A000", "the simulated fleet does not know this message")
	}
}

func (s *session) describe(m *pgproto3.Describe) {
	st, formats := s.portal.statement, s.portal.formats
	if m.ObjectType == 'S' {
		st, formats = s.prepared[m.Name], nil
		if st == nil {
			s.fail("26000", "no such prepared statement")
			return
		}
		s.wire.Send(&pgproto3.ParameterDescription{ParameterOIDs: st.parameters})
	}
	if st == nil || len(st.columns) == 0 {
		s.wire.Send(&pgproto3.NoData{})
		return
	}
	s.wire.Send(st.describe(formats))
}

func (s *session) bind(m *pgproto3.Bind) {
	st := s.prepared[m.PreparedStatement]
	if st == nil || len(m.Parameters) != len(st.parameters) {
		s.fail("26000", "no such prepared statement with so many parameters")
		return
	}
	p := portal{statement: st, formats: append([]int16(nil), m.ResultFormatCodes...)}
	for i, raw := range m.Parameters {
		p.arguments = append(p.arguments, decode(st.parameters[i], formatOf(m.ParameterFormatCodes, i), raw))
	}
	s.portal = p
	s.wire.Send(&pgproto3.BindComplete{})
}

func (s *session) execute() {
	p := s.portal
	row, code, message := p.statement.run(s, p.arguments)
	if code != "" {
		s.fail(code, message)
		return
	}
	tag := p.statement.tag
	if row != nil {
		s.wire.Send(&pgproto3.DataRow{Values: encodeRow(row, p.formats)})
	}
	if tag == "" {
		s.wire.Send(&pgproto3.EmptyQueryResponse{})
		return
	}
	s.wire.Send(&pgproto3.CommandComplete{CommandTag: []byte(tag)})
}

func (s *session) fail(code, message string) {
	s.skipping = true
	s.wire.Send(&pgproto3.ErrorResponse{Severity: "ERROR", SeverityUnlocalized: "ERROR", Code: code, Message: message})
}
