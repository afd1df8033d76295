package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"path/filepath"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/volsim/volsim/internal/lvm2"
	"github.com/volsim/volsim/plugins/lvm"
)

// lvmOptions are the flags specific to "volsim driver lvm".
type lvmOptions struct {
	devices    []string
	fileSize   string
	group      string
	thinPool   string
	overcommit float64
}

func lvmKind() driverKind {
	return driverKind{
		name: "lvm", driverName: lvm.DriverName, onDevices: true, usable: lvm.Probe, open: openLVM, check: checkLVM,
		short: "Run a driver with volumes on LVM",
		long: "Volumes are logical volumes in a volume group of the driver, on disks of this machine (--device) or on a file below\n" +
			"--state (--file-size). Other volume groups of the machine are neither read nor changed. The driver requires root and\n" +
			"lvm2. Without device-mapper in the kernel, volumes are linear and contiguous, and a snapshot is a copy.\n\n" +
			"Volumes in use stay in use when the driver stops. The loop device of the file stays while a volume is attached.",
		example: "  volsim driver lvm --state /var/lib/volsim-lvm --device /dev/sdb --device /dev/sdc \\\n" +
			"      --endpoint unix:///var/lib/kubelet/plugins/lvm.csi.volsim.dev/csi.sock\n\n" +
			"  volsim driver lvm --state /var/lib/volsim-lvm --file-size 20Gi",
		flags: func(flags *pflag.FlagSet, o *driverOptions) {
			flags.StringArrayVar(&o.lvm.devices, "device", nil,
				"`disk` of the volume group, for the driver's exclusive use; repeatable. It must be empty or already initialized by the driver")
			flags.StringVar(&o.lvm.fileSize, "file-size", "", "`size` of a sparse file below --state that serves as the disk if no --device is given, such as 20Gi")
			flags.StringVar(&o.lvm.group, "group", "",
				"`name` of the volume group, which is created if missing (default volsim- followed by the node ID or a short form of it)")
			flags.StringVar(&o.lvm.thinPool, "thin-pool", "", "`size` of the thin pool, which is created with the first thin volume (default half of the volume group)")
			flags.Float64Var(&o.lvm.overcommit, "overcommit", 1, "maximum ratio of the total size of thin volumes to the size of their pool, at least 1")
		},
	}
}

// checkLVM returns an error for invalid values of the flags of lvmKind.
func checkLVM(o driverOptions) error {
	if r := o.lvm.overcommit; !(r >= 1) || math.IsInf(r, 1) { // NaN compares as false
		return fmt.Errorf("invalid --overcommit %v: want a number of at least 1", r)
	}
	return nil
}

func openLVM(ctx context.Context, o driverOptions) (*openDriver, error) {
	// LVM acts only on objects with its own system ID: one ID per state directory.
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
		return nil, usage(errors.New("--device and --file-size are mutually exclusive"))
	case size > 0:
		node.Files = []lvm.File{{Path: filepath.Join(o.state, "disk"), SizeBytes: size}}
	case len(o.lvm.devices) == 0:
		return nil, usage(errors.New("--device or --file-size is required"))
	}
	driver, err := lvm.New(ctx, lvm.Config{
		DriverName: o.name, Nodes: []lvm.NodeConfig{node}, NodeAttaches: o.nodeAttaches, MountGroup: o.mountGroup,
	})
	if errors.Is(err, lvm2.ErrInUse) {
		return nil, fmt.Errorf("--state: %w: a running driver uses it", err)
	}
	if err != nil {
		return nil, err
	}
	return openBlocks(driver.Driver, o, driver.Close)
}

// parseBytes parses the size given by a flag, and returns 0 for an empty text.
func parseBytes(flag, text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	size, err := resource.ParseQuantity(text)
	if err != nil || size.Sign() <= 0 {
		return 0, usage(fmt.Errorf("invalid %s %q: want a size, such as 20Gi", flag, text))
	}
	return size.Value(), nil
}
