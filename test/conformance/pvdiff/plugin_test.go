package pvdiff

import (
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	volerrors "k8s.io/cloud-provider/volume/errors"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/volume"
	"k8s.io/kubernetes/pkg/volume/util/recyclerclient"

	"github.com/volsim/volsim/plugins"
)

// inTree is the plugin that both controllers have. Its volumes are hostPath volumes; those of NFS are nobody's.
const inTree = "kubernetes.io/host-path"

// storage is what the plugin works on. It may be used concurrently.
type storage struct {
	mu      sync.Mutex
	made    map[string]bool    // guarded by mu: by name
	erased  map[types.UID]bool // guarded by mu: PersistentVolumes whose data was deleted
	outcome map[string]string  // guarded by mu: what comes of a call, by verb; "" is success
}

func newStorage() *storage {
	return &storage{made: map[string]bool{}, erased: map[types.UID]bool{}, outcome: map[string]string{}}
}

// inUse is what comes of deleting a volume that is in use.
var errInUse = errors.New("the disk is in use")

// may says whether a call is taken up at all.
func (s *storage) may(verb string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.outcome[verb] == "refused" {
		return fmt.Errorf("%s is not possible", verb)
	}
	return nil
}

// call makes a call. The UID is that of the PersistentVolume, if there is one.
func (s *storage) call(verb, name string, uid types.UID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.outcome[verb] {
	case "fails":
		return fmt.Errorf("%s failed", verb)
	case "in use":
		return errInUse
	}
	switch verb {
	case "provision":
		s.made[name] = true
	case "delete":
		delete(s.made, name)
		s.erased[uid] = true
	}
	return nil
}

// state is what there is in the storage, a line each.
func (s *storage) state() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var lines []string
	for name := range s.made {
		lines = append(lines, "storage holds "+name)
	}
	for uid := range s.erased {
		lines = append(lines, "storage erased "+string(uid))
	}
	return lines
}

// volumeFor is the volume that was made for a claim.
func volumeFor(name string, claim *corev1.PersistentVolumeClaim, policy corev1.PersistentVolumeReclaimPolicy, mountOptions []string) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
	v.Spec.AccessModes, v.Spec.Capacity = claim.Spec.AccessModes, claim.Spec.Resources.Requests
	v.Spec.VolumeMode, v.Spec.PersistentVolumeReclaimPolicy = claim.Spec.VolumeMode, policy
	v.Spec.MountOptions = mountOptions
	v.Spec.HostPath = &corev1.HostPathVolumeSource{Path: "/tmp/" + name}
	return v
}

// ourPlugin is the plugin for our controller. Its calls do not leave the component: a world in which a driver is called again
// and again does not come to rest.
type ourPlugin struct{ storage *storage }

func (p *ourPlugin) Name() string { return inTree }

func (p *ourPlugin) CanSupport(spec *plugins.Spec) bool {
	return spec.PersistentVolume != nil && spec.PersistentVolume.Spec.HostPath != nil
}
func (p *ourPlugin) VolumeName(s *plugins.Spec) (string, error)  { return s.Name(), nil }
func (p *ourPlugin) SupportsMountOptions() bool                  { return false }
func (p *ourPlugin) CanProvision(plugins.ProvisionOptions) error { return p.storage.may("provision") }
func (p *ourPlugin) CanDelete(*plugins.Spec) error               { return p.storage.may("delete") }

func (p *ourPlugin) Provision(_ context.Context, opts plugins.ProvisionOptions) (*corev1.PersistentVolume, error) {
	if err := p.storage.call("provision", opts.Name, ""); err != nil {
		return nil, err
	}
	return volumeFor(opts.Name, opts.Claim, opts.ReclaimPolicy, opts.MountOptions), nil
}

func (p *ourPlugin) Delete(_ context.Context, spec *plugins.Spec) error {
	err := p.storage.call("delete", spec.Name(), spec.PersistentVolume.UID)
	if errors.Is(err, errInUse) {
		return &plugins.InUseError{Text: err.Error()}
	}
	return err
}

