package csi

import (
	"context"
	"errors"
	"fmt"
	"time"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/version"
	coreinformers "k8s.io/client-go/informers/core/v1"
	storageinformers "k8s.io/client-go/informers/storage/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/volsim/volsim/internal/podtokens"
	"github.com/volsim/volsim/internal/volumehealth"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sim"
)

// attachTimeout bounds how long Attach and Detach wait for the attacher.
//
// Upstream: pkg/volume/csi csiTimeout.
const attachTimeout = 2 * time.Minute

// Config configures a Plugin.
type Config struct {
	Process    *sim.Process
	Client     kubernetes.Interface
	CSIDrivers storageinformers.CSIDriverInformer

	// For the attach/detach controller; nil for a kubelet.
	Attachments       storageinformers.VolumeAttachmentInformer
	PersistentVolumes coreinformers.PersistentVolumeInformer

	// For a kubelet.
	NodeName types.NodeName
	Root     string    // the kubelet's root directory
	FS       nodefs.FS // of the node
	// Dial returns a connection to a registered driver at the socket where it serves. It makes no
	// calls. The connection's calls must leave the process; see Suspend.
	Dial func(driver, endpoint string) (grpc.ClientConnInterface, error)
	// VolumeHealth makes VolumeStats ask drivers about the health of volumes, as upstream's feature gate
	// CSIVolumeHealth does.
	VolumeHealth bool
}

// Plugin is the volume plugin "kubernetes.io/csi" of one process.
type Plugin struct {
	cfg               Config
	drivers           map[string]*nodeDriver // registered with this node
	driverInfo        cache.Store            // of CSIDrivers
	attachments       cache.Store            // of VolumeAttachments; nil for a kubelet
	volumes           cache.Store            // of PersistentVolumes; nil for a kubelet
	attachmentSignals map[string]*sim.Signal // of VolumeAttachments with waiters, by name
	driverLocks       map[string]*driverLock // by driver
	nodeUID           types.UID              // of the Node, as last seen; "": never seen
	tokens            *podtokens.Tokens      // of pods for which this kubelet publishes volumes
}

// A nodeDriver is a driver that is registered with the kubelet.
type nodeDriver struct {
	client      csispec.NodeClient
	conn        grpc.ClientConnInterface // of client
	stages      bool                     // STAGE_UNSTAGE_VOLUME
	multiWriter bool                     // SINGLE_NODE_MULTI_WRITER
	mountGroup  bool                     // VOLUME_MOUNT_GROUP
	volumeStats bool                     // GET_VOLUME_STATS
	condition   bool                     // VOLUME_CONDITION, of CSI 1.12 and earlier
	health      bool                     // GET_VOLUME_HEALTH
	expands     bool                     // EXPAND_VOLUME

	socket    string                   // the registration socket
	version   *version.Version         // of CSI
	published *storagev1.CSINodeDriver // its entry in the node's CSINode; nil: none yet
}

var (
	_ plugins.Plugin             = (*Plugin)(nil)
	_ plugins.Attacher           = (*Plugin)(nil)
	_ plugins.Verifier           = (*Plugin)(nil)
	_ plugins.Limiter            = (*Plugin)(nil)
	_ plugins.DeviceMounter      = (*Plugin)(nil)
	_ plugins.Mounter            = (*Plugin)(nil)
	_ plugins.Remounter          = (*Plugin)(nil)
	_ plugins.MountOptioner      = (*Plugin)(nil)
	_ plugins.SELinuxMounter     = (*Plugin)(nil)
	_ plugins.Reconstructor      = (*Plugin)(nil)
	_ plugins.StatsProvider      = (*Plugin)(nil)
	_ plugins.NodeExpander       = (*Plugin)(nil)
	_ plugins.BlockMapper        = (*Plugin)(nil)
	_ plugins.BlockPaths         = (*Plugin)(nil)
	_ plugins.BlockReconstructor = (*Plugin)(nil)
)

// New returns the plugin of one process.
func New(cfg Config) *Plugin {
	p := &Plugin{
		cfg: cfg, drivers: map[string]*nodeDriver{}, attachmentSignals: map[string]*sim.Signal{},
		driverLocks: map[string]*driverLock{}, tokens: podtokens.New(cfg.Process, cfg.Client),
		driverInfo: cfg.CSIDrivers.Informer().GetStore(),
	}
	if cfg.Attachments != nil {
		p.attachments = cfg.Attachments.Informer().GetStore()
		p.watchAttachments(cfg.Attachments.Informer())
	}
	if cfg.PersistentVolumes != nil {
		p.volumes = cfg.PersistentVolumes.Informer().GetStore()
	}
	return p
}

