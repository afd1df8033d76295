package attachdetach_test

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/attachdetach"
	"github.com/volsim/volsim/internal/casefile"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/csi"
)

// Objects as the cases describe them: one line of words each; testdata/cases/README.md lists the
// words. Parsing and formatting a node or attachment yields the same words.

const (
	caseDriver    = "disk.example.com"
	caseFinalizer = "external-attacher/disk-example-com"
	volumePrefix  = csi.PluginName + "/" + caseDriver + "^"

	// AWS disks are in-tree volumes that their CSI driver attaches. Cases name them "ebs." and
	// their handle.
	awsPrefix = csi.PluginName + "/" + ebsDriver + "^"
	awsShort  = "ebs."
)

// uniqueName returns the unique name of a volume that a case names by its handle. A name with a
// slash is a unique name already.
func uniqueName(handle string) corev1.UniqueVolumeName {
	if strings.Contains(handle, "/") {
		return corev1.UniqueVolumeName(handle)
	}
	return plugins.UniqueVolumeName(csi.PluginName, csi.VolumeName(driverOf(handle)))
}

// driverOf returns the driver and the volume ID of a volume that a case names by its handle.
func driverOf(called string) (driver, handle string) {
	if handle, found := strings.CutPrefix(called, awsShort); found {
		return ebsDriver, handle
	}
	return caseDriver, called
}

// called returns a case's name of a volume.
func called(volume corev1.UniqueVolumeName) string { return short(string(volume)) }

// short replaces volumes in a text by their names in the cases.
func short(text string) string {
	return strings.NewReplacer(awsPrefix, awsShort, volumePrefix, "").Replace(text)
}

// attachmentName returns the name of a VolumeAttachment that a case names "VOLUME NODE".
func attachmentName(handle, node string) string {
	driver, handle := driverOf(handle)
	return csi.AttachmentName(handle, driver, types.NodeName(node))
}

// readNode parses "node NAME …".
func readNode(all []casefile.Word) (*corev1.Node, error) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: all[0].Key, Annotations: map[string]string{attachdetach.ManagedAnnotation: "true"},
	}}
	ready := corev1.ConditionTrue
	for _, w := range all[1:] {
		switch {
		case w.Key == "unmanaged" && !w.HasValue:
			n.Annotations = nil
		case w.Key == "not-ready" && !w.HasValue:
			ready = corev1.ConditionFalse
		case w.Key == "unknown" && !w.HasValue:
			ready = corev1.ConditionUnknown
		case w.Key == "out-of-service" && !w.HasValue:
			n.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoExecute}}
		case w.Key == "attached" && w.HasValue:
			for each := range splitList(w.Value) {
				handle, path, _ := strings.Cut(each, ":")
				n.Status.VolumesAttached = append(n.Status.VolumesAttached,
					corev1.AttachedVolume{Name: uniqueName(handle), DevicePath: path})
			}
		case w.Key == "in-use" && w.HasValue:
			for each := range splitList(w.Value) {
				n.Status.VolumesInUse = append(n.Status.VolumesInUse, uniqueName(each))
			}
		default:
			return nil, fmt.Errorf("node %s: unknown word %q", n.Name, w)
		}
	}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
	return n, nil
}

// readNodeLine returns the node and its line, or "" if the words explicitly say that nothing is
// attached.
func readNodeLine(all []casefile.Word) ([]runtime.Object, string, error) {
	n, err := readNode(all)
	if err != nil || slices.Contains(all, casefile.KeyValue("attached", "")) {
		return []runtime.Object{n}, "", err
	}
	return []runtime.Object{n}, tellNode(n), nil
}

// splitList splits a list of words; "" is an empty list.
func splitList(value string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for each := range strings.SplitSeq(value, ",") {
			if each != "" && !yield(each) {
				return
			}
		}
	}
}

// tellNode formats a node as readNode parses it, without empty lists.
func tellNode(n *corev1.Node) string {
	all := []casefile.Word{{Key: "node"}, {Key: n.Name}}
	if _, managed := n.Annotations[attachdetach.ManagedAnnotation]; !managed {
		all = append(all, casefile.Word{Key: "unmanaged"})
	}
	for _, c := range n.Status.Conditions {
		switch {
		case c.Type != corev1.NodeReady:
		case c.Status == corev1.ConditionFalse:
			all = append(all, casefile.Word{Key: "not-ready"})
		case c.Status == corev1.ConditionUnknown:
			all = append(all, casefile.Word{Key: "unknown"})
		}
	}
	if len(n.Spec.Taints) > 0 {
		all = append(all, casefile.Word{Key: "out-of-service"})
	}
	if len(n.Status.VolumesAttached) > 0 {
		all = append(all, casefile.KeyValue("attached", attachedList(n)))
	}
	if len(n.Status.VolumesInUse) > 0 {
		all = append(all, casefile.KeyValue("in-use", namesOf(n.Status.VolumesInUse)))
	}
	return casefile.JoinWords(all)
}

