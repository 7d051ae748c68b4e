package fleet

import (
	"os/exec"
	"runtime"
)

// spawner starts processes from one goroutine that keeps its thread for life:
// the kernel's parent-death signal means the death of the starting thread, not
// of the process (golang/go#27505), so that thread must last as long as we do.
type spawner struct {
	requests chan spawnRequest
	ended    chan struct{}
}

type spawnRequest struct {
	cmd    *exec.Cmd
	answer chan error
}

func newSpawner() *spawner {
	s := &spawner{requests: make(chan spawnRequest), ended: make(chan struct{})}
	go s.run()
	return s
}

func (s *spawner) run() {
	defer close(s.ended)
	runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
	for req := range s.requests {
		req.answer <- req.cmd.Start()
	}
}

// start is cmd.Start on the lasting thread.
func (s *spawner) start(cmd *exec.Cmd) error {
	req := spawnRequest{cmd: cmd, answer: make(chan error, 1)}
	s.requests <- req
	return <-req.answer
}

// close ends the thread, and with it every process that still runs.
func (s *spawner) close() {
	close(s.requests)
	<-s.ended
}
