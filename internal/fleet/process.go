package fleet

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"
)

// process is a started postmaster. It is reaped as soon as it ends: one that
// was not would keep its lock file valid.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed after Wait has returned
}

func (p *process) hasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// endsWithin waits for the end for at most d and says whether it came.
func (p *process) endsWithin(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-p.ended:
		return true
	case <-t.C:
		return p.hasEnded()
	}
}

// signal is safe against a reused process id, since Process knows the end.
func (p *process) signal(sig syscall.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

const (
	treePatience = 5 * time.Second
	treePoll     = time.Millisecond
)

// freeze stops the postmaster first, so that it makes no more children and
// reaps none, and then the children until all of them are seen stopped.
func (p *process) freeze() error {
	if err := p.signal(sigFreeze); err != nil {
		return err
	}
	pid := p.cmd.Process.Pid
	deadline := time.Now().Add(treePatience)
	for {
		state, err := stateOf(pid)
		if err != nil {
			return err
		}
		awake, err := stopAwake(pid)
		if err != nil {
			return err
		}
		if awake == 0 && (state == 'T' || state == 'Z' || state == 0) {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d children of process %d do not stop", awake, pid)
		}
		time.Sleep(treePoll)
	}
}

// stopAwake stops the descendants of pid that are not, and counts them.
func stopAwake(pid int) (int, error) {
	below, err := descendants(pid)
	if err != nil {
		return 0, err
	}
	awake := 0
	for _, c := range below {
		if c.stopped() {
			continue
		}
		awake++
		if err := signal(c.pid, sigFreeze); err != nil {
			return awake, err
		}
	}
	return awake, nil
}

// thaw wakes the children first and the postmaster last: the reverse of freeze,
// so that a postmaster never acts on children that cannot answer.
func (p *process) thaw() error {
	below, err := descendants(p.cmd.Process.Pid)
	if err != nil {
		return err
	}
	var faults []error
	for _, c := range slices.Backward(below) {
		faults = append(faults, signal(c.pid, sigThaw))
	}
	return errors.Join(append(faults, p.signal(sigThaw))...)
}

// kill ends the postmaster and all its children at once, as a power cut does.
// The tree is frozen first: a child of a dead postmaster is nobody's, and could
// not be found any more.
func (p *process) kill() error {
	if p.hasEnded() {
		return nil
	}
	freezeErr := p.freeze()
	below, err := descendants(p.cmd.Process.Pid)
	faults := []error{freezeErr, err}
	for _, c := range below {
		faults = append(faults, signal(c.pid, sigKill))
	}
	faults = append(faults, p.signal(sigKill))
	if !p.endsWithin(treePatience) {
		faults = append(faults, fmt.Errorf("process %d does not end on SIGKILL", p.cmd.Process.Pid))
	}
	return errors.Join(append(faults, awaitGone(below))...)
}

// awaitGone waits until none of the processes runs: a backend that outlived its
// postmaster would keep the shared memory, and the next start would refuse.
func awaitGone(procs []proc) error {
	deadline := time.Now().Add(treePatience)
	for _, c := range procs {
		for {
			state, err := stateOf(c.pid)
			if err != nil {
				return err
			}
			if state == 0 || state == 'Z' {
				break
			}
			if time.Now().After(deadline) {
				return fmt.Errorf("process %d does not end on SIGKILL", c.pid)
			}
			time.Sleep(treePoll)
		}
	}
	return nil
}

// quit stops the server without a checkpoint, whatever state it is in, in
// bounded time. The signal waits for a frozen server and takes effect as it is
// thawed, so it never gets to work again.
func (p *process) quit() error {
	if p.hasEnded() {
		return nil
	}
	if err := errors.Join(p.signal(sigImmediate), p.thaw()); err == nil && p.endsWithin(quitPatience) {
		return nil
	}
	return p.kill()
}

// quitPatience is longer than the 5 s after which a postmaster kills children
// that do not react to its SIGQUIT.
const quitPatience = 7 * time.Second
