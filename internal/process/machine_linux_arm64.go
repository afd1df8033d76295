package process

import "golang.org/x/sys/unix"

// machine is the kernel's number of the calling convention of this program.
const machine = unix.AUDIT_ARCH_AARCH64
