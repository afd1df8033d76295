package pvcontroller

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/volsim/volsim/internal/casefile"
)

// The words that describe an object in the cases, except those of one kind only.
// testdata/cases/README.md lists them all.

// Short words for annotations with a name as value, and for those with an arbitrary value, here
// "yes".
var (
	namingAnnotations = map[string]string{
		"made-by":          storagehelpers.AnnDynamicallyProvisioned,
		"migrated-to":      storagehelpers.AnnMigratedTo,
		"node":             storagehelpers.AnnSelectedNode,
		"class-annotation": corev1.BetaStorageClassAnnotation,
		"size-before":      annPreResizeCapacity,
		"provisioner-ga":   storagehelpers.AnnStorageProvisioner,
		"provisioner-beta": storagehelpers.AnnBetaStorageProvisioner,
	}
	plainAnnotations = map[string]string{
		"by-controller": storagehelpers.AnnBoundByController,
		"completed":     storagehelpers.AnnBindCompleted,
	}
	shortFinalizers = map[string]string{
		"in-tree":  storagehelpers.PVDeletionInTreeProtectionFinalizer,
		"external": storagehelpers.PVDeletionProtectionFinalizer,
	}
	policies = []corev1.PersistentVolumeReclaimPolicy{
		corev1.PersistentVolumeReclaimRetain, corev1.PersistentVolumeReclaimDelete,
		corev1.PersistentVolumeReclaimRecycle, "Unknown",
	}
)

func ordinaryModes() []corev1.PersistentVolumeAccessMode {
	return []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce, corev1.ReadOnlyMany}
}

// readMeta parses a word that claims and volumes share, and reports whether it was one.
func readMeta(meta *metav1.ObjectMeta, w casefile.Word) bool {
	switch {
	case w.Key == "deleting" && !w.HasValue:
		meta.DeletionTimestamp = &metav1.Time{Time: deletedAt}
	case w.Key == "finalizers" && w.HasValue:
		for name := range strings.SplitSeq(w.Value, ",") {
			if long, ok := shortFinalizers[name]; ok {
				name = long
			}
			meta.Finalizers = append(meta.Finalizers, name)
		}
	case w.Key == "labels" && w.HasValue:
		meta.Labels = readMap(w.Value)
	case w.Key == "provisioner" && w.HasValue:
		metav1.SetMetaDataAnnotation(meta, storagehelpers.AnnStorageProvisioner, w.Value)
		metav1.SetMetaDataAnnotation(meta, storagehelpers.AnnBetaStorageProvisioner, w.Value)
	case w.Key == "annotation" && w.HasValue:
		name, value, _ := strings.Cut(w.Value, ":")
		metav1.SetMetaDataAnnotation(meta, name, value)
	case namingAnnotations[w.Key] != "" && w.HasValue:
		metav1.SetMetaDataAnnotation(meta, namingAnnotations[w.Key], w.Value)
	case plainAnnotations[w.Key] != "" && !w.HasValue:
		metav1.SetMetaDataAnnotation(meta, plainAnnotations[w.Key], "yes")
	default:
		return false
	}
	return true
}

// tellMeta formats the words that readMeta parses, in a fixed order.
func tellMeta(meta *metav1.ObjectMeta) []casefile.Word {
	var all []casefile.Word
	left := maps.Clone(meta.Annotations)
	if len(meta.Labels) > 0 {
		all = append(all, casefile.KeyValue("labels", tellMap(meta.Labels)))
	}
	for _, key := range slices.Sorted(maps.Keys(plainAnnotations)) {
		if left[plainAnnotations[key]] == "yes" {
			all = append(all, casefile.Word{Key: key})
			delete(left, plainAnnotations[key])
		}
	}
	ga, hasGA := left[storagehelpers.AnnStorageProvisioner]
	if beta, has := left[storagehelpers.AnnBetaStorageProvisioner]; has && hasGA && ga == beta {
		all = append(all, casefile.KeyValue("provisioner", ga))
		delete(left, storagehelpers.AnnStorageProvisioner)
		delete(left, storagehelpers.AnnBetaStorageProvisioner)
	}
	for _, key := range slices.Sorted(maps.Keys(namingAnnotations)) {
		if value, has := left[namingAnnotations[key]]; has {
			all = append(all, casefile.KeyValue(key, value))
			delete(left, namingAnnotations[key])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(left)) {
		all = append(all, casefile.KeyValue("annotation", name+":"+left[name]))
	}
	if len(meta.Finalizers) > 0 {
		names := slices.Clone(meta.Finalizers)
		for short, long := range shortFinalizers { // independent: order does not matter
			if i := slices.Index(names, long); i >= 0 {
				names[i] = short
			}
		}
		all = append(all, casefile.KeyValue("finalizers", strings.Join(names, ",")))
	}
	if meta.DeletionTimestamp != nil {
		all = append(all, casefile.Word{Key: "deleting"})
	}
	return all
}

func tellModes(modes []corev1.PersistentVolumeAccessMode) []casefile.Word {
	if slices.Equal(modes, ordinaryModes()) {
		return nil
	}
	return []casefile.Word{casefile.KeyValue("modes", casefile.FormatAccessModes(modes))}
}

func readMap(value string) map[string]string {
	m := map[string]string{}
	for pair := range strings.SplitSeq(value, ",") {
		key, val, _ := strings.Cut(pair, ":")
		m[key] = val
	}
	return m
}

func tellMap(m map[string]string) string {
	var pairs []string
	for _, key := range slices.Sorted(maps.Keys(m)) {
		pairs = append(pairs, key+":"+m[key])
	}
	return strings.Join(pairs, ",")
}