func attachedList(n *corev1.Node) string {
	var names []string
	for _, a := range n.Status.VolumesAttached {
		name := called(a.Name)
		if a.DevicePath != "" {
			name += ":" + a.DevicePath
		}
		names = append(names, name)
	}
	return strings.Join(names, ",")
}

func namesOf(volumes []corev1.UniqueVolumeName) string {
	names := make([]string, len(volumes))
	for i, v := range volumes {
		names[i] = called(v)
	}
	return strings.Join(names, ",")
}

// readVolume parses "volume NAME …".
func readVolume(all []casefile.Word) (*corev1.PersistentVolume, error) {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: all[0].Key}}
	v.Spec.Capacity = size
	v.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{rwo}
	v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	v.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: caseDriver, VolumeHandle: v.Name}
	for _, w := range all[1:] {
		switch {
		case w.Key == "modes" && w.HasValue:
			v.Spec.AccessModes = casefile.ParseAccessModes(w.Value)
		case w.Key == "handle" && w.HasValue:
			v.Spec.CSI.VolumeHandle = w.Value
		case w.Key == "driver" && w.HasValue:
			v.Spec.CSI.Driver = w.Value
		case w.Key == "ebs" && w.HasValue:
			v.Spec.CSI, v.Spec.AWSElasticBlockStore = nil, &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: w.Value}
		case w.Key == "in-tree" && !w.HasValue:
			v.Spec.CSI, v.Spec.ScaleIO = nil, &corev1.ScaleIOPersistentVolumeSource{
				Gateway: "g", System: "s", SecretRef: &corev1.SecretReference{Name: "x"}, VolumeName: v.Name,
			}
		case w.Key == "claim" && w.HasValue:
			key, uid, _ := strings.Cut(w.Value, "#")
			namespace, name := namespaced(key)
			v.Spec.ClaimRef = &corev1.ObjectReference{
				Kind: "PersistentVolumeClaim", Namespace: namespace,
				Name: name, UID: types.UID(uid),
			}
		default:
			return nil, fmt.Errorf("volume %s: unknown word %q", v.Name, w)
		}
	}
	return v, nil
}

// readClaim parses "claim [NAMESPACE/]NAME PHASE …". Its default UID is "u-" and its name.
func readClaim(all []casefile.Word) (*corev1.PersistentVolumeClaim, error) {
	namespace, name := namespaced(all[0].Key)
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace,
		Name:      name, UID: types.UID("u-" + name),
	}}
	c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{rwo}
	c.Spec.StorageClassName = ptr.To("")
	c.Spec.Resources.Requests = size
	c.Status.Phase = corev1.PersistentVolumeClaimPhase(all[1].Key)
	for _, w := range all[2:] {
		switch {
		case w.Key == "volume" && w.HasValue:
			c.Spec.VolumeName = w.Value
		case w.Key == "uid" && w.HasValue:
			c.UID = types.UID(w.Value)
		case w.Key == "owner" && w.HasValue:
			c.OwnerReferences = []metav1.OwnerReference{{
				APIVersion: "v1", Kind: "Pod", Name: w.Value, UID: types.UID("u-" + w.Value), Controller: ptr.To(true),
			}}
		default:
			return nil, fmt.Errorf("claim %s: unknown word %q", name, w)
		}
	}
	return c, nil
}

// readDisk parses "disk [NAMESPACE/]NAME …": a volume and a claim with that name, bound to each
// other.
func readDisk(all []casefile.Word) ([]runtime.Object, string, error) {
	namespace, name := namespaced(all[0].Key)
	c, err := readClaim([]casefile.Word{all[0], {Key: "Bound"}, casefile.KeyValue("volume", name)})
	if err != nil {
		return nil, "", err
	}
	v, err := readVolume(append([]casefile.Word{
		{Key: name},
		casefile.KeyValue("claim", namespace+"/"+name+"#"+string(c.UID)),
	}, all[1:]...))
	if err != nil {
		return nil, "", err
	}
	c.Spec.AccessModes = v.Spec.AccessModes
	return []runtime.Object{v, c}, "", nil
}

