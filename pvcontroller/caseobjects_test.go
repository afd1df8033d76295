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
)

// Objects as the cases have them: one line of words each; testdata/cases/README.md tells them all. A volume or claim that
// is read and told again gives the same words, and the words tell all that the cases are about; see untold.

// readVolume reads "volume NAME SIZE PHASE …".
func readVolume(all []word) (*corev1.PersistentVolume, error) {
	size, err := resource.ParseQuantity(all[1].key)
	if err != nil {
		return nil, fmt.Errorf("size %q: %w", all[1].key, err)
	}
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: all[0].key}}
	v.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: size}
	v.Spec.AccessModes = ordinaryModes()
	v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	v.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeFilesystem)
	v.Spec.GCEPersistentDisk = &corev1.GCEPersistentDiskVolumeSource{PDName: "disk"}
	v.Status.Phase = corev1.PersistentVolumePhase(all[2].key)
	for _, w := range all[3:] {
		if !readMeta(&v.ObjectMeta, w) && !readVolumeWord(v, w) {
			return nil, fmt.Errorf("volume %s: unknown word %q", v.Name, w)
		}
	}
	return v, nil
}

func readVolumeWord(v *corev1.PersistentVolume, w word) bool {
	switch {
	case slices.Contains(policies, corev1.PersistentVolumeReclaimPolicy(w.key)) && !w.has:
		v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimPolicy(w.key)
	case w.key == "block" && !w.has:
		v.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock)
	case !w.has:
		return false
	case w.key == "class":
		v.Spec.StorageClassName = w.value
	case w.key == "attributes":
		v.Spec.VolumeAttributesClassName = &w.value
	case w.key == "modes":
		v.Spec.AccessModes = readModes(w.value)
	case w.key == "csi":
		v.Spec.GCEPersistentDisk = nil
		v.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: w.value, VolumeHandle: "handle"}
	case w.key == "message":
		v.Status.Message = w.value
	case w.key == "claimRef":
		name, uid, _ := strings.Cut(w.value, "/")
		v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "default", Name: name, UID: types.UID(uid)}
	default:
		return false
	}
	return true
}

func tellVolume(v *corev1.PersistentVolume) string {
	all := []word{{key: "volume"}, {key: v.Name}, {key: v.Spec.Capacity.Storage().String()}, {key: string(v.Status.Phase)}}
	if p := v.Spec.PersistentVolumeReclaimPolicy; p != corev1.PersistentVolumeReclaimRetain {
		all = append(all, word{key: string(p)})
	}
	if v.Spec.StorageClassName != "" {
		all = append(all, word{"class", v.Spec.StorageClassName, true})
	}
	if ptr.Deref(v.Spec.VolumeMode, "") == corev1.PersistentVolumeBlock {
		all = append(all, word{key: "block"})
	}
	all = append(all, tellModes(v.Spec.AccessModes)...)
	if name := v.Spec.VolumeAttributesClassName; name != nil {
		all = append(all, word{"attributes", *name, true})
	}
	if v.Spec.CSI != nil {
		all = append(all, word{"csi", v.Spec.CSI.Driver, true})
	}
	if ref := v.Spec.ClaimRef; ref != nil {
		w := word{"claimRef", ref.Name, true}
		if ref.UID != "" {
			w.value += "/" + string(ref.UID)
		}
		all = append(all, w)
	}
	all = append(all, tellMeta(&v.ObjectMeta)...)
	if v.Status.Message != "" {
		all = append(all, word{"message", v.Status.Message, true})
	}
	return tell(all)
}

// readClaim reads "claim NAME SIZE PHASE …". A claim that is Bound has what it asks for, unless the words say otherwise.
func readClaim(all []word) (*corev1.PersistentVolumeClaim, error) {
	size, err := resource.ParseQuantity(all[1].key)
	if err != nil {
		return nil, fmt.Errorf("size %q: %w", all[1].key, err)
	}
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: all[0].key}}
	c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: size}
	c.Spec.AccessModes = ordinaryModes()
	c.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeFilesystem)
	c.Status.Phase = corev1.PersistentVolumeClaimPhase(all[2].key)
	for _, w := range all[3:] {
		if !readMeta(&c.ObjectMeta, w) && !readClaimWord(c, w) && !strings.HasPrefix(w.key, "has") {
			return nil, fmt.Errorf("claim %s: unknown word %q", c.Name, w)
		}
	}
	was := c.Status
	c.Status = ordinaryStatus(c)
	for _, w := range all[3:] {
		if strings.HasPrefix(w.key, "has") && !readClaimHas(&c.Status, w) {
			return nil, fmt.Errorf("claim %s: unknown word %q", c.Name, w)
		}
	}
	c.Status.Phase = was.Phase
	return c, nil
}

// ordinaryStatus is the status of a claim of its phase about which no words need be said.
func ordinaryStatus(c *corev1.PersistentVolumeClaim) corev1.PersistentVolumeClaimStatus {
	status := corev1.PersistentVolumeClaimStatus{Phase: c.Status.Phase}
	if c.Status.Phase == corev1.ClaimBound {
		status.AccessModes = slices.Clone(c.Spec.AccessModes)
		status.Capacity = c.Spec.Resources.Requests.DeepCopy()
		status.CurrentVolumeAttributesClassName = c.Spec.VolumeAttributesClassName
	}
	return status
}

func readClaimWord(c *corev1.PersistentVolumeClaim, w word) bool {
	switch {
	case w.key == "block" && !w.has:
		c.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock)
	case !w.has:
		return false
	case w.key == "uid":
		c.UID = types.UID(w.value)
	case w.key == "volume":
		c.Spec.VolumeName = w.value
	case w.key == "class":
		c.Spec.StorageClassName = &w.value
	case w.key == "attributes":
		c.Spec.VolumeAttributesClassName = &w.value
	case w.key == "modes":
		c.Spec.AccessModes = readModes(w.value)
	case w.key == "selector":
		c.Spec.Selector = &metav1.LabelSelector{MatchLabels: readMap(w.value)}
	case w.key == "snapshot":
		c.Spec.DataSource = &corev1.TypedLocalObjectReference{
			APIGroup: ptr.To("snapshot.storage.k8s.io"), Kind: "VolumeSnapshot", Name: w.value,
		}
	default:
		return false
	}
	return true
}

func readClaimHas(status *corev1.PersistentVolumeClaimStatus, w word) bool {
	switch {
	case !w.has:
		return false
	case w.key == "has" && w.value == "nothing":
		*status = corev1.PersistentVolumeClaimStatus{Phase: status.Phase}
	case w.key == "has":
		size, err := resource.ParseQuantity(w.value)
		if err != nil {
			return false
		}
		status.Capacity = corev1.ResourceList{corev1.ResourceStorage: size}
	case w.key == "has-modes":
		status.AccessModes = readModes(w.value)
	case w.key == "has-attributes" && w.value == "":
		status.CurrentVolumeAttributesClassName = nil
	case w.key == "has-attributes":
		status.CurrentVolumeAttributesClassName = &w.value
	default:
		return false
	}
	return true
}

func tellClaim(c *corev1.PersistentVolumeClaim) string {
	all := []word{
		{key: "claim"},
		{key: c.Name},
		{key: c.Spec.Resources.Requests.Storage().String()},
		{key: string(c.Status.Phase)},
		{"uid", string(c.UID), true},
	}
	if c.Spec.VolumeName != "" {
		all = append(all, word{"volume", c.Spec.VolumeName, true})
	}
	all = append(all, tellClaimHas(c)...)
	if c.Spec.StorageClassName != nil {
		all = append(all, word{"class", *c.Spec.StorageClassName, true})
	}
	if ptr.Deref(c.Spec.VolumeMode, "") == corev1.PersistentVolumeBlock {
		all = append(all, word{key: "block"})
	}
	all = append(all, tellModes(c.Spec.AccessModes)...)
	if name := c.Spec.VolumeAttributesClassName; name != nil {
		all = append(all, word{"attributes", *name, true})
	}
	if c.Spec.Selector != nil {
		all = append(all, word{"selector", tellMap(c.Spec.Selector.MatchLabels), true})
	}
	if c.Spec.DataSource != nil {
		all = append(all, word{"snapshot", c.Spec.DataSource.Name, true})
	}
	return tell(append(all, tellMeta(&c.ObjectMeta)...))
}

