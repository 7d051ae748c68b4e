package fleet

import "syscall"

// dieWithUs makes the kernel stop the child when the thread that started it
// ends, which the spawner makes the end of our process. SIGQUIT lets a
// postmaster take its backends along and give its shared memory back. A frozen
// one is woken by the kernel, since its process group, of which we were the
// link to our session, is then orphaned; its frozen backends it kills after 5 s.
func dieWithUs(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGQUIT }
