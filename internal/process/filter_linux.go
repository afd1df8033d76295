//go:build amd64 || arm64

package process

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// refusedCalls are the system calls that reach beyond the namespaces of a run. Calls that need a capability that
// no run has are missing.
//
// Upstream: docker's default seccomp profile, which lists what is allowed.
var refusedCalls = []uint32{
	unix.SYS_ADD_KEY, unix.SYS_KEYCTL, unix.SYS_REQUEST_KEY, // keyrings are this program's
	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD,
	unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
	unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_NAME_TO_HANDLE_AT,
}

// refusedFamilies are the families of sockets that do not belong to a network namespace.
var refusedFamilies = []uint32{unix.AF_VSOCK, unix.AF_ALG}

// Offsets in what a filter sees of a call: struct seccomp_data.
const (
	callNumber   = 0
	callMachine  = 4
	callArgument = 16 // the low half of the first one; little endian
)

// x32Bit is set in the numbers of calls of another ABI of amd64.
const x32Bit = 0x40000000

// Results of a filter.
const (
	refuse  = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	missing = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
)

func statement(code uint16, k uint32) unix.SockFilter { return unix.SockFilter{Code: code, K: k} }

// branch skips yes or no instructions.
func branch(code uint16, k uint32, yes, no uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | code | unix.BPF_K, Jt: yes, Jf: no, K: k}
}

func load(offset uint32) unix.SockFilter {
	return statement(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, offset)
}

func result(r uint32) unix.SockFilter { return statement(unix.BPF_RET|unix.BPF_K, r) }

// filterProgram returns the filter of system calls.
func filterProgram() []unix.SockFilter {
	p := []unix.SockFilter{
		load(callMachine),
		branch(unix.BPF_JEQ, machine, 1, 0),
		result(missing),
		load(callNumber),
		branch(unix.BPF_JGE, x32Bit, 0, 1),
		result(missing),
		branch(unix.BPF_JEQ, unix.SYS_CLONE3, 0, 1), // its flags are in memory, where a filter cannot see them; libraries use clone then
		result(missing),
	}
	for _, call := range refusedCalls {
		p = append(p, branch(unix.BPF_JEQ, call, 0, 1), result(refuse))
	}
	for _, call := range []uint32{unix.SYS_CLONE, unix.SYS_UNSHARE} {
		p = append(p,
			branch(unix.BPF_JEQ, call, 0, 4),
			load(callArgument),
			branch(unix.BPF_JSET, unix.CLONE_NEWUSER, 0, 1),
			result(refuse),
			result(unix.SECCOMP_RET_ALLOW),
		)
	}
	p = append(p, branch(unix.BPF_JEQ, unix.SYS_SOCKET, 1, 0), result(unix.SECCOMP_RET_ALLOW), load(callArgument))
	for _, family := range refusedFamilies {
		p = append(p, branch(unix.BPF_JEQ, family, 0, 1), result(refuse))
	}
	return append(p, result(unix.SECCOMP_RET_ALLOW))
}

// filterSystemCalls installs the filter for the calling thread and what it starts.
func filterSystemCalls() error {
	program := filterProgram()
	fprog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}                                 //nolint:gosec // a few dozen
	err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&fprog)), 0, 0) //nolint:gosec // as prctl takes it
	if err != nil {
		return fmt.Errorf("filter system calls: %w", err)
	}
	return nil
}