func tellClaimHas(c *corev1.PersistentVolumeClaim) []word {
	usual, status := ordinaryStatus(c), c.Status
	if usual.Capacity != nil && status.Capacity == nil && status.AccessModes == nil {
		return []word{{"has", "nothing", true}}
	}
	var all []word
	if size := status.Capacity.Storage(); size.Cmp(*usual.Capacity.Storage()) != 0 {
		all = append(all, word{"has", size.String(), true})
	}
	if !slices.Equal(status.AccessModes, usual.AccessModes) {
		all = append(all, word{"has-modes", modesWord(status.AccessModes), true})
	}
	if !ptr.Equal(status.CurrentVolumeAttributesClassName, usual.CurrentVolumeAttributesClassName) {
		all = append(all, word{"has-attributes", ptr.Deref(status.CurrentVolumeAttributesClassName, ""), true})
	}
	return all
}

// readClass reads "class NAME PROVISIONER …".
func readClass(all []word) (*storagev1.StorageClass, error) {
	c := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: all[0].key}, Provisioner: all[1].key}
	for _, w := range all[2:] {
		switch {
		case w.key == "wait" && !w.has:
			c.VolumeBindingMode = ptr.To(storagev1.VolumeBindingWaitForFirstConsumer)
		case w.key == "default" && !w.has:
			metav1.SetMetaDataAnnotation(&c.ObjectMeta, annDefaultClass, "true")
		case w.key == "parameters" && w.has:
			c.Parameters = readMap(w.value)
		case w.key == "mount" && w.has:
			c.MountOptions = strings.Split(w.value, ",")
		default:
			return nil, fmt.Errorf("class %s: unknown word %q", c.Name, w)
		}
	}
	return c, nil
}

// readPod reads "pod NAME PHASE claim=NAME".
func readPod(all []word) (*corev1.Pod, error) {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: all[0].key}}
	p.Status.Phase = corev1.PodPhase(all[1].key)
	p.Spec.Containers = []corev1.Container{{Name: "main", Image: "image"}}
	for _, w := range all[2:] {
		if w.key != "claim" {
			return nil, fmt.Errorf("pod %s: unknown word %q", p.Name, w)
		}
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: w.value},
		}})
	}
	return p, nil
}

// readObject reads a line of words. A volume or claim must be told by the very same words.
func readObject(line string) (runtime.Object, error) {
	all, err := words(line)
	if err != nil {
		return nil, err
	}
	enough := map[string]int{"volume": 4, "claim": 4, "class": 3, "pod": 3, "node": 2}[all[0].key]
	if enough == 0 || len(all) < enough {
		return nil, fmt.Errorf("%q: want volume NAME SIZE PHASE, claim NAME SIZE PHASE, class NAME PROVISIONER, pod NAME PHASE, node NAME", line)
	}
	switch all[0].key {
	case "volume":
		v, err := readVolume(all[1:])
		if err != nil {
			return nil, err
		}
		return v, sameWords(line, tellVolume(v))
	case "claim":
		c, err := readClaim(all[1:])
		if err != nil {
			return nil, err
		}
		return c, sameWords(line, tellClaim(c))
	case "class":
		return readClass(all[1:])
	case "pod":
		return readPod(all[1:])
	default:
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: all[1].key}}, nil
	}
}

func sameWords(line, told string) error {
	if line != told {
		return fmt.Errorf("%q: write it as %q", line, told)
	}
	return nil
}

// untold says what of a volume or claim is told by no word.
func untold(obj runtime.Object) error {
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
		err = fmt.Errorf("there is no word for something of %+v", obj)
	}
	return err
}

// plain takes off what the server gives every object.
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
