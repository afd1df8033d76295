package flexvolume

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	utilstrings "k8s.io/utils/strings"

	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sim"
)

// Dir is the directory of drivers on a machine: the program of VENDOR/DRIVER is
// VENDOR~DRIVER/DRIVER there.
//
// Upstream: pkg/kubelet/apis/config/v1beta1 and cmd/kube-controller-manager
// --flex-volume-plugin-dir (v1.36).
const Dir = "/usr/libexec/kubernetes/kubelet-plugins/volume/exec"

// runTimeout is the default of Config.Timeout.
const runTimeout = 2 * time.Minute

// Config configures the plugins of one process.
type Config struct {
	Process *sim.Process
	FS      nodefs.FS // the machine's disk: it has the programs and, for a kubelet, the mounts
	// Run runs a program and returns its output. The error says that it cannot be run, does not end
	// in time, or exits with a failure. nil: FS.Run.
	Run func(ctx context.Context, program string, args ...string) ([]byte, error)
	// Timeout is how long a run may take; then the program is killed. 0 means two minutes.
	Timeout time.Duration

	// For a kubelet.
	Root   string               // the kubelet's directory on FS
	Client kubernetes.Interface // reads secrets; nil: a volume with a secret is not mounted
}

// A plugin is the plugin of one program, for one process.
//
// Upstream: pkg/volume/flexvolume flexVolumePlugin (v1.36).
type plugin struct {
	cfg           Config
	program, name string
	capabilities  capabilities
	unsupported   map[string]bool     // calls that the program does not support
	detached      map[attachment]bool // as Verify saw last
}

// attachable is the plugin of a program that attaches volumes.
//
// Upstream: pkg/volume/flexvolume flexVolumeAttachablePlugin (v1.36).
type attachable struct{ *plugin }

var (
	_ plugins.Mounter             = (*plugin)(nil)
	_ plugins.MountOptioner       = (*plugin)(nil)
	_ plugins.Reconstructor       = (*plugin)(nil)
	_ plugins.NodeExpander        = (*plugin)(nil)
	_ plugins.StatsProvider       = (*plugin)(nil)
	_ plugins.Attacher            = attachable{}
	_ plugins.DeviceMounter       = attachable{}
	_ plugins.Verifier            = attachable{}
	_ plugins.DeviceReconstructor = attachable{}
)

// New asks a program for its capabilities and returns its plugin. The plugin is a plugins.Mounter.
// Unless the program reports that it does not attach, it is also a plugins.Attacher and a
// plugins.DeviceMounter. Call New, and the plugin, only in tasks of one process.
//
// Upstream: pkg/volume/flexvolume NewFlexVolumePlugin (v1.36).
func New(ctx context.Context, cfg Config, program, name string) (plugins.Plugin, error) {
	if cfg.Run == nil {
		cfg.Run = cfg.FS.Run
	}
	cfg.Timeout = cmp.Or(cfg.Timeout, runTimeout)
	p := &plugin{cfg: cfg, program: program, name: name, unsupported: map[string]bool{}, detached: map[attachment]bool{}}
	a, err := p.call(ctx, "", callInit)
	if err != nil {
		return nil, fmt.Errorf("flexvolume driver %s: %w", name, err)
	}
	p.capabilities = a.Capabilities
	if a.Capabilities.Attach {
		return attachable{p}, nil
	}
	return p, nil
}

var errNotFlex = errors.New("not a flex volume")

// Name returns the driver's name.
func (p *plugin) Name() string { return p.name }

// CanSupport reports whether the volume is of this driver.
func (p *plugin) CanSupport(spec *plugins.Spec) bool {
	v := volumeOf(spec)
	return v != nil && v.driver == p.name
}

// VolumeName returns the name of the PersistentVolume, or of the inline volume. It does not call
// the program; see getVolumeName.
func (p *plugin) VolumeName(spec *plugins.Spec) (string, error) {
	if volumeOf(spec) == nil {
		return "", errNotFlex
	}
	return spec.Name(), nil
}

// getVolumeName makes the program name the volume. The name is not used, but an error is.
//
// Differs: upstream calls the program whenever it needs the name, also to decide what there is to
// do. Here a call precedes each attach and each mount for the node.
//
// Upstream: pkg/volume/flexvolume GetVolumeName (v1.36).
func (p *plugin) getVolumeName(ctx context.Context, spec *plugins.Spec, options string) error {
	_, err := p.call(ctx, spec.Name(), callGetVolumeName, options)
	return transient(ignoreNotSupported(err))
}

// SupportsMountOption reports whether volumes can have mount options: they cannot.
//
// Upstream: pkg/volume/flexvolume SupportsMountOption (v1.36).
func (p *plugin) SupportsMountOption() bool { return false }

// CanAttach returns true.
func (attachable) CanAttach(*plugins.Spec) (bool, error) { return true, nil }

// Attach makes the program attach the volume. If the program does not support the call, there is
// nothing to do.
//
// Upstream: pkg/volume/flexvolume flexVolumeAttacher.Attach (v1.36).
func (p attachable) Attach(ctx context.Context, spec *plugins.Spec, node types.NodeName) (string, error) {
	options, err := driverOptions(spec, nil)
	if err != nil {
		return "", err
	}
	if err := p.getVolumeName(ctx, spec, options); err != nil {
		return "", err
	}
	delete(p.detached, attachment{spec.Name(), node})
	a, err := p.call(ctx, spec.Name(), callAttach, options, string(node))
	if errors.Is(err, errNotSupported) {
		return "", nil
	}
	return a.Device, err
}

// Detach makes the program detach the volume.
//
// Upstream: pkg/volume/flexvolume flexVolumeDetacher.Detach (v1.36).
func (p attachable) Detach(ctx context.Context, volumeName string, node types.NodeName) error {
	delete(p.detached, attachment{volumeName, node})
	_, err := p.call(ctx, volumeName, callDetach, volumeName, string(node))
	if errors.Is(err, errNotSupported) {
		return nil
	}
	return err
}

// CanDeviceMount returns true.
func (attachable) CanDeviceMount(*plugins.Spec) (bool, error) { return true, nil }

// DeviceMountPath returns plugins/kubernetes.io/flexvolume/<driver>/mounts/<volume> below the
// kubelet's root.
//
// Upstream: pkg/volume/flexvolume getDeviceMountPath (v1.36).
func (p *plugin) DeviceMountPath(spec *plugins.Spec) (string, error) {
	name, err := p.VolumeName(spec)
	return path.Join(p.devicesDir(), name), err
}

func (p *plugin) devicesDir() string {
	return path.Join(p.cfg.Root, "plugins", "kubernetes.io/flexvolume", p.name, "mounts")
}

// MountPath returns pods/<uid>/volumes/<vendor~driver>/<volume> below the kubelet's root.
func (p *plugin) MountPath(spec *plugins.Spec, pod types.UID) string {
	return p.mountPath(spec.Name(), pod)
}

func (p *plugin) mountPath(specName string, pod types.UID) string {
	return path.Join(p.cfg.Root, "pods", string(pod), "volumes", utilstrings.EscapeQualifiedName(p.name), specName)
}
