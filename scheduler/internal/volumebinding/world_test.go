package volumebinding

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	storagehelpers "k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testworld"
	"github.com/volsim/volsim/scheduler/internal/framework"
	"github.com/volsim/volsim/sim"
)

// rig is a plugin whose client is the user's, so that a test may call it between two runs.
type rig struct {
	*testworld.World
	caches informers.SharedInformerFactory
	plugin *Plugin
	woken  []string
}

func newRig(t *testing.T, args Args) *rig {
	t.Helper()
	w := &rig{World: testworld.NewWith(t, sim.SteppedConfig{StepsMax: 10_000}, fake.Config{Namespaces: []string{"ns"}})}
	process := w.Host.Process("scheduler")
	w.caches = w.Server.Informers(process)
	w.plugin = New(framework.Handle{Process: process, Client: w.User, Informers: w.caches}, args)
	w.plugin.OnWake(func(pod *corev1.Pod) { w.woken = append(w.woken, pod.Name) })
	return w
}

// cached puts objects into the caches. Nothing else knows them.
func (w *rig) cached(objects ...metav1.Object) {
	w.Helper()
	for _, obj := range objects {
		if obj.GetResourceVersion() == "" {
			obj.SetResourceVersion("1")
		}
		w.NoError(w.indexer(obj).Update(obj))
	}
}

func (w *rig) indexer(obj metav1.Object) cache.Indexer {
	core, storage := w.caches.Core().V1(), w.caches.Storage().V1()
	switch obj.(type) {
	case *corev1.Pod:
		return core.Pods().Informer().GetIndexer()
	case *corev1.Node:
		return core.Nodes().Informer().GetIndexer()
	case *corev1.PersistentVolume:
		return core.PersistentVolumes().Informer().GetIndexer()
	case *corev1.PersistentVolumeClaim:
		return core.PersistentVolumeClaims().Informer().GetIndexer()
	case *storagev1.StorageClass:
		return storage.StorageClasses().Informer().GetIndexer()
	case *storagev1.CSINode:
		return storage.CSINodes().Informer().GetIndexer()
	case *storagev1.CSIDriver:
		return storage.CSIDrivers().Informer().GetIndexer()
	case *storagev1.CSIStorageCapacity:
		return storage.CSIStorageCapacities().Informer().GetIndexer()
	default:
		w.Fatalf("no cache of %T", obj)
		return nil
	}
}

// Names of classes.
const (
	waits     = "waits"     // for the first consumer; without a provisioner
	immediate = "immediate" // binds at once
	provided  = "provided"  // waits; provisioned on nodes n1 and n3
	elsewhere = "elsewhere" // waits; provisioned on node n3
)

func classes() []metav1.Object {
	topology := func(nodes ...string) []corev1.TopologySelectorTerm {
		return []corev1.TopologySelectorTerm{{
			MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: corev1.LabelHostname, Values: nodes}},
		}}
	}
	class := func(name, provisioner string, mode storagev1.VolumeBindingMode, nodes ...string) *storagev1.StorageClass {
		c := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner, VolumeBindingMode: &mode}
		if len(nodes) > 0 {
			c.AllowedTopologies = topology(nodes...)
		}
		return c
	}
	return []metav1.Object{
		class(waits, storagehelpers.NotSupportedProvisioner, storagev1.VolumeBindingWaitForFirstConsumer),
		class(immediate, "driver", storagev1.VolumeBindingImmediate),
		class(provided, "driver", storagev1.VolumeBindingWaitForFirstConsumer, "n1", "n3"),
		class(elsewhere, "driver", storagev1.VolumeBindingWaitForFirstConsumer, "n3"),
	}
}

func driver(publishes bool) *storagev1.CSIDriver {
	return &storagev1.CSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: "driver"}, Spec: storagev1.CSIDriverSpec{StorageCapacity: &publishes},
	}
}

// node returns a node with labels of the form key, value.
func node(name string, labels ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}}
	for i := 0; i < len(labels); i += 2 {
		n.Labels[labels[i]] = labels[i+1]
	}
	return n
}

func pod(name string, claims ...string) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name + "-uid")},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	for _, claim := range claims {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: claim, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
		}})
	}
	return p
}

// withEphemeral adds an ephemeral volume to a pod.
func withEphemeral(p *corev1.Pod, name string) *corev1.Pod {
	p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{
		Name: name, VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}},
	})
	return p
}

// changes are applied to a new object.
type changes[T any] []func(T)

func (all changes[T]) apply(obj T) T {
	for _, change := range all {
		change(obj)
	}
	return obj
}

type (
	claimChange  = func(*corev1.PersistentVolumeClaim)
	volumeChange = func(*corev1.PersistentVolume)
)

func claim(name, size, class string, change ...claimChange) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name + "-uid"), ResourceVersion: "1"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: &class,
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceStorage: resource.MustParse(size),
			}},
		},
	}
	return changes[*corev1.PersistentVolumeClaim](change).apply(c)
}

// named has a claim name its volume.
func named(volume string) claimChange {
	return func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = volume }
}

