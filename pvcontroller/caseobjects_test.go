package pvcontroller

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/internal/casefile"
)

// Objects as the cases describe them: one line of words each; testdata/cases/README.md lists the
// words. Parsing and formatting a volume or claim yields the same words, and the words cover every
// field that the cases use; see undescribed.

// readVolume parses "volume NAME SIZE PHASE …".
func readVolume(all []casefile.Word) (*corev1.PersistentVolume, error) {
	size, err := resource.ParseQuantity(all[1].Key)
	if err != nil {
		return nil, fmt.Errorf("size %q: %w", all[1].Key, err)
	}
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: all[0].Key}}
	v.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: size}
	v.Spec.AccessModes = ordinaryModes()
	v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	v.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeFilesystem)
	v.Spec.GCEPersistentDisk = &corev1.GCEPersistentDiskVolumeSource{PDName: "disk"}
	v.Status.Phase = corev1.PersistentVolumePhase(all[2].Key)
	for _, w := range all[3:] {
		if !readMeta(&v.ObjectMeta, w) && !readVolumeWord(v, w) {
			return nil, fmt.Errorf("volume %s: unknown word %q", v.Name, w)
		}
	}
	return v, nil
}

func readVolumeWord(v *corev1.PersistentVolume, w casefile.Word) bool {
	switch {
	case slices.Contains(policies, corev1.PersistentVolumeReclaimPolicy(w.Key)) && !w.HasValue:
		v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimPolicy(w.Key)
	case w.Key == "block" && !w.HasValue:
		v.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock)
	case !w.HasValue:
		return false
	case w.Key == "class":
		v.Spec.StorageClassName = w.Value
	case w.Key == "attributes":
		v.Spec.VolumeAttributesClassName = &w.Value
	case w.Key == "modes":
		v.Spec.AccessModes = casefile.ParseAccessModes(w.Value)
	case w.Key == "csi":
		v.Spec.GCEPersistentDisk = nil
		v.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: w.Value, VolumeHandle: "handle"}
	case w.Key == "message":
		v.Status.Message = w.Value
	case w.Key == "claimRef":
		name, uid, _ := strings.Cut(w.Value, "/")
		v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "default", Name: name, UID: types.UID(uid)}
	default:
		return false
	}
	return true
}

func tellVolume(v *corev1.PersistentVolume) string {
	all := []casefile.Word{
		{Key: "volume"},
		{Key: v.Name},
		{Key: v.Spec.Capacity.Storage().String()},
		{Key: string(v.Status.Phase)},
	}
	if p := v.Spec.PersistentVolumeReclaimPolicy; p != corev1.PersistentVolumeReclaimRetain {
		all = append(all, casefile.Word{Key: string(p)})
	}
	if v.Spec.StorageClassName != "" {
		all = append(all, casefile.KeyValue("class", v.Spec.StorageClassName))
	}
	if ptr.Deref(v.Spec.VolumeMode, "") == corev1.PersistentVolumeBlock {
		all = append(all, casefile.Word{Key: "block"})
	}
	all = append(all, tellModes(v.Spec.AccessModes)...)
	if name := v.Spec.VolumeAttributesClassName; name != nil {
		all = append(all, casefile.KeyValue("attributes", *name))
	}
	if v.Spec.CSI != nil {
		all = append(all, casefile.KeyValue("csi", v.Spec.CSI.Driver))
	}
	if ref := v.Spec.ClaimRef; ref != nil {
		w := casefile.KeyValue("claimRef", ref.Name)
		if ref.UID != "" {
			w.Value += "/" + string(ref.UID)
		}
		all = append(all, w)
	}
	all = append(all, tellMeta(&v.ObjectMeta)...)
	if v.Status.Message != "" {
		all = append(all, casefile.KeyValue("message", v.Status.Message))
	}
	return casefile.JoinWords(all)
}

// readClaim parses "claim NAME SIZE PHASE …". The capacity of a Bound claim is its request, unless
// the words say otherwise.
func readClaim(all []casefile.Word) (*corev1.PersistentVolumeClaim, error) {
	size, err := resource.ParseQuantity(all[1].Key)
	if err != nil {
		return nil, fmt.Errorf("size %q: %w", all[1].Key, err)
	}
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: all[0].Key}}
	c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: size}
	c.Spec.AccessModes = ordinaryModes()
	c.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeFilesystem)
	c.Status.Phase = corev1.PersistentVolumeClaimPhase(all[2].Key)
	for _, w := range all[3:] {
		if !readMeta(&c.ObjectMeta, w) && !readClaimWord(c, w) && !strings.HasPrefix(w.Key, "has") {
			return nil, fmt.Errorf("claim %s: unknown word %q", c.Name, w)
		}
	}
	was := c.Status
	c.Status = ordinaryStatus(c)
	for _, w := range all[3:] {
		if strings.HasPrefix(w.Key, "has") && !readClaimHas(&c.Status, w) {
			return nil, fmt.Errorf("claim %s: unknown word %q", c.Name, w)
		}
	}
	c.Status.Phase = was.Phase
	return c, nil
}

