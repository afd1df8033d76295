/*
 * Loaded into a User-Mode-Linux kernel with LD_PRELOAD on processors with AMX.
 *
 * User-Mode Linux before 6.16 keeps the floating-point registers of a process in a buffer of fixed size. On a processor
 * with AMX the host's register set is larger, and the host rejects a partial set. This shim extends the set to the host's
 * size, with the additional components in their initial state.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define NT_X86_XSTATE 0x202
#define XSTATE_BV 512 /* in the header after the legacy area: components not in their initial state */
#define AMX_COMPONENTS (UINT64_C(3) << 17)

static unsigned char whole[1 << 16] __attribute__((aligned(64)));

static long set_registers(pid_t pid, struct iovec *given)
{
	struct iovec all = { whole, sizeof whole };
	uint64_t used;

	if (syscall(SYS_ptrace, PTRACE_GETREGSET, pid, NT_X86_XSTATE, &all) != 0)
		return -1;
	if (all.iov_len <= given->iov_len)
		return syscall(SYS_ptrace, PTRACE_SETREGSET, pid, NT_X86_XSTATE, given);
	memset(whole, 0, all.iov_len);
	memcpy(whole, given->iov_base, given->iov_len);
	memcpy(&used, whole + XSTATE_BV, sizeof used);
	used &= ~AMX_COMPONENTS;
	memcpy(whole + XSTATE_BV, &used, sizeof used);
	return syscall(SYS_ptrace, PTRACE_SETREGSET, pid, NT_X86_XSTATE, &all);
}

long ptrace(enum __ptrace_request request, ...)
{
	va_list rest;
	long result, word;

	va_start(rest, request);
	pid_t pid = va_arg(rest, pid_t);
	void *addr = va_arg(rest, void *);
	void *data = va_arg(rest, void *);
	va_end(rest);

	switch (request) {
	case PTRACE_SETREGSET:
		if ((uintptr_t)addr == NT_X86_XSTATE)
			return set_registers(pid, data);
		break;
	case PTRACE_PEEKTEXT:
	case PTRACE_PEEKDATA:
	case PTRACE_PEEKUSER: /* the C library returns the value that the system call stores */
		result = syscall(SYS_ptrace, request, pid, addr, &word);
		if (result == 0) {
			errno = 0;
			return word;
		}
		return result;
	default:
		break;
	}
	return syscall(SYS_ptrace, request, pid, addr, data);
}
