/*
 * Sets the registers of a stopped child like a User-Mode-Linux kernel with a short buffer. Exit status: 0 success, 2 rejected
 * by the host, 3 registers differ afterwards, 1 other error.
 */
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <signal.h>
#include <unistd.h>

#define NT_X86_XSTATE 0x202
#define ROOM 832 /* legacy area, header and AVX: current hosts have more */
#define XMM0 160 /* offset in the legacy area */

static int failed(const char *what)
{
	perror(what);
	return 1;
}

int main(void)
{
	static unsigned char before[1 << 16], after[1 << 16];
	struct iovec got = { before, sizeof before }, again = { after, sizeof after }, set = { before, ROOM };
	int status, result = 0;
	pid_t child = fork();

	if (child == 0) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		raise(SIGSTOP);
		_exit(0);
	}
	if (waitpid(child, &status, 0) != child)
		return failed("waitpid");
	if (ptrace(PTRACE_GETREGSET, child, (void *)NT_X86_XSTATE, &got) != 0)
		return failed("PTRACE_GETREGSET");
	if (got.iov_len <= ROOM) {
		fprintf(stderr, "register set of this processor is at most %d bytes\n", ROOM);
		set.iov_len = got.iov_len / 2;
	}
	memset(before + XMM0, 0x5a, 16);
	before[512] |= 3; /* XSTATE_BV: x87 and SSE are in use */
	before[512] &= ~4 & 0xff; /* AVX is not */
	before[513] = before[514] = 0; /* nor later components */
	if (ptrace(PTRACE_SETREGSET, child, (void *)NT_X86_XSTATE, &set) != 0) {
		perror("PTRACE_SETREGSET");
		result = 2;
	} else if (ptrace(PTRACE_GETREGSET, child, (void *)NT_X86_XSTATE, &again) != 0) {
		result = failed("PTRACE_GETREGSET");
	} else if (memcmp(before + XMM0, after + XMM0, 16) != 0) {
		result = 3;
	}
	kill(child, SIGKILL);
	waitpid(child, &status, 0);
	return result;
}
