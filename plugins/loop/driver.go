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

	"github.com/volsim/volsim/internal/blockdev"
	"github.com/volsim/volsim/internal/loopdev"
	"github.com/volsim/volsim/plugins/blockcsi"
	"github.com/volsim/volsim/plugins/internal/csireq"
)

const (
	// DriverName is the driver's name when Config leaves it out.
	DriverName = "loop.csi.volsim.dev"
	// DeviceKey is blockcsi.DeviceKey.
	DeviceKey = blockcsi.DeviceKey

	driverVersion  = "0.1.0"
	runIDLengthMax = 24
)

// Config says where a Driver keeps its volumes.
type Config struct {
	// DriverName is the name that storage classes use; empty is DriverName.
	DriverName string
	// Dir holds the backing files, the driver's alone; made when missing.
	Dir string
	// AnyParameters accepts parameters of storage classes that are another
	// driver's, in whose name this one stands in.
	AnyParameters bool
	// ReserveBytes is how much of Dir's file system is left to others: no volume
	// is made, copied or grown into it. What is written to sparse volumes is not held back.
	ReserveBytes int64
	// Node is the node that alone can use the volumes, as one of several machines
	// is; empty is any. It needs a TopologyKey.
	Node string
	// TopologyKey, NodeAttaches and MountGroup are blockcsi.Config's.
	TopologyKey              string
	NodeAttaches, MountGroup bool
	// RunID is written on every device: at most 24 of the characters a-z, A-Z,
	// 0-9, ".", "_" and "-". Empty is a digest of Dir.
	RunID string
}

// Driver is a CSI driver on loop devices. Everything may be called
// concurrently; calls for one volume wait for one another. Make one with New.
type Driver struct {
	*blockcsi.Driver
	pool *pool
}

// pool is the directory of the volumes' files.
type pool struct {
	dir                string // without symbolic links, as the kernel reports backing files
	runID              string
	node               string // that alone can use the volumes; "" is any
	reserve            int64
	persistAttachments bool // that a volume is attached is noted
	attachments        blockcsi.AttachmentRecords
	// reflink says that files in dir can share blocks, directIO that they can be
	// read and written past the kernel's cache.
	reflink, directIO bool
	onStep            func(what string) // for tests: where the process may be killed; nil is nothing

	mu       sync.Mutex        // guards what follows
	nodes    map[string]string // key in a mark to node id, for those that are served
	devices  map[string]string // volume id to the device that it was seen attached as
	reserved int64             // bytes of dir that calls are about to take
}

var _ blockcsi.Pool = (*pool)(nil)

// New returns a driver for the volumes in cfg.Dir, those there already
// included. It does not check whether devices can be used; see Probe.
func New(cfg Config) (*Driver, error) {
	if !filepath.IsAbs(cfg.Dir) {
		return nil, fmt.Errorf("loop: Dir %q must be an absolute path", cfg.Dir)
	}
	if cfg.ReserveBytes < 0 {
		return nil, fmt.Errorf("loop: ReserveBytes %d is negative", cfg.ReserveBytes)
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("loop: make Dir: %w", err)
	}
	dir, err := filepath.EvalSymlinks(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("loop: resolve Dir: %w", err)
	}
	p := &pool{
		dir: dir, runID: cfg.RunID, node: cfg.Node, reserve: cfg.ReserveBytes, attachments: blockcsi.AttachmentRecords{Dir: dir},
		nodes: map[string]string{}, devices: map[string]string{},
	}
	p.persistAttachments = !cfg.NodeAttaches // what a node's service attaches as it stages it, it attaches again
	p.reflink, p.directIO = probeFileSystem(dir)
	if p.runID == "" {
		p.runID = digest(dir, nodeKeyDigits)
	}
	if len(p.runID) > runIDLengthMax || strings.Trim(p.runID, runIDCharacters) != "" {
		return nil, fmt.Errorf("loop: RunID %q must be at most %d of a-z A-Z 0-9 . _ -", p.runID, runIDLengthMax)
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

// Close detaches every loop device over a volume of Dir, whoever attached it,
// and removes all volumes. Unmount first (nodefs.Real.UnmountAll): a mounted
// volume stays, and the error names it. The directory itself stays.
func (d *Driver) Close() error { return d.pool.removeAll() }

// Reset takes the devices of a node's volumes away, as it is when the node's machine
// was started again: the volumes stay attached, and have devices again once they
// are staged. Unmount first; what is mounted stays, and the error names it.
func (d *Driver) Reset(ctx context.Context, node string) error { return d.pool.reset(ctx, node) }

// removeAll is Driver.Close.
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

// detach unplugs a device, unless it is mounted: FailedPrecondition.
func (p *pool) detach(ctx context.Context, bound loopdev.Bound) error {
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

// status turns an error of the machine into a status with a message that says
// what to do, where that is known. A status stays what it is.
func (p *pool) status(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, loopdev.ErrNone):
		return status.Errorf(codes.ResourceExhausted,
			"%v: detach unused devices (losetup -a lists them, losetup -d detaches) or load the loop module with a higher max_loop", err)
	case errors.Is(err, syscall.ENOSPC):
		return p.noSpaceError(0, 0)
	case errors.Is(err, loopdev.ErrInUse), errors.Is(err, loopdev.ErrStillOpen):
		return status.Error(codes.FailedPrecondition, err.Error())
	}
	return csireq.PathStatus(err)
}

// step is where the process may be killed.
func (p *pool) step(what string) {
	if p.onStep != nil {
		p.onStep(what)
	}
}

// digest returns the first digits of the SHA-256 of text in hex.
func digest(text string, digits int) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])[:digits]
}
