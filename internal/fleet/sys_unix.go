//go:build unix

package fleet

import (
	"errors"
	"os"
	"syscall"
)

const (
	sigFreeze    = syscall.SIGSTOP
	sigThaw      = syscall.SIGCONT
	sigKill      = syscall.SIGKILL
	sigFastStop  = syscall.SIGINT  // to a postmaster: end sessions, checkpoint, exit
	sigImmediate = syscall.SIGQUIT // to a postmaster: exit without a checkpoint
	sigReload    = syscall.SIGHUP
)

func ownerOf(info os.FileInfo) (uid, gid int) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return -1, -1
	}
	return int(st.Uid), int(st.Gid)
}

// childAttr makes a child its own process group, so that the terminal's Ctrl-C
// reaches us and not the servers, and runs it as the account.
func childAttr(a *account) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true}
	if a != nil {
		attr.Credential = &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
	}
	dieWithUs(attr)
	return attr
}

// signal sends sig to a process that need not exist any more.
func signal(pid int, sig syscall.Signal) error {
	if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}

// tryLock takes the lock that the kernel drops when its holder dies. It says
// false if another process holds it.
func tryLock(f *os.File) (bool, error) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}