// Recycle does not hold the volume before it begins: that leaves word in its status, which upstream's does not.
func (p *ourPlugin) Recycle(_ context.Context, opts plugins.RecycleOptions) error {
	opts.RecordEvent(corev1.EventTypeNormal, "scrubbing")
	return p.storage.call("recycle", opts.Volume, "")
}

// upstreamPlugin is the plugin for upstream's controller.
type upstreamPlugin struct {
	volume.VolumePlugin // nil: what kubelets do with it

	storage *storage
}

var (
	_ volume.ProvisionableVolumePlugin = (*upstreamPlugin)(nil)
	_ volume.DeletableVolumePlugin     = (*upstreamPlugin)(nil)
	_ volume.RecyclableVolumePlugin    = (*upstreamPlugin)(nil)
)

func (p *upstreamPlugin) Init(volume.VolumeHost) error                 { return nil }
func (p *upstreamPlugin) GetPluginName() string                        { return inTree }
func (p *upstreamPlugin) GetVolumeName(s *volume.Spec) (string, error) { return s.Name(), nil }
func (p *upstreamPlugin) SupportsMountOption() bool                    { return false }
func (p *upstreamPlugin) CanSupport(spec *volume.Spec) bool {
	return spec.PersistentVolume != nil && spec.PersistentVolume.Spec.HostPath != nil
}

func (p *upstreamPlugin) NewProvisioner(_ klog.Logger, opts volume.VolumeOptions) (volume.Provisioner, error) {
	return upstreamProvisioner{p.storage, opts}, p.storage.may("provision")
}

func (p *upstreamPlugin) NewDeleter(_ klog.Logger, spec *volume.Spec) (volume.Deleter, error) {
	return upstreamDeleter{storage: p.storage, volume: spec.PersistentVolume}, p.storage.may("delete")
}

func (p *upstreamPlugin) Recycle(name string, _ *volume.Spec, tell recyclerclient.RecycleEventRecorder) error {
	tell(corev1.EventTypeNormal, "scrubbing")
	return p.storage.call("recycle", name, "")
}

type upstreamProvisioner struct {
	storage *storage
	opts    volume.VolumeOptions
}

func (p upstreamProvisioner) Provision(*corev1.Node, []corev1.TopologySelectorTerm) (*corev1.PersistentVolume, error) {
	if err := p.storage.call("provision", p.opts.PVName, ""); err != nil {
		return nil, err
	}
	return volumeFor(p.opts.PVName, p.opts.PVC, p.opts.PersistentVolumeReclaimPolicy, p.opts.MountOptions), nil
}

type upstreamDeleter struct {
	volume.MetricsProvider // nil: nobody asks

	storage *storage
	volume  *corev1.PersistentVolume
}

func (d upstreamDeleter) GetPath() string { return "" }

func (d upstreamDeleter) Delete() error {
	err := d.storage.call("delete", d.volume.Name, d.volume.UID)
	if errors.Is(err, errInUse) {
		return volerrors.NewDeletedVolumeInUseError(err.Error())
	}
	return err
}

// turn is what becomes of calls of the plugin from now on.
type turn struct {
	verb    string // "provision", "delete" or "recycle"
	outcome string // "": success; "fails", "refused", and of "delete" "in use"
}

func (a turn) String() string {
	if a.outcome == "" {
		return "plugin: " + a.verb + " succeeds"
	}
	return "plugin: " + a.verb + " " + a.outcome
}

func (a turn) do(u *user) error {
	u.storage.mu.Lock()
	u.storage.outcome[a.verb] = a.outcome
	u.storage.mu.Unlock()
	return u.stir()
}

// stir changes something that is nobody's business: a stepped world is not looked at again for what cannot be seen.
func (u *user) stir() error {
	_, err := u.client.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "stir-"},
	}, metav1.CreateOptions{})
	return err
}

// makeNode is the node that the scheduler may choose.
type makeNode struct{}

func (makeNode) String() string { return "node n1" }

func (makeNode) do(u *user) error {
	_, err := u.client.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, metav1.CreateOptions{})
	return err
}
