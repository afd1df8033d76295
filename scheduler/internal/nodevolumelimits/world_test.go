package nodevolumelimits

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/scheduler/internal/framework"
)

// world has the objects that a decision depends on. Its node is called n.
type world struct {
	*testing.T
	*Plugin
	informers informers.SharedInformerFactory
}

// newWorld returns a world with bound claims: d1 to d4 to volumes 1 to 4 of driver d, e1 and e2 to volumes
// 1 and 2 of driver e, twin to volume 1 of driver d under another name, dir to a directory. The other
// claims are unbound: wait and wait2 of driver d, lost with a missing volume, odd without a class.
// The claims in and in2 are bound to volumes of the in-tree plugin of AWS, in-wait waits for one, csi is
// bound to a volume of its CSI driver.
func newWorld(t *testing.T) *world {
	w := &world{T: t, informers: informers.NewSharedInformerFactory(nil, 0)}
	w.Plugin = New(framework.Handle{Informers: w.informers})
	for name, of := range map[string][2]string{
		"d1": {"d", "1"}, "d2": {"d", "2"}, "d3": {"d", "3"}, "d4": {"d", "4"}, "twin": {"d", "1"}, "e1": {"e", "1"},
		"e2": {"e", "2"}, "csi": {"ebs.csi.aws.com", "vol-2"},
	} {
		w.add(volume(name, corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: of[0], VolumeHandle: of[1]}}))
	}
	w.add(volume("dir", corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/tmp"}}))
	w.add(volume("in", corev1.PersistentVolumeSource{AWSElasticBlockStore: ebs("vol-1")}))
	w.add(volume("in2", corev1.PersistentVolumeSource{AWSElasticBlockStore: ebs("vol-5")}))
	for _, name := range []string{"d1", "d2", "d3", "d4", "twin", "e1", "e2", "dir", "in", "in2", "csi"} {
		w.add(claim(name, "none", name))
	}
	w.add(claim("wait", "d", ""), claim("wait2", "d", ""), claim("lost", "d", "gone"), claim("odd", "none", ""), claim("in-wait", "in", ""))
	w.add(&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "d"}, Provisioner: "d"})
	w.add(&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "in"}, Provisioner: "kubernetes.io/aws-ebs"})
	return w
}

func (w *world) add(objects ...any) {
	w.Helper()
	core, storage := w.informers.Core().V1(), w.informers.Storage().V1()
	for _, obj := range objects {
		var err error
		switch obj.(type) {
		case *corev1.PersistentVolumeClaim:
			err = core.PersistentVolumeClaims().Informer().GetIndexer().Add(obj)
		case *corev1.PersistentVolume:
			err = core.PersistentVolumes().Informer().GetIndexer().Add(obj)
		case *storagev1.StorageClass:
			err = storage.StorageClasses().Informer().GetIndexer().Add(obj)
		case *storagev1.CSINode:
			err = storage.CSINodes().Informer().GetIndexer().Add(obj)
		case *storagev1.VolumeAttachment:
			err = storage.VolumeAttachments().Informer().GetIndexer().Add(obj)
		default:
			w.Fatalf("cannot add a %T", obj)
		}
		if err != nil {
			w.Fatal(err)
		}
	}
}

// attach adds an attachment of a volume to the node.
func (w *world) attach(names ...string) {
	for _, name := range names {
		a := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "a-" + name}}
		a.Spec = storagev1.VolumeAttachmentSpec{NodeName: "n", Attacher: "d", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &name}}
		w.add(a)
	}
}

// filter returns the answers of PreFilter and Filter about a pod and the node with other pods.
func (w *world) filter(pod *corev1.Pod, others ...*corev1.Pod) (pre, filter *framework.Status) {
	info := func(pod *corev1.Pod) *framework.PodInfo {
		info, err := framework.NewPodInfo(pod)
		if err != nil {
			w.Fatal(err)
		}
		return info
	}
	node := &framework.NodeInfo{Node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}}
	for _, other := range others {
		node = node.With(info(other))
	}
	cycle := framework.NewCycle(info(pod), nil)
	if _, pre = w.PreFilter(cycle); pre != nil {
		return pre, nil
	}
	return nil, w.Filter(cycle, node)
}

func volume(name string, source corev1.PersistentVolumeSource) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: source},
	}
}

func claim(name, class, volume string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       corev1.PersistentVolumeClaimSpec{StorageClassName: &class, VolumeName: volume},
	}
}

func ebs(id string) *corev1.AWSElasticBlockStoreVolumeSource {
	return &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: id}
}

// limited returns the node's CSINode with a limit for a driver; -1 is no limit.
func limited(driver string, n int32) *storagev1.CSINode {
	d := storagev1.CSINodeDriver{Name: driver}
	if n >= 0 {
		d.Allocatable = &storagev1.VolumeNodeResources{Count: &n}
	}
	return &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: "e"}, d}}}
}

func newPod(claims ...string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pod"}}
	for _, name := range claims {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
		}})
	}
	return pod
}

// with returns a pod with volumes of any source.
func with(sources ...corev1.VolumeSource) *corev1.Pod {
	pod := newPod()
	for _, source := range sources {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "own", VolumeSource: source})
	}
	return pod
}

// ephemeralPod returns a pod with an ephemeral volume.
func ephemeralPod(name string) *corev1.Pod {
	pod := with(corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}})
	pod.Name, pod.UID = name, "uid-of-pod"
	return pod
}

// ephemeralClaim returns the claim of such a pod, or another one of its name.
func ephemeralClaim(pod *corev1.Pod, own bool) *corev1.PersistentVolumeClaim {
	c := claim(pod.Name+"-own", "d", "")
	if own {
		c.OwnerReferences = []metav1.OwnerReference{{Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: ptr.To(true)}}
	}
	return c
}
