package loop

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/volsim/volsim/internal/blockcsi"
	"github.com/volsim/volsim/internal/blockdev"
	"github.com/volsim/volsim/internal/csireq"
	"github.com/volsim/volsim/internal/loopdev"
)

const (
	// DriverName is the default of Config.DriverName.
	DriverName = "loop.csi.volsim.dev"

	driverVersion  = "0.1.0"
	runIDLengthMax = 24
)

// Config configures a Driver.
type Config struct {
	// DriverName is the name that storage classes use; empty means the constant DriverName.
	DriverName string
	// Dir is the directory of the backing files. It belongs to the driver alone and is created if
	// missing.
	Dir string
	// AnyParameters accepts storage class parameters that this driver does not know. It is for a
	// driver that replaces another one under its name.
	AnyParameters bool
	// ReserveBytes is the space in bytes of Dir's file system that is kept free. No volume is
	// created, copied or grown into it. Writes to sparse volumes are not limited.
	ReserveBytes int64
	// Node is the only node that can use the volumes; empty means any. It needs a TopologyKey.
	Node string
	// TopologyKey is the topology key whose value is a node's name; empty means no topology.
	// NodeAttaches makes the node service attach volumes when it stages them, instead of the
	// controller service. MountGroup makes the node service apply a pod's group to volumes,
	// instead of the kubelet.
	TopologyKey              string
	NodeAttaches, MountGroup bool
	// RunID is written on every device: at most 24 of the characters a-z, A-Z, 0-9, ".", "_" and
	// "-". Empty means a digest of Dir.
	RunID string
}

// Driver is a CSI driver on loop devices. All methods and services may be called concurrently;
// calls for one volume are serialized. Create one with New.
type Driver struct {
	*blockcsi.Driver
	pool *pool
}

// pool implements blockcsi.Pool on a directory of files.
type pool struct {
	dir                string // without symbolic links, as the kernel reports backing files
	runID              string
	node               string // the only node that can use the volumes; "" means any
	reserve            int64
	persistAttachments bool // attachments are recorded
	attachments        blockcsi.AttachmentRecords
	// reflink means that files in dir can share blocks, directIO that they support direct I/O.
	reflink, directIO bool
	onStep            func(what string) // for tests: called where the process may be killed; may be nil

	mu       sync.Mutex        // guards the fields below
	nodes    map[string]string // key in a mark to node ID, of registered nodes
	devices  map[string]string // volume ID to the last known device
	reserved int64             // bytes of dir that running calls will allocate
}

var _ blockcsi.Pool = (*pool)(nil)

// New returns a driver for the volumes in cfg.Dir, including existing ones. It returns an error if a
// record there is of another version, and changes nothing. It does not check whether devices can be
// used; see Probe.
func New(cfg Config) (*Driver, error) {
	if !filepath.IsAbs(cfg.Dir) {
		return nil, fmt.Errorf("loop: Dir %q must be an absolute path", cfg.Dir)
	}
	if cfg.ReserveBytes < 0 {
		return nil, fmt.Errorf("loop: ReserveBytes %d is negative", cfg.ReserveBytes)
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("loop: create Dir: %w", err)
	}
	dir, err := filepath.EvalSymlinks(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("loop: resolve Dir: %w", err)
	}
	p := &pool{
		dir: dir, runID: cfg.RunID, node: cfg.Node, reserve: cfg.ReserveBytes,
		attachments: blockcsi.AttachmentRecords{Dir: dir},
		nodes:       map[string]string{}, devices: map[string]string{},
	}
	p.persistAttachments = !cfg.NodeAttaches // the node service attaches again when it stages
	p.reflink, p.directIO = probeFileSystem(dir)
	if p.runID == "" {
		p.runID = digest(dir, nodeKeyDigits)
	}
	if len(p.runID) > runIDLengthMax || strings.Trim(p.runID, runIDCharacters) != "" {
		return nil, fmt.Errorf("loop: RunID %q must be at most %d of a-z A-Z 0-9 . _ -", p.runID, runIDLengthMax)
	}
	if err := p.checkRecords(); err != nil {
		return nil, fmt.Errorf("loop: %w", err)
	}
	driver, err := blockcsi.New(blockcsi.Config{
		Name: cmp.Or(cfg.DriverName, DriverName), Version: driverVersion, Probe: Probe,
		Pools: []blockcsi.Pool{p}, AnyParameters: cfg.AnyParameters,
		TopologyKey: cfg.TopologyKey, NodeAttaches: cfg.NodeAttaches, MountGroup: cfg.MountGroup,
	})
	if err != nil {
		return nil, err
	}
	return &Driver{Driver: driver, pool: p}, nil
}

// Close detaches every loop device over a volume of Dir, whichever process attached it, and removes
// all volumes. Unmount first (nodefs.Real.UnmountAll): a mounted volume stays, and the error names
// it. The directory stays.
func (d *Driver) Close() error { return d.pool.removeAll() }

// Reset removes the devices of a node's volumes, as a restart of the node's machine does. The
// volumes stay attached and get new devices when they are staged. Unmount first: a mounted device
// stays, and the error names it.
func (d *Driver) Reset(ctx context.Context, node string) error { return d.pool.reset(ctx, node) }

// removeAll implements Driver.Close.
func (p *pool) removeAll() error {
	loops, err := loopdev.List(p.isImage)
	if err != nil {
		return err
	}
	var failed []error
	busy := map[string]bool{}
	for _, each := range loops {
		if err := p.detach(context.Background(), each); err != nil { //nolint:forbidigo // the wait is bounded
			failed = append(failed, err)
			busy[each.BackingFile] = true
		}
	}
	ids, err := p.ids()
	failed = append(failed, err)
	for _, id := range ids {
		if !busy[p.image(id)] {
			failed = append(failed, p.removeFiles(id))
		}
	}
	return errors.Join(failed...)
}

// detach unbinds a device. It returns FailedPrecondition if the device is mounted.
func (p *pool) detach(ctx context.Context, bound loopdev.Binding) error {
	places, err := blockdev.MountPoints(bound.Device)
	if err != nil {
		return p.status(err)
	}
	if len(places) > 0 {
		return status.Errorf(codes.FailedPrecondition, "%s (%s) is mounted at %s: unmount it first",
			bound.Device, filepath.Base(bound.BackingFile), strings.Join(places, ", "))
	}
	if err := loopdev.Unbind(ctx, bound); err != nil {
		return p.status(fmt.Errorf("detach %s (%s): %w", bound.Device, filepath.Base(bound.BackingFile), err))
	}
	p.step("unbound")
	return nil
}

// status converts an error to a status, with advice where possible. A status stays unchanged.
func (p *pool) status(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, loopdev.ErrNone):
		return status.Errorf(codes.ResourceExhausted,
			"%v: detach unused devices (losetup -a lists them, losetup -d detaches one) "+
				"or load the loop module with a higher max_loop", err)
	case errors.Is(err, syscall.ENOSPC):
		return p.noSpaceError(0, 0)
	case errors.Is(err, loopdev.ErrInUse), errors.Is(err, loopdev.ErrStillOpen):
		return status.Error(codes.FailedPrecondition, err.Error())
	}
	return csireq.PathStatus(err)
}

// step marks a point where the process may be killed.
func (p *pool) step(what string) {
	if p.onStep != nil {
		p.onStep(what)
	}
}

// digest returns the first digits of the hexadecimal SHA-256 of text.
func digest(text string, digits int) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])[:digits]
}
