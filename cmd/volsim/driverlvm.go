package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/volsim/volsim/internal/lvm2"
	"github.com/volsim/volsim/plugins/lvm"
)

// lvmOptions are the flags of "volsim driver lvm" alone.
type lvmOptions struct {
	devices    []string
	fileSize   string
	group      string
	thinPool   string
	overcommit float64
}

func lvmKind() driverKind {
	return driverKind{
		name: "lvm", driverName: lvm.DriverName, onDevices: true, usable: lvm.Probe, open: openLVM,
		short: "Volumes that are logical volumes of LVM",
		long: "Volumes lie in a volume group of the driver's own, over disks of this machine (--device) or over a file below --state\n" +
			"(--file-size). The machine's own volume groups are neither seen nor touched. It needs root and lvm2; where the kernel\n" +
			"has no device-mapper, volumes are linear, each in one piece, and a snapshot is a copy.\n\n" +
			"When it is stopped, volumes that are in use stay in use, and so does the loop device under the file.",
		example: "  volsim driver lvm --state /var/lib/volsim-lvm --device /dev/sdb --device /dev/sdc \\\n" +
			"      --endpoint unix:///var/lib/kubelet/plugins/lvm.csi.volsim.dev/csi.sock\n\n" +
			"  volsim driver lvm --state /var/lib/volsim-lvm --file-size 20Gi",
		flags: func(flags *pflag.FlagSet, o *driverOptions) {
			flags.StringArrayVar(&o.lvm.devices, "device", nil,
				"`disk` of the volume group; may be given several times. It must be empty, or the driver's already: all that is on it is the driver's")
			flags.StringVar(&o.lvm.fileSize, "file-size", "", "`size` of the sparse file below --state that is the disk where no --device is given, such as 20Gi")
			flags.StringVar(&o.lvm.group, "group", "",
				"`name` of the volume group, which is made where it is not there (default volsim- and the node's ID, or a short form of it)")
			flags.StringVar(&o.lvm.thinPool, "thin-pool", "", "`size` of the pool that is made for the first thin volume (default half of the volume group)")
			flags.Float64Var(&o.lvm.overcommit, "overcommit", 1, "how many bytes thin volumes may promise for each byte of their pool")
		},
	}
}

func openLVM(ctx context.Context, o driverOptions) (*openDriver, error) {
	// LVM acts on what carries its own system ID: one for each state.
	id := fmt.Sprintf("volsim-%x", sha256.Sum256([]byte(o.state)))[:len("volsim-")+16]
	node := lvm.NodeConfig{
		Name: o.node, LVM: lvm2.Config{Directory: filepath.Join(o.state, "lvm"), SystemID: id},
		Group: o.lvm.group, Devices: o.lvm.devices, Thin: lvm.Thin{OvercommitRatio: o.lvm.overcommit},
	}
	var err error
	if node.Thin.PoolBytes, err = parseBytes("--thin-pool", o.lvm.thinPool); err != nil {
		return nil, err
	}
	size, err := parseBytes("--file-size", o.lvm.fileSize)
	switch {
	case err != nil:
		return nil, err
	case size > 0 && len(o.lvm.devices) > 0:
		return nil, errors.New("--device and --file-size: choose one")
	case size > 0:
		node.Files = []lvm.File{{Path: filepath.Join(o.state, "disk"), SizeBytes: size}}
	case len(o.lvm.devices) == 0:
		return nil, errors.New("--device or --file-size: say what the volume group is to lie on")
	}
	driver, err := lvm.New(ctx, lvm.Config{
		DriverName: o.name, Nodes: []lvm.NodeConfig{node}, NodeAttaches: o.nodeAttaches, MountGroup: o.mountGroup,
	})
	if errors.Is(err, lvm2.ErrInUse) {
		return nil, fmt.Errorf("--state: %w: a driver that runs has it", err)
	}
	if err != nil {
		return nil, err
	}
	return openBlocks(driver.Driver, o, driver.Close)
}

// parseBytes reads a flag that is a size; 0 where it is left out.
func parseBytes(flag, text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	size, err := resource.ParseQuantity(text)
	if err != nil || size.Sign() <= 0 {
		return 0, fmt.Errorf("%s %q: want a size, such as 20Gi", flag, text)
	}
	return size.Value(), nil
}
