package emittest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/emit"
	"github.com/breakwater-go/breakwater/emit/emittest"
)

// memory is a consumer in this process.
type memory struct {
	sync.Mutex
	answer emittest.Answer
	taken  []emit.Trigger
}

func (m *memory) Deliver(ctx context.Context, t emit.Trigger) error {
	m.Lock()
	defer m.Unlock()
	switch m.answer {
	case emittest.Accept:
	case emittest.Reject:
		return fmt.Errorf("%w: 403", emit.ErrRejected)
	case emittest.Later:
		return fmt.Errorf("consumer: %w", &emit.LaterError{After: time.Second, Err: errors.New("503")})
	case emittest.Fail:
		return errors.New("500")
	case emittest.Hang:
		m.Unlock()
		<-ctx.Done()
		m.Lock()
		return ctx.Err()
	}
	t.Data = slices.Clone(t.Data)
	m.taken = append(m.taken, t)
	return nil
}

func TestSinkFunc(t *testing.T) {
	for _, bubble := range []bool{false, true} {
		emittest.Sink(t, emittest.Sinks{Bubble: bubble, Open: func(*testing.T) emittest.Consumer {
			m := &memory{}
			return emittest.Consumer{
				Sink: emit.SinkFunc(m.Deliver),
				Set:  func(a emittest.Answer) { m.Lock(); defer m.Unlock(); m.answer = a },
				Taken: func() []emit.Trigger {
					m.Lock()
					defer m.Unlock()
					return slices.Clone(m.taken)
				},
			}
		}})
	}
}
