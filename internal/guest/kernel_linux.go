package guest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// newFolder makes a job's folder.
func newFolder() (string, error) {
	folder, err := os.MkdirTemp("", "volsim-guest-")
	if err != nil {
		return "", err
	}
	if strings.ContainsFunc(folder, func(r rune) bool { return r <= ' ' || r == '"' || r == ',' }) {
		err := fmt.Errorf("TMPDIR %q has a character that a kernel's command line cannot have: choose another", folder)
		return "", errors.Join(err, os.RemoveAll(folder))
	}
	return folder, nil
}

// kernelArguments are the kernel's command line. Words that it does not know, as the job's, it hands to process 1.
func kernelArguments(c Config, folder string) []string {
	args := []string{
		fmt.Sprintf("mem=%dM", c.Memory>>20),
		"seccomp=auto", // newer kernels: how processes are held; twice as fast as by ptrace alone
		"rootfstype=hostfs", "rootflags=/", "ro",
		"init=" + filepath.Join(folder, "init"),
		"con=null", "con0=null,fd:2", "con1=fd:3,fd:4", "ssl=null",
		"uml_dir=" + folder + "/", "umid=guest",
		"noreboot",
		// How fast udelay loops is not measured, which takes a third of a second: whatever waits here waits for real.
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

// diskNode is the device inside of the i-th disk.
func diskNode(i int) string { return "/dev/ubd" + string(rune('a'+i)) }

// kernelEnvironment is that of the kernel, which is not the command's.
func kernelEnvironment(c Config, folder string) ([]string, error) {
	environ := []string{"PATH=" + systemPath, "HOME=" + folder, "TMPDIR=" + memoryFolder(c.Memory, folder)}
	if !c.PadXState && !hasAMX() {
		return environ, nil
	}
	shim, err := buildShim(folder)
	return append(environ, "LD_PRELOAD="+shim), err
}

// memoryFolder is where the guest's memory is a file without a name: in memory if there is room and programs may run there.
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
