package loop

import (
	"context"
	"errors"
	"os"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/volsim/volsim/nodefs"
	"github.com/volsim/volsim/nodefs/loopdev"
	"github.com/volsim/volsim/plugins/csireq"
)

// ControllerExpandVolume makes the volume's file longer; the device that it is
// bound to has all of it at once. Its file system is grown on the node.
func (c *controller) ControllerExpandVolume(ctx context.Context, request *csi.ControllerExpandVolumeRequest) (*csi.ControllerExpandVolumeResponse, error) {
	d, id := c.driver, request.GetVolumeId()
	if err := d.offer.CheckControllerExpand(request); err != nil {
		return nil, err
	}
	unlock, err := d.locks.lock(ctx, id)
	if err != nil {
		return nil, err
	}
	defer unlock()
	has, err := d.sizeOf(id)
	if err != nil {
		return nil, err
	}
	size, err := sizesFor(nil).Grow(has, request.GetCapacityRange())
	if err != nil {
		return nil, err
	}
	if size > has {
		if err := os.Truncate(d.image(id), size); err != nil {
			return nil, d.status(err)
		}
	}
	if err := d.growDevice(id); err != nil {
		return nil, err
	}
	return &csi.ControllerExpandVolumeResponse{
		CapacityBytes: size, NodeExpansionRequired: request.GetVolumeCapability().GetBlock() == nil,
	}, nil
}

// growDevice lets the device that a volume is bound to, if it is, have all of the volume's file.
func (d *Driver) growDevice(id string) error {
	attached, err := d.attachment(id)
	if err != nil || attached == nil {
		return err
	}
	return d.status(loopdev.Grow(attached.Bound))
}

// NodeExpandVolume lets the file system have all of the volume. What is asked
// for must be there: OutOfRange. A file system that this process may not grow
// while it is mounted is FailedPrecondition; it grows when the volume is staged
// the next time.
func (n *nodeService) NodeExpandVolume(ctx context.Context, request *csi.NodeExpandVolumeRequest) (*csi.NodeExpandVolumeResponse, error) {
	d, id := n.driver, request.GetVolumeId()
	if err := d.offer.CheckNodeExpand(request); err != nil {
		return nil, err
	}
	unlock, err := d.locks.lock(ctx, id)
	if err != nil {
		return nil, err
	}
	defer unlock()
	size, err := d.sizeOf(id)
	if err != nil {
		return nil, err
	}
	if err := csireq.CheckGrown(id, size, request.GetCapacityRange()); err != nil {
		return nil, err
	}
	if err := d.growDevice(id); err != nil {
		return nil, err
	}
	return &csi.NodeExpandVolumeResponse{CapacityBytes: size}, n.grow(ctx, id, request.GetVolumePath())
}

// grow grows what is at a path: a file system; a device has grown already.
func (n *nodeService) grow(ctx context.Context, id, path string) error {
	attached, err := n.attached(id)
	if err != nil {
		return err
	}
	mount, mounted, err := csireq.MountAt(n.fs, path)
	if err != nil {
		return err
	}
	if !mounted || mount.Source != attached.Device {
		_, isDevice, err := csireq.DeviceAt(n.fs, path)
		if err == nil && !isDevice {
			err = status.Errorf(codes.NotFound, "volume %s is not mounted at %s", id, path)
		}
		return err
	}
	err = n.fs.Grow(ctx, attached.Device, path)
	if errors.Is(err, nodefs.ErrGrowMounted) {
		return status.Errorf(codes.FailedPrecondition, "%v: it grows when the volume is staged the next time", err)
	}
	return n.driver.status(err)
}