// ordinaryStatus returns the default status of a claim in its phase.
func ordinaryStatus(c *corev1.PersistentVolumeClaim) corev1.PersistentVolumeClaimStatus {
	status := corev1.PersistentVolumeClaimStatus{Phase: c.Status.Phase}
	if c.Status.Phase == corev1.ClaimBound {
		status.AccessModes = slices.Clone(c.Spec.AccessModes)
		status.Capacity = c.Spec.Resources.Requests.DeepCopy()
		status.CurrentVolumeAttributesClassName = c.Spec.VolumeAttributesClassName
	}
	return status
}

func readClaimWord(c *corev1.PersistentVolumeClaim, w casefile.Word) bool {
	switch {
	case w.Key == "block" && !w.HasValue:
		c.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock)
	case !w.HasValue:
		return false
	case w.Key == "uid":
		c.UID = types.UID(w.Value)
	case w.Key == "volume":
		c.Spec.VolumeName = w.Value
	case w.Key == "class":
		c.Spec.StorageClassName = &w.Value
	case w.Key == "attributes":
		c.Spec.VolumeAttributesClassName = &w.Value
	case w.Key == "modes":
		c.Spec.AccessModes = casefile.ParseAccessModes(w.Value)
	case w.Key == "selector":
		c.Spec.Selector = &metav1.LabelSelector{MatchLabels: readMap(w.Value)}
	case w.Key == "snapshot":
		c.Spec.DataSource = &corev1.TypedLocalObjectReference{
			APIGroup: ptr.To("snapshot.storage.k8s.io"), Kind: "VolumeSnapshot", Name: w.Value,
		}
	default:
		return false
	}
	return true
}

func readClaimHas(status *corev1.PersistentVolumeClaimStatus, w casefile.Word) bool {
	switch {
	case !w.HasValue:
		return false
	case w.Key == "has" && w.Value == "nothing":
		*status = corev1.PersistentVolumeClaimStatus{Phase: status.Phase}
	case w.Key == "has":
		size, err := resource.ParseQuantity(w.Value)
		if err != nil {
			return false
		}
		status.Capacity = corev1.ResourceList{corev1.ResourceStorage: size}
	case w.Key == "has-modes":
		status.AccessModes = casefile.ParseAccessModes(w.Value)
	case w.Key == "has-attributes" && w.Value == "":
		status.CurrentVolumeAttributesClassName = nil
	case w.Key == "has-attributes":
		status.CurrentVolumeAttributesClassName = &w.Value
	default:
		return false
	}
	return true
}

func tellClaim(c *corev1.PersistentVolumeClaim) string {
	all := []casefile.Word{
		{Key: "claim"},
		{Key: c.Name},
		{Key: c.Spec.Resources.Requests.Storage().String()},
		{Key: string(c.Status.Phase)},
		casefile.KeyValue("uid", string(c.UID)),
	}
	if c.Spec.VolumeName != "" {
		all = append(all, casefile.KeyValue("volume", c.Spec.VolumeName))
	}
	all = append(all, tellClaimHas(c)...)
	if c.Spec.StorageClassName != nil {
		all = append(all, casefile.KeyValue("class", *c.Spec.StorageClassName))
	}
	if ptr.Deref(c.Spec.VolumeMode, "") == corev1.PersistentVolumeBlock {
		all = append(all, casefile.Word{Key: "block"})
	}
	all = append(all, tellModes(c.Spec.AccessModes)...)
	if name := c.Spec.VolumeAttributesClassName; name != nil {
		all = append(all, casefile.KeyValue("attributes", *name))
	}
	if c.Spec.Selector != nil {
		all = append(all, casefile.KeyValue("selector", tellMap(c.Spec.Selector.MatchLabels)))
	}
	if c.Spec.DataSource != nil {
		all = append(all, casefile.KeyValue("snapshot", c.Spec.DataSource.Name))
	}
	return casefile.JoinWords(append(all, tellMeta(&c.ObjectMeta)...))
}

