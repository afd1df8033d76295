package flexvolume

import (
	"context"
	"errors"
	"fmt"
	"path"

	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sim"
)

// Config is what New must be told of the process.
type Config struct {
	Caller sim.Caller // whom each run of a program leaves
	Run    Runner     // nil: Exec

	// For a kubelet.
	Root string // the kubelet's root directory
	FS   nodefs.FS
}

// plugin is the plugin of one program, for one process.
//
// Upstream: pkg/volume/flexvolume flexVolumePlugin (v1.36).
type plugin struct {
	cfg           Config
	program, name string
	unsupported   map[string]bool // calls that the program does not know
}

// attachable is the plugin of a program that attaches.
//
// Upstream: pkg/volume/flexvolume flexVolumeAttachablePlugin (v1.36).
type attachable struct{ *plugin }

var (
	_ plugins.Mounter       = (*plugin)(nil)
	_ plugins.Reconstructor = (*plugin)(nil)
	_ plugins.Attacher      = attachable{}
	_ plugins.DeviceMounter = attachable{}
)

// New asks a program what it can do, and returns its plugin, which is a plugins.Mounter and, unless the program says that it
// does not attach, a plugins.Attacher and a plugins.DeviceMounter. It is to be used in strands of one component only, as is
// the plugin.
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

// Name is the driver's name.
func (p *plugin) Name() string { return p.name }

// CanSupport tells whether the volume is of this driver.
func (p *plugin) CanSupport(spec *plugins.Spec) bool {
	v := volumeOf(spec)
	return v != nil && v.driver == p.name
}

// VolumeName is the volume's name in the pod, or the PersistentVolume's.
//
// Differs: upstream asks the program (getvolumename), and does not use the answer.
//
// Upstream: pkg/volume/flexvolume GetVolumeName (v1.36).
func (p *plugin) VolumeName(spec *plugins.Spec) (string, error) {
	if volumeOf(spec) == nil {
		return "", errNotFlex
	}
	return spec.Name(), nil
}

// CanAttach is true.
func (attachable) CanAttach(*plugins.Spec) (bool, error) { return true, nil }

// Attach has the program attach the volume. One that knows no such call has nothing to do.
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

// Detach has the program detach the volume.
//
// Upstream: pkg/volume/flexvolume flexVolumeDetacher.Detach (v1.36).
func (p attachable) Detach(ctx context.Context, volumeName string, node types.NodeName) error {
	_, err := p.call(ctx, volumeName, callDetach, volumeName, string(node))
	if errors.Is(err, errNotSupported) {
		return nil
	}
	return err
}

// CanDeviceMount is true.
func (attachable) CanDeviceMount(*plugins.Spec) (bool, error) { return true, nil }

// DeviceMountPath is plugins/kubernetes.io/flexvolume/<driver>/mounts/<volume> below the kubelet's root.
//
// Upstream: pkg/volume/flexvolume getDeviceMountPath (v1.36).
func (p *plugin) DeviceMountPath(spec *plugins.Spec) (string, error) {
	name, err := p.VolumeName(spec)
	return path.Join(p.cfg.Root, "plugins", "kubernetes.io/flexvolume", p.name, "mounts", name), err
}

// MountPath is pods/<uid>/volumes/<vendor~driver>/<volume> below the kubelet's root.
func (p *plugin) MountPath(specName string, pod types.UID) string {
	return path.Join(p.cfg.Root, "pods", string(pod), "volumes", plugins.EscapePluginName(p.name), specName)
}
