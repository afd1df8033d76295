package flexvolume

import (
	"context"
	"errors"
	"fmt"
	"path"

	"k8s.io/apimachinery/pkg/types"
	utilstrings "k8s.io/utils/strings"

	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sim"
)

// Config configures the plugins of one process.
type Config struct {
	Caller sim.Caller // each run of a program leaves its process
	Run    Runner     // nil: Exec

	// For a kubelet.
	Root string // the kubelet's root directory
	FS   nodefs.FS
}

// A plugin is the plugin of one program, for one process.
//
// Upstream: pkg/volume/flexvolume flexVolumePlugin (v1.36).
type plugin struct {
	cfg           Config
	program, name string
	unsupported   map[string]bool // calls that the program does not support
}

// attachable is the plugin of a program that attaches volumes.
//
// Upstream: pkg/volume/flexvolume flexVolumeAttachablePlugin (v1.36).
type attachable struct{ *plugin }

var (
	_ plugins.Mounter       = (*plugin)(nil)
	_ plugins.Reconstructor = (*plugin)(nil)
	_ plugins.Attacher      = attachable{}
	_ plugins.DeviceMounter = attachable{}
)

// New asks a program for its capabilities and returns its plugin. The plugin is a plugins.Mounter.
// Unless the program reports that it does not attach, it is also a plugins.Attacher and a
// plugins.DeviceMounter. Call New, and the plugin, only in tasks of one process.
//
// Upstream: pkg/volume/flexvolume NewFlexVolumePlugin (v1.36).
func New(ctx context.Context, cfg Config, program, name string) (plugins.Plugin, error) {
	if cfg.Run == nil {
		cfg.Run = Exec
	}
	p := &plugin{cfg: cfg, program: program, name: name, unsupported: map[string]bool{}}
	a, err := p.call(ctx, "", callInit)
	if err != nil {
		return nil, fmt.Errorf("flexvolume driver %s: %w", name, err)
	}
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

// VolumeName returns the name of the PersistentVolume, or of the inline volume.
//
// Differs: upstream calls the program (getvolumename) and ignores the answer.
//
// Upstream: pkg/volume/flexvolume GetVolumeName (v1.36).
func (p *plugin) VolumeName(spec *plugins.Spec) (string, error) {
	if volumeOf(spec) == nil {
		return "", errNotFlex
	}
	return spec.Name(), nil
}

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
	return path.Join(p.cfg.Root, "plugins", "kubernetes.io/flexvolume", p.name, "mounts", name), err
}

// MountPath returns pods/<uid>/volumes/<vendor~driver>/<volume> below the kubelet's root.
func (p *plugin) MountPath(spec *plugins.Spec, pod types.UID) string {
	return p.mountPath(spec.Name(), pod)
}

func (p *plugin) mountPath(specName string, pod types.UID) string {
	return path.Join(p.cfg.Root, "pods", string(pod), "volumes", utilstrings.EscapeQualifiedName(p.name), specName)
}
