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

// inTree is the plugin of both controllers. Its volumes are hostPath volumes. No plugin supports
// NFS volumes.
const inTree = "kubernetes.io/host-path"

// storage is the backing store of the plugin. It may be used concurrently.
type storage struct {
	mu      sync.Mutex
	made    map[string]bool    // guarded by mu: names of volumes
	erased  map[types.UID]bool // guarded by mu: PersistentVolumes with deleted data
	outcome map[string]string  // guarded by mu: results of calls by verb; "": success
}

func newStorage() *storage {
	return &storage{made: map[string]bool{}, erased: map[types.UID]bool{}, outcome: map[string]string{}}
}

// errInUse is the result of deleting a volume that is in use.
var errInUse = errors.New("the disk is in use")

// check returns an error if a call is refused.
func (s *storage) check(verb string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.outcome[verb] == "refused" {
		return fmt.Errorf("%s is not possible", verb)
	}
	return nil
}

// call makes a call. uid is the UID of the PersistentVolume, if one exists.
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

// state returns a line for each volume and each deletion.
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

// volumeFor returns the volume that is provisioned for a claim.
func volumeFor(name string, claim *corev1.PersistentVolumeClaim, policy corev1.PersistentVolumeReclaimPolicy, mountOptions []string) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
	v.Spec.AccessModes, v.Spec.Capacity = claim.Spec.AccessModes, claim.Spec.Resources.Requests
	v.Spec.VolumeMode, v.Spec.PersistentVolumeReclaimPolicy = claim.Spec.VolumeMode, policy
	v.Spec.MountOptions = mountOptions
	v.Spec.HostPath = &corev1.HostPathVolumeSource{Path: "/tmp/" + name}
	return v
}

// ourPlugin is the plugin of our controller. Its calls are no suspension points: a world with
// repeated driver calls does not come to rest.
type ourPlugin struct{ storage *storage }

func (p *ourPlugin) Name() string { return inTree }

func (p *ourPlugin) CanSupport(spec *plugins.Spec) bool {
	return spec.PersistentVolume != nil && spec.PersistentVolume.Spec.HostPath != nil
}
func (p *ourPlugin) VolumeName(s *plugins.Spec) (string, error)  { return s.Name(), nil }
func (p *ourPlugin) SupportsMountOptions() bool                  { return false }
func (p *ourPlugin) CanProvision(plugins.ProvisionOptions) error { return p.storage.check("provision") }

func (p *ourPlugin) CanDelete(*plugins.Spec) error { return p.storage.check("delete") }

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

// Recycle does not reserve the volume first. That would leave a message in its status, which
// upstream's plugins do not write.
func (p *ourPlugin) Recycle(_ context.Context, opts plugins.RecycleOptions) error {
	opts.RecordEvent(corev1.EventTypeNormal, "scrubbing")
	return p.storage.call("recycle", opts.Volume, "")
}

// upstreamPlugin is the plugin of upstream's controller.
type upstreamPlugin struct {
	volume.VolumePlugin // nil: only kubelets use it

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
	return upstreamProvisioner{p.storage, opts}, p.storage.check("provision")
}

func (p *upstreamPlugin) NewDeleter(_ klog.Logger, spec *volume.Spec) (volume.Deleter, error) {
	return upstreamDeleter{storage: p.storage, volume: spec.PersistentVolume}, p.storage.check("delete")
}

func (p *upstreamPlugin) Recycle(name string, _ *volume.Spec, record recyclerclient.RecycleEventRecorder) error {
	record(corev1.EventTypeNormal, "scrubbing")
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
	volume.MetricsProvider // nil: not used

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

// setOutcome sets the result of the plugin's next calls.
type setOutcome struct {
	verb    string // "provision", "delete" or "recycle"
	outcome string // "": success; "fails", "refused"; for delete also "in use"
}

func (a setOutcome) String() string {
	if a.outcome == "" {
		return "plugin: " + a.verb + " succeeds"
	}
	return "plugin: " + a.verb + " " + a.outcome
}

func (a setOutcome) do(w *world) error {
	w.storage.mu.Lock()
	w.storage.outcome[a.verb] = a.outcome
	w.storage.mu.Unlock()
	return w.touch()
}

// touch writes an object that concerns no controller. Background timers of a stepped world run
// again only after a change.
func (w *world) touch() error {
	_, err := w.client.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "touch-"},
	}, metav1.CreateOptions{})
	return err
}

// createNode creates the node that the scheduler may select.
type createNode struct{}

func (createNode) String() string { return "node n1" }

func (createNode) do(w *world) error {
	_, err := w.client.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, metav1.CreateOptions{})
	return err
}
