package fleet

import (
	"errors"
	"os"
	"syscall"
)

// Windows has no signals that stop a process, so there is no local fleet: the
// package compiles, and Find finds no server.
const (
	sigFreeze    = syscall.Signal(-1)
	sigThaw      = syscall.Signal(-1)
	sigKill      = syscall.SIGKILL
	sigFastStop  = syscall.SIGINT
	sigImmediate = syscall.SIGQUIT
	sigReload    = syscall.SIGHUP
)

func ownerOf(os.FileInfo) (uid, gid int) { return -1, -1 }

func childAttr(*account) *syscall.SysProcAttr { return nil }

func signal(int, syscall.Signal) error { return errors.ErrUnsupported }

func tryLock(*os.File) (bool, error) { return false, errors.ErrUnsupported }