// boundTo has a claim completely bound to a volume.
func boundTo(volume string) claimChange {
	return func(c *corev1.PersistentVolumeClaim) {
		c.Spec.VolumeName = volume
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, storagehelpers.AnnBindCompleted, "yes")
	}
}

// forNode has a claim name the node for which its volume is provisioned.
func forNode(node string) claimChange {
	return func(c *corev1.PersistentVolumeClaim) {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, storagehelpers.AnnSelectedNode, node)
	}
}

func claimVersion(version string) claimChange {
	return func(c *corev1.PersistentVolumeClaim) { c.ResourceVersion = version }
}

// volume returns an available volume that only one node can use; all nodes if its name is "".
func volume(name, node, size, class string, change ...volumeChange) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name + "-uid"), ResourceVersion: "1"},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName: class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: "driver", VolumeHandle: name,
			}},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeAvailable},
	}
	if node != "" {
		labelled(corev1.LabelHostname, node)(v)
	}
	return changes[*corev1.PersistentVolume](change).apply(v)
}

// labelled has only nodes with labels, of the form key, value, use a volume.
func labelled(labels ...string) volumeChange {
	return func(v *corev1.PersistentVolume) {
		var term corev1.NodeSelectorTerm
		for i := 0; i < len(labels); i += 2 {
			term.MatchExpressions = append(term.MatchExpressions, corev1.NodeSelectorRequirement{
				Key: labels[i], Operator: corev1.NodeSelectorOpIn, Values: []string{labels[i+1]},
			})
		}
		v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{term}}}
	}
}

// of has a volume reserved for a claim.
func of(claim *corev1.PersistentVolumeClaim) volumeChange {
	return func(v *corev1.PersistentVolume) {
		v.Spec.ClaimRef = &corev1.ObjectReference{
			Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
			ResourceVersion: claim.ResourceVersion,
		}
	}
}

func volumeVersion(version string) volumeChange {
	return func(v *corev1.PersistentVolume) { v.ResourceVersion = version }
}

// migratable has a volume be one of a plugin that is migrated to CSI, in a zone.
func migratable(v *corev1.PersistentVolume) {
	v.Labels = map[string]string{corev1.LabelFailureDomainBetaZone: "east-1", corev1.LabelFailureDomainBetaRegion: "east"}
	v.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{
		GCEPersistentDisk: &corev1.GCEPersistentDiskVolumeSource{PDName: "disk", FSType: "ext4"},
	}
}

// zoneLabel is the label of nodes by which the driver of a migrated volume knows zones.
const zoneLabel = "topology.gke.io/zone"

func csiNode(name, migrated string) *storagev1.CSINode {
	return &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{
		Name: name, Annotations: map[string]string{corev1.MigratedPluginsAnnotationKey: migrated},
	}}
}

// capacity returns what is published of a class for a node, or for all if its name is "".
func capacity(name, class, node, free, largest string) *storagev1.CSIStorageCapacity {
	c := &storagev1.CSIStorageCapacity{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, StorageClassName: class, NodeTopology: &metav1.LabelSelector{},
	}
	if node != "" {
		c.NodeTopology.MatchLabels = map[string]string{corev1.LabelHostname: node}
	}
	if free != "" {
		c.Capacity = ptr.To(resource.MustParse(free))
	}
	if largest != "" {
		c.MaximumVolumeSize = ptr.To(resource.MustParse(largest))
	}
	return c
}

// result is what the plugin finds about a pod on a node.
type result struct {
	Err        string            // of PreFilter
	Reasons    []string          // of Filter
	Volumes    map[string]string // volume by claim, "" for one that is provisioned
	Capacities map[string]string // by claim
}

// find runs PreFilter and Filter.
func (w *rig) find(pod *corev1.Pod, node *corev1.Node) (result, *framework.Cycle) {
	w.Helper()
	info, err := framework.NewPodInfo(pod)
	w.NoError(err)
	cycle := framework.NewCycle(info, framework.NewSnapshot([]*corev1.Node{node}, nil))
	_, status := w.plugin.PreFilter(cycle)
	if status.CodeOf() != framework.Success && status.CodeOf() != framework.Skip {
		return result{Err: status.Message()}, cycle
	}
	if status := w.plugin.Filter(cycle, cycle.Snapshot.Node(node.Name)); status != nil {
		if status.Code != framework.UnschedulableAndUnresolvable {
			w.Fatalf("Filter: %+v", status)
		}
		return result{Reasons: status.Reasons}, cycle
	}
	return foundIn(cycle, node.Name), cycle
}

func foundIn(cycle *framework.Cycle, node string) result {
	var r result
	s := stateOf(cycle)
	if s == nil || s.byNode[node] == nil {
		return r
	}
	r.Volumes = map[string]string{}
	for _, b := range s.byNode[node].bindings {
		r.Volumes[b.claim.Name] = b.volume.Name
	}
	for _, v := range s.byNode[node].provisions {
		r.Volumes[v.claim.Name] = ""
		if v.capacity != nil {
			if r.Capacities == nil {
				r.Capacities = map[string]string{}
			}
			r.Capacities[v.claim.Name] = v.capacity.Name
		}
	}
	return r
}