// readPod parses "pod [NAMESPACE/]NAME NODE …"; the node "-" is none.
func readPod(all []casefile.Word) (*corev1.Pod, error) {
	namespace, name := namespaced(all[0].Key)
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("u-" + name)}}
	p.Spec.NodeName = strings.TrimPrefix(all[1].Key, "-")
	p.Spec.Containers = []corev1.Container{{Name: "main", Image: "image"}}
	add := func(name string, source corev1.VolumeSource) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: source})
	}
	for _, w := range all[2:] {
		switch {
		case w.Key == "claims" && w.HasValue:
			for each := range splitList(w.Value) {
				add(each, corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: each}})
			}
		case w.Key == "ephemeral" && w.HasValue:
			template := &corev1.PersistentVolumeClaimTemplate{Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{rwo},
				Resources:   corev1.VolumeResourceRequirements{Requests: size},
			}}
			add(w.Value, corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: template}})
		case w.Key == "ebs" && w.HasValue:
			add("disk", corev1.VolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: w.Value}})
		case w.Key == "host-path" && w.HasValue:
			add("host", corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: w.Value}})
		case w.Key == "uid" && w.HasValue:
			p.UID = types.UID(w.Value)
		case !w.HasValue:
			p.Status.Phase = corev1.PodPhase(w.Key)
		default:
			return nil, fmt.Errorf("pod %s: unknown word %q", name, w)
		}
	}
	return p, nil
}

// readAttachment parses "attachment VOLUME NODE …". The PersistentVolume has the name of the
// handle. An attached one has the attacher's finalizer.
func readAttachment(all []casefile.Word) (*storagev1.VolumeAttachment, error) {
	volume, node := all[0].Key, all[1].Key
	driver, name := driverOf(volume)
	a := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: attachmentName(volume, node)}}
	a.Spec = storagev1.VolumeAttachmentSpec{
		Attacher: driver, NodeName: node, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &name},
	}
	for _, w := range all[2:] {
		switch {
		case w.Key == "attached" && !w.HasValue:
			a.Status.Attached = true
			a.Finalizers = []string{caseFinalizer}
		case w.Key == "attach-error" && w.HasValue:
			a.Status.AttachError = &storagev1.VolumeError{Message: w.Value}
			a.Finalizers = []string{caseFinalizer}
		default:
			return nil, fmt.Errorf("attachment %s %s: unknown word %q", volume, node, w)
		}
	}
	return a, nil
}

// tellAttachment formats an attachment as readAttachment parses it, with deleting and detach-error.
// The volume is named by the handle in the attachment's name.
func tellAttachment(a *storagev1.VolumeAttachment, handle string) string {
	all := []casefile.Word{{Key: "attachment"}, {Key: handle}, {Key: a.Spec.NodeName}}
	if a.Status.Attached {
		all = append(all, casefile.Word{Key: "attached"})
	}
	if e := a.Status.AttachError; e != nil {
		all = append(all, casefile.KeyValue("attach-error", e.Message))
	}
	if a.DeletionTimestamp != nil {
		all = append(all, casefile.Word{Key: "deleting"})
	}
	if e := a.Status.DetachError; e != nil {
		all = append(all, casefile.KeyValue("detach-error", e.Message))
	}
	return casefile.JoinWords(all)
}

// readDriver parses "driver …": the CSIDriver object of the volumes' driver.
func readDriver(all []casefile.Word) (*storagev1.CSIDriver, error) {
	d := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: caseDriver}}
	for _, w := range all {
		if w.Key != "no-attach" || w.HasValue {
			return nil, fmt.Errorf("driver: unknown word %q", w)
		}
		d.Spec.AttachRequired = ptr.To(false)
	}
	return d, nil
}

// namespaced splits "NAMESPACE/NAME" or "NAME".
func namespaced(key string) (namespace, name string) {
	if namespace, name, found := strings.Cut(key, "/"); found {
		return namespace, name
	}
	return "default", key
}

var caseKinds = []casefile.Kind{
	{Usage: "node NAME", Read: readNodeLine},
	{Usage: "disk NAME", Read: readDisk},
	casefile.NewKind("volume NAME", readVolume, nil),
	casefile.NewKind("claim NAME PHASE", readClaim, nil),
	casefile.NewKind("pod NAME NODE", readPod, nil),
	casefile.NewKind("attachment VOLUME NODE", readAttachment, func(a *storagev1.VolumeAttachment) string {
		handle := *a.Spec.Source.PersistentVolumeName
		if a.Spec.Attacher == ebsDriver {
			handle = awsShort + handle
		}
		return tellAttachment(a, handle)
	}),
	casefile.NewKind("driver", readDriver, nil),
}

// handleOfVolume returns a case's name of a PersistentVolume's source, or "".
func handleOfVolume(v *corev1.PersistentVolume) string {
	switch source := v.Spec.PersistentVolumeSource; {
	case source.CSI != nil:
		return source.CSI.VolumeHandle
	case source.AWSElasticBlockStore != nil:
		return awsShort + source.AWSElasticBlockStore.VolumeID
	default:
		return ""
	}
}
