package consumer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"time"
)

// Process is a consumer's process, from its parent's side.
type Process struct {
	URL string // immutable

	cmd  *exec.Cmd
	in   io.WriteCloser
	once sync.Once
	err  error

	mu struct {
		sync.Mutex
		commands *json.Encoder
		answers  *json.Decoder
	}
}

// Start starts cmd, which must come to Run, and waits until it serves. Close ends it.
func Start(cmd *exec.Cmd) (*Process, error) {
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("consumer: %w", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("consumer: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("consumer: %w", err)
	}
	p := &Process{cmd: cmd, in: in}
	p.mu.commands, p.mu.answers = json.NewEncoder(in), json.NewDecoder(out)
	var first answer
	if err := p.mu.answers.Decode(&first); err != nil {
		return nil, errors.Join(fmt.Errorf("consumer: its first line: %w", err), p.Close())
	}
	p.URL = first.URL
	return p, nil
}

// Become changes how it answers, and returns once it does.
func (p *Process) Become(b Behaviour) error {
	_, err := p.ask(command{Become: &b})
	return err
}

// Report is what it saw, with the IDs that it took if they are asked for. Each stall is told once.
func (p *Process) Report(ids bool) (Report, error) { return p.ask(command{IDs: ids}) }

func (p *Process) ask(c command) (Report, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.mu.commands.Encode(c); err != nil {
		return Report{}, fmt.Errorf("consumer: a command: %w", err)
	}
	var a answer
	if err := p.mu.answers.Decode(&a); err != nil {
		return Report{}, fmt.Errorf("consumer: its answer: %w", err)
	}
	return a.Report, nil
}

// patience is how long a process has to end by itself.
const patience = 2 * time.Second

// Close ends the process and waits for it. It may be called twice.
func (p *Process) Close() error {
	p.once.Do(func() {
		_ = p.in.Close()
		timer := time.AfterFunc(patience, func() { _ = p.cmd.Process.Kill() })
		defer timer.Stop()
		p.err = p.cmd.Wait()
	})
	return p.err
}