func tellClaimHas(c *corev1.PersistentVolumeClaim) []casefile.Word {
	usual, status := ordinaryStatus(c), c.Status
	if usual.Capacity != nil && status.Capacity == nil && status.AccessModes == nil {
		return []casefile.Word{casefile.KeyValue("has", "nothing")}
	}
	var all []casefile.Word
	if size := status.Capacity.Storage(); size.Cmp(*usual.Capacity.Storage()) != 0 {
		all = append(all, casefile.KeyValue("has", size.String()))
	}
	if !slices.Equal(status.AccessModes, usual.AccessModes) {
		all = append(all, casefile.KeyValue("has-modes", casefile.FormatAccessModes(status.AccessModes)))
	}
	if !ptr.Equal(status.CurrentVolumeAttributesClassName, usual.CurrentVolumeAttributesClassName) {
		all = append(all, casefile.KeyValue("has-attributes", ptr.Deref(status.CurrentVolumeAttributesClassName, "")))
	}
	return all
}

// readClass parses "class NAME PROVISIONER …".
func readClass(all []casefile.Word) (*storagev1.StorageClass, error) {
	c := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: all[0].Key}, Provisioner: all[1].Key}
	for _, w := range all[2:] {
		switch {
		case w.Key == "wait" && !w.HasValue:
			c.VolumeBindingMode = ptr.To(storagev1.VolumeBindingWaitForFirstConsumer)
		case w.Key == "default" && !w.HasValue:
			metav1.SetMetaDataAnnotation(&c.ObjectMeta, annDefaultClass, "true")
		case w.Key == "parameters" && w.HasValue:
			c.Parameters = readMap(w.Value)
		case w.Key == "mount" && w.HasValue:
			c.MountOptions = strings.Split(w.Value, ",")
		default:
			return nil, fmt.Errorf("class %s: unknown word %q", c.Name, w)
		}
	}
	return c, nil
}

// readPod parses "pod NAME PHASE claim=NAME".
func readPod(all []casefile.Word) (*corev1.Pod, error) {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: all[0].Key}}
	p.Status.Phase = corev1.PodPhase(all[1].Key)
	p.Spec.Containers = []corev1.Container{{Name: "main", Image: "image"}}
	for _, w := range all[2:] {
		if w.Key != "claim" {
			return nil, fmt.Errorf("pod %s: unknown word %q", p.Name, w)
		}
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: w.Value},
		}})
	}
	return p, nil
}

var caseKinds = []casefile.Kind{
	casefile.NewKind("volume NAME SIZE PHASE", readVolume, tellVolume),
	casefile.NewKind("claim NAME SIZE PHASE", readClaim, tellClaim),
	casefile.NewKind("class NAME PROVISIONER", readClass, nil),
	casefile.NewKind("pod NAME PHASE", readPod, nil),
	casefile.NewKind("node NAME", readNode, nil),
}

func readNode(all []casefile.Word) (*corev1.Node, error) {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: all[0].Key}}, nil
}

// readObject parses a line of words. A volume or claim must be described by exactly these words.
func readObject(line string) (runtime.Object, error) {
	objects, err := casefile.ReadObjects(caseKinds, line)
	if err != nil {
		return nil, err
	}
	return objects[0], nil
}

// undescribed returns an error for a volume or claim with a field that no word describes.
func undescribed(obj runtime.Object) error {
	var told runtime.Object
	var err error
	switch o := obj.(type) {
	case *corev1.PersistentVolume:
		o = o.DeepCopy()
		plain(&o.ObjectMeta)
		o.Status.LastPhaseTransitionTime = nil
		o.Spec.CSI, o.Spec.GCEPersistentDisk = nil, nil
		if ref := o.Spec.ClaimRef; ref != nil {
			ref.APIVersion, ref.Kind, ref.ResourceVersion = "", "", ""
		}
		var back *corev1.PersistentVolume
		if back, err = readAs[*corev1.PersistentVolume](tellVolume(o)); err == nil {
			back.Spec.CSI, back.Spec.GCEPersistentDisk = nil, nil
			told, obj = back, o
		}
	case *corev1.PersistentVolumeClaim:
		o = o.DeepCopy()
		plain(&o.ObjectMeta)
		obj = o
		told, err = readAs[*corev1.PersistentVolumeClaim](tellClaim(o))
	}
	if err == nil && !equality.Semantic.DeepEqual(obj, told) {
		err = fmt.Errorf("a field has no word: %+v", obj)
	}
	return err
}

// plain removes the fields that the server sets on every object.
func plain(meta *metav1.ObjectMeta) {
	meta.ResourceVersion, meta.CreationTimestamp, meta.Generation, meta.ManagedFields = "", metav1.Time{}, 0, nil
	meta.DeletionGracePeriodSeconds = nil
	if meta.DeletionTimestamp != nil {
		meta.DeletionTimestamp = &metav1.Time{Time: deletedAt}
	}
	if meta.Namespace == "" {
		meta.UID = "" // a volume's
	}
}

func readAs[T runtime.Object](line string) (T, error) {
	obj, err := readObject(line)
	t, _ := obj.(T)
	return t, err
}
