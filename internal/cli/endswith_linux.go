package cli

import (
	"os/exec"
	"syscall"
)

// endsWithParent has the system end a process when this one is killed.
func endsWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
