package fleet

import "syscall"

// dieWithUs makes the kernel stop the child when the thread that started it
// ends, which the spawner makes the end of our process. SIGQUIT lets a
// postmaster take its backends along and give its shared memory back; what it
// cannot reach, because it is frozen, the next Start sweeps.
func dieWithUs(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGQUIT }
