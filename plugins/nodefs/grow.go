package nodefs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	mountutils "k8s.io/mount-utils"
	utilexec "k8s.io/utils/exec"
)

// ErrGrowMounted is matched by the error for a file system that this process may not grow while it
// is mounted. For ext2 to ext4 that needs CAP_SYS_RESOURCE, which many containers lack.
var ErrGrowMounted = errors.New("cannot grow while mounted")

// Grow grows the file system on the device, mounted at target, to the size of the device. A file
// system of that size is left unchanged. If the error matches ErrGrowMounted, GrowUnmounted may
// succeed. When ctx ends, the running tool is killed.
//
// Upstream: k8s.io/mount-utils ResizeFs (v0.36).
func (r *Real) Grow(ctx context.Context, device, target string) error {
	to, err := r.resolve(target)
	if err != nil {
		return err
	}
	super, err := ReadSuperblock(device)
	if err != nil {
		return err
	}
	exec := contextExec{Interface: utilexec.New(), ctx: ctx}
	_, err = mountutils.NewResizeFs(blkidExec{Interface: exec, device: device, fsType: super.Type}).Resize(device, to)
	if err != nil && strings.Contains(err.Error(), "Permission denied to resize filesystem") {
		err = fmt.Errorf("%w: %w", ErrGrowMounted, err)
	}
	return err
}

// blkidExec answers blkid without running it. mount-utils needs only the type of the file system on
// the device, which is already known.
type blkidExec struct {
	utilexec.Interface
	device, fsType string
}

func (e blkidExec) Command(name string, arguments ...string) utilexec.Cmd {
	if name == "blkid" && e.fsType != "" && slices.Contains(arguments, e.device) {
		return cannedCommand{output: "TYPE=" + e.fsType + "\n"}
	}
	return e.Interface.Command(name, arguments...)
}

// cannedCommand is a command with a known output. It is never run.
type cannedCommand struct {
	utilexec.Cmd
	output string
}

func (a cannedCommand) CombinedOutput() ([]byte, error) { return []byte(a.output), nil }

// GrowUnmounted grows an unmounted ext2, ext3 or ext4 on the device to the size of the device. Any
// other file system, or one of that size, is left unchanged.
func (r *Real) GrowUnmounted(ctx context.Context, device string) error {
	super, err := ReadSuperblock(device)
	if err != nil || super.Type != "ext4" || !super.CanGrow() {
		return err
	}
	exec := contextExec{Interface: utilexec.New(), ctx: ctx}
	for _, command := range [][]string{{"e2fsck", "-f", "-p", device}, {"resize2fs", device}} {
		output, err := exec.Command(command[0], command[1:]...).CombinedOutput()
		if exit := utilexec.ExitError(nil); errors.As(err, &exit) && command[0] == "e2fsck" && exit.ExitStatus() == 1 {
			continue // it corrected errors
		}
		if err != nil {
			return fmt.Errorf("grow %s: %s: %w: %s", device, command[0], errors.Join(ctx.Err(), err), output)
		}
	}
	return nil
}
