package nodefs

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
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
	_, err = mountutils.NewResizeFs(contextExec{Interface: utilexec.New(), ctx: ctx}).Resize(device, to)
	if err != nil && strings.Contains(err.Error(), "Permission denied to resize filesystem") {
		err = fmt.Errorf("%w: %w", ErrGrowMounted, err)
	}
	return err
}

// GrowUnmounted lets a file system of ext2 to ext4 on the device, which is not
// mounted, have all of the device. Another one, or one that has, is left as it is.
func (r *Real) GrowUnmounted(ctx context.Context, device string) error {
	small, err := extIsSmall(device)
	if err != nil || !small {
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

// extIsSmall tells whether there is a file system of ext2 to ext4 on a device,
// and a block more on the device than in it.
func extIsSmall(device string) (bool, error) {
	file, err := os.Open(device)
	if err != nil {
		return false, err
	}
	defer file.Close()
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return false, err
	}
	var super [0x154]byte
	if _, err := file.ReadAt(super[:], 1024); errors.Is(err, io.EOF) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	if binary.LittleEndian.Uint16(super[0x38:]) != 0xEF53 {
		return false, nil
	}
	block := int64(1024) << binary.LittleEndian.Uint32(super[0x18:])
	blocks := int64(binary.LittleEndian.Uint32(super[0x4:]))
	if binary.LittleEndian.Uint32(super[0x60:])&0x80 != 0 { // 64bit
		blocks |= int64(binary.LittleEndian.Uint32(super[0x150:])) << 32
	}
	return size/block > blocks, nil
}
