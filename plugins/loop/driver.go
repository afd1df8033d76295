package loop

import (
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

	"github.com/container-storage-interface/spec/lib/go/csi"
	mountutils "k8s.io/mount-utils"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/volsim/volsim/nodefs"
	"github.com/volsim/volsim/nodefs/loopdev"
	"github.com/volsim/volsim/plugins/csireq"
)

const (
	// DriverName is the driver's name when Config leaves it out.
	DriverName = "loop.csi.volsim.dev"
	// DeviceKey is the key in the publish context under which the node service
	// expects the device node, as the controller service returned it.
	DeviceKey = "devicePath"

	driverVersion  = "0.1.0"
	runIDLengthMax = 24
)

// Config says where a Driver keeps its volumes.
type Config struct {
	// DriverName is the name that storage classes use; empty is DriverName.
	DriverName string
	// Dir holds the backing files, the driver's alone; made when missing.
	Dir string
	// RunID is written on every device: at most 24 of the characters a-z, A-Z,
	// 0-9, ".", "_" and "-". Empty is a digest of Dir.
	RunID string
}

// Driver is a CSI driver on loop devices. Everything may be called
// concurrently; calls for one volume wait for one another. Make one with New.
type Driver struct {
	name  string
	dir   string // without symbolic links, as the kernel reports backing files
	runID string
	offer csireq.Offer
	locks volumeLocks

	mu    sync.Mutex        // guards nodes
	nodes map[string]string // key in a mark to node id, for those that Node was called for
}

// New returns a driver for the volumes in cfg.Dir, those there already
// included. It does not check whether devices can be used; see Probe.
func New(cfg Config) (*Driver, error) {
	if !filepath.IsAbs(cfg.Dir) {
		return nil, fmt.Errorf("loop: Dir %q must be an absolute path", cfg.Dir)
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("loop: make Dir: %w", err)
	}
	dir, err := filepath.EvalSymlinks(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("loop: resolve Dir: %w", err)
	}
	d := &Driver{
		name: cfg.DriverName, dir: dir, runID: cfg.RunID,
		offer: csireq.Offer{FSTypes: fsTypes(), Block: true},
		nodes: map[string]string{},
	}
	if d.name == "" {
		d.name = DriverName
	}
	if d.runID == "" {
		d.runID = digest(dir, nodeKeyDigits)
	}
	if len(d.runID) > runIDLengthMax || strings.Trim(d.runID, runIDCharacters) != "" {
		return nil, fmt.Errorf("loop: RunID %q must be at most %d of a-z A-Z 0-9 . _ -", d.runID, runIDLengthMax)
	}
	return d, nil
}

// Identity returns the identity service; its Probe is the package's.
func (d *Driver) Identity() csi.IdentityServer {
	return &csireq.Identity{Name: d.name, Version: driverVersion, Usable: Probe}
}

// Controller returns the controller service.
func (d *Driver) Controller() csi.ControllerServer { return &controller{driver: d} }

// Node returns the node service of one node and makes the node known: volumes
// can be attached to it from now on. Call it again whenever the node's driver
// starts again.
func (d *Driver) Node(nodeID string, fs *nodefs.Real) csi.NodeServer {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.nodes[digest(nodeID, nodeKeyDigits)] = nodeID
	return &nodeService{driver: d, id: nodeID, fs: fs}
}

// Close detaches every loop device over a volume of Dir, whoever attached it,
// and removes all volumes. Unmount first (nodefs.Real.UnmountAll): a mounted
// volume stays, and the error names it. The directory itself stays.
func (d *Driver) Close() error {
	loops, err := loopdev.List(d.isImage)
	if err != nil {
		return err
	}
	var failed []error
	busy := map[string]bool{}
	for _, each := range loops {
		if err := d.detach(context.Background(), each); err != nil { //nolint:forbidigo // the wait is bounded
			failed = append(failed, err)
			busy[each.Backing] = true
		}
	}
	for _, pattern := range []string{"vol-*" + imageSuffix, "vol-*" + draftSuffix} {
		files, err := filepath.Glob(filepath.Join(globEscape(d.dir), pattern))
		failed = append(failed, err)
		for _, file := range files {
			if !busy[file] && (d.isImage(file) || strings.HasSuffix(file, draftSuffix)) {
				failed = append(failed, os.Remove(file))
			}
		}
	}
	return errors.Join(failed...)
}

// detach unplugs a device, unless it is mounted: FailedPrecondition.
func (d *Driver) detach(ctx context.Context, bound loopdev.Bound) error {
	places, err := mountPoints(bound.Device)
	if err != nil {
		return d.status(err)
	}
	if len(places) > 0 {
		return status.Errorf(codes.FailedPrecondition, "%s (%s) is mounted at %s: unmount it first",
			bound.Device, filepath.Base(bound.Backing), strings.Join(places, ", "))
	}
	if err := loopdev.Unbind(ctx, bound); err != nil {
		return d.status(fmt.Errorf("detach %s (%s): %w", bound.Device, filepath.Base(bound.Backing), err))
	}
	return nil
}

// status turns an error of the machine into a status with a message that says
// what to do, where that is known. A status stays what it is.
func (d *Driver) status(err error) error {
	var mountError mountutils.MountError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, loopdev.ErrNone):
		return status.Errorf(codes.ResourceExhausted,
			"%v: detach unused devices (losetup -a lists them, losetup -d detaches) or load the loop module with a higher max_loop", err)
	case errors.Is(err, syscall.ENOSPC):
		return d.full()
	case errors.Is(err, loopdev.ErrInUse), errors.Is(err, loopdev.ErrLingers):
		return status.Error(codes.FailedPrecondition, err.Error())
	case errors.As(err, &mountError) && d.isFull():
		return d.full()
	case errors.As(err, &mountError) && (mountError.Type == mountutils.UnformattedReadOnly || mountError.Type == mountutils.FilesystemMismatch):
		return status.Error(codes.FailedPrecondition, err.Error())
	}
	return csireq.PathStatus(err)
}

func (d *Driver) full() error {
	return status.Errorf(codes.ResourceExhausted, "no space left in %s: free some there or give the driver another Dir", d.dir)
}

// isFull tells whether Dir has so little space that this explains why a tool
// failed: the tools' own words for it differ.
func (d *Driver) isFull() bool {
	free, err := freeBytes(d.dir)
	return err == nil && free < fullBytes
}

// digest returns the first digits of the SHA-256 of text in hex.
func digest(text string, digits int) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])[:digits]
}

// globEscape makes filepath.Glob take text literally.
func globEscape(text string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(text)
}
