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

// ErrGrowMounted is matched by the error for a file system that this process
// may not grow while it is mounted: for ext2 to ext4 that needs CAP_SYS_RESOURCE,
// which many containers lack.
var ErrGrowMounted = errors.New("may not be grown while it is mounted")

// Grow lets the file system on the device, mounted at target, have all of the
// device. One that has is left as it is. The error matches ErrGrowMounted where
// GrowUnmounted may do better. When ctx ends, the tool that grows it is killed.
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

// blkidExec spares blkid, of whose answer mount-utils takes no more than the type of
// the file system on a device, where that is known.
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

// cannedCommand is a command that need not be run.
type cannedCommand struct {
	utilexec.Cmd
	output string
}

func (a cannedCommand) CombinedOutput() ([]byte, error) { return []byte(a.output), nil }

// GrowUnmounted lets a file system of ext2 to ext4 on the device, which is not
// mounted, have all of the device. Another one, or one that has, is left as it is.
func (r *Real) GrowUnmounted(ctx context.Context, device string) error {
	super, err := ReadSuperblock(device)
	if err != nil || super.Type != "ext4" || !super.CanGrow() {
		return err
	}
	exec := contextExec{Interface: utilexec.New(), ctx: ctx}
	for _, command := range [][]string{{"e2fsck", "-f", "-p", device}, {"resize2fs", device}} {
		output, err := exec.Command(command[0], command[1:]...).CombinedOutput()
		if exit := utilexec.ExitError(nil); errors.As(err, &exit) && command[0] == "e2fsck" && exit.ExitStatus() == 1 {
			continue // it has corrected errors
		}
		if err != nil {
			return fmt.Errorf("grow %s: %s: %w: %s", device, command[0], errors.Join(ctx.Err(), err), output)
		}
	}
	return nil
}
