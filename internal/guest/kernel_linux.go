package guest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// newFolder creates a job's folder.
func newFolder() (string, error) {
	folder, err := os.MkdirTemp("", "volsim-guest-")
	if err != nil {
		return "", err
	}
	if strings.ContainsFunc(folder, func(r rune) bool { return r <= ' ' || r == '"' || r == ',' }) {
		err := fmt.Errorf("TMPDIR %q contains a character that is invalid in a kernel command line: choose another", folder)
		return "", errors.Join(err, os.RemoveAll(folder))
	}
	return folder, nil
}

// kernelArguments returns the kernel's command line. The kernel passes unknown words, such as the
// job's, to process 1.
func kernelArguments(c Config, folder string) []string {
	args := []string{
		fmt.Sprintf("mem=%dM", c.Memory>>20),
		"seccomp=auto", // on newer kernels, twice as fast as ptrace alone
		"rootfstype=hostfs", "rootflags=/", "ro",
		"init=" + filepath.Join(folder, "init"),
		"con=null", "con0=null,fd:2", "con1=fd:3,fd:4", "ssl=null",
		"uml_dir=" + folder + "/", "umid=guest",
		"noreboot",
		// Skip the calibration of udelay, which takes a third of a second.
		"lpj=10000000",
		jobVariable + "=" + filepath.Join(folder, "job"),
	}
	if !c.RAID6 {
		args = append(args, "initcall_blacklist=raid6_select_algo")
	}
	for i, disk := range c.Disks {
		args = append(args, fmt.Sprintf("ubd%dd=%s", i, disk))
	}
	return args
}

// diskNode returns the guest's device of the i-th disk.
func diskNode(i int) string { return "/dev/ubd" + string(rune('a'+i)) }

// kernelEnvironment returns the environment of the kernel, which differs from the command's.
func kernelEnvironment(c Config, folder string) ([]string, error) {
	environ := []string{"PATH=" + systemPath, "HOME=" + folder, "TMPDIR=" + memoryFolder(c.Memory, folder)}
	if !c.PadXState && !hasAMX() {
		return environ, nil
	}
	shim, err := buildShim(folder)
	return append(environ, "LD_PRELOAD="+shim), err
}

// memoryFolder returns the folder of the guest's memory file: /dev/shm if it has room and allows
// execution.
func memoryFolder(memory int64, otherwise string) string {
	const shm = "/dev/shm"
	var at unix.Statfs_t
	if err := unix.Statfs(shm, &at); err != nil {
		return otherwise
	}
	inMemory := at.Type == unix.TMPFS_MAGIC && at.Flags&unix.ST_NOEXEC == 0
	if inMemory && int64(at.Bavail)*at.Bsize >= memory && unix.Access(shm, unix.W_OK) == nil {
		return shm
	}
	return otherwise
}