// Name returns "kubernetes.io/csi".
func (p *Plugin) Name() string { return PluginName }

// CanSupport reports whether the volume is a PersistentVolume or an inline volume of a CSI driver.
func (p *Plugin) CanSupport(spec *plugins.Spec) bool {
	return spec.PersistentVolume != nil && spec.PersistentVolume.Spec.CSI != nil || inlineSource(spec) != nil
}

// VolumeName returns driver^handle. An inline volume has no name: it belongs to one pod.
func (p *Plugin) VolumeName(spec *plugins.Spec) (string, error) {
	source, err := sourceOf(spec)
	if err != nil {
		return "", err
	}
	return VolumeName(source.Driver, source.VolumeHandle), nil
}

func sourceOf(spec *plugins.Spec) (*corev1.CSIPersistentVolumeSource, error) {
	if spec.PersistentVolume == nil || spec.PersistentVolume.Spec.CSI == nil {
		return nil, fmt.Errorf("volume %q is not a CSI PersistentVolume", spec.Name())
	}
	source := spec.PersistentVolume.Spec.CSI
	if source.Driver == "" || source.VolumeHandle == "" {
		return nil, fmt.Errorf("CSI PersistentVolume %q: driver or handle missing", spec.Name())
	}
	return source, nil
}

// SupportsMountOption reports whether the plugin accepts mount options: always true.
//
// Upstream: pkg/volume/csi csiPlugin.SupportsMountOption (v1.36).
func (p *Plugin) SupportsMountOption() bool { return true }

// RequiresRemount reports whether the volume is republished periodically, as requested by the
// driver's CSIDriver object.
//
// Upstream: pkg/volume/csi csiPlugin.RequiresRemount (v1.36).
func (p *Plugin) RequiresRemount(spec *plugins.Spec) bool {
	name, err := driverOf(spec)
	if err != nil {
		return false
	}
	driver, err := p.csiDriver(name)
	return err == nil && driver != nil && driver.Spec.RequiresRepublish != nil && *driver.Spec.RequiresRepublish
}

// csiDriver returns the CSIDriver object of a driver, or nil.
func (p *Plugin) csiDriver(name string) (*storagev1.CSIDriver, error) {
	object, found, err := p.driverInfo.GetByKey(name)
	if !found || err != nil {
		return nil, err
	}
	return object.(*storagev1.CSIDriver), nil
}

// errNoDriver is matched by the error for a driver that is not registered with the node.
var errNoDriver = errors.New("not found in the list of registered CSI drivers")

// driver returns a driver that is registered with this node. Its absence is transient: it may
// register later.
func (p *Plugin) driver(name string) (*nodeDriver, error) {
	d, ok := p.drivers[name]
	if !ok {
		return nil, &plugins.Error{Class: plugins.Transient, Err: fmt.Errorf("driver name %s %w", name, errNoDriver)}
	}
	return d, nil
}

// newNodeDriver asks a driver for its capabilities. conn must suspend (see Suspend).
//
// Differs: upstream asks for capabilities before every use; a driver's do not change while it runs.
func newNodeDriver(ctx context.Context, name string, conn grpc.ClientConnInterface) (*nodeDriver, error) {
	client := csispec.NewNodeClient(conn)
	caps, err := client.NodeGetCapabilities(ctx, &csispec.NodeGetCapabilitiesRequest{})
	if err != nil {
		return nil, fmt.Errorf("driver %s: NodeGetCapabilities: %w", name, err)
	}
	d := &nodeDriver{client: client, conn: conn}
	for _, c := range caps.GetCapabilities() {
		switch c.GetRpc().GetType() {
		case csispec.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME:
			d.stages = true
		case csispec.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER:
			d.multiWriter = true
		case csispec.NodeServiceCapability_RPC_VOLUME_MOUNT_GROUP:
			d.mountGroup = true
		case csispec.NodeServiceCapability_RPC_GET_VOLUME_STATS:
			d.volumeStats = true
		case volumehealth.NodeCapability:
			d.condition = true
		case volumehealth.NodeHealth:
			d.health = true
		case csispec.NodeServiceCapability_RPC_EXPAND_VOLUME:
			d.expands = true
		}
	}
	return d, nil
}
