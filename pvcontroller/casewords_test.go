package pvcontroller

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	storagehelpers "k8s.io/component-helpers/storage/volume"
)

// The words that an object is told by in the cases, but for those of its own kind; testdata/cases/README.md tells them all.

// word is "key" or "key=value"; the value may be quoted.
type word struct {
	key, value string
	has        bool // it has a value
}

func (w word) String() string {
	if !w.has {
		return w.key
	}
	if w.value == "" || strings.ContainsAny(w.value, " \"\\") {
		return w.key + "=" + strconv.Quote(w.value)
	}
	return w.key + "=" + w.value
}

// words splits a line at its blanks, but for those between quotes.
func words(line string) ([]word, error) {
	var all []word
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimSpace(line) {
		end := strings.IndexAny(line, "= ")
		if end < 0 || line[end] == ' ' {
			key, rest, _ := strings.Cut(line, " ")
			all, line = append(all, word{key: key}), rest
			continue
		}
		w := word{key: line[:end], has: true}
		line = line[end+1:]
		if strings.HasPrefix(line, `"`) {
			quoted, err := strconv.QuotedPrefix(line)
			if err != nil {
				return nil, fmt.Errorf("%s: no end of the quotes", w.key)
			}
			w.value, _ = strconv.Unquote(quoted)
			line = line[len(quoted):]
		} else {
			w.value, line, _ = strings.Cut(line, " ")
		}
		all = append(all, w)
	}
	return all, nil
}

// The short words for annotations whose value is a name, and for those whose value does not matter and is "yes".
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
	shortModes = map[string]corev1.PersistentVolumeAccessMode{
		"RWO": corev1.ReadWriteOnce, "ROX": corev1.ReadOnlyMany, "RWX": corev1.ReadWriteMany, "RWOP": corev1.ReadWriteOncePod,
	}
	policies = []corev1.PersistentVolumeReclaimPolicy{
		corev1.PersistentVolumeReclaimRetain, corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRecycle, "Unknown",
	}
)

func ordinaryModes() []corev1.PersistentVolumeAccessMode {
	return []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce, corev1.ReadOnlyMany}
}

// readMeta takes in a word that claims and volumes have in common, and tells whether it was one.
func readMeta(meta *metav1.ObjectMeta, w word) bool {
	switch {
	case w.key == "deleting" && !w.has:
		meta.DeletionTimestamp = &metav1.Time{Time: deletedAt}
	case w.key == "finalizers" && w.has:
		for name := range strings.SplitSeq(w.value, ",") {
			if long, ok := shortFinalizers[name]; ok {
				name = long
			}
			meta.Finalizers = append(meta.Finalizers, name)
		}
	case w.key == "labels" && w.has:
		meta.Labels = readMap(w.value)
	case w.key == "provisioner" && w.has:
		metav1.SetMetaDataAnnotation(meta, storagehelpers.AnnStorageProvisioner, w.value)
		metav1.SetMetaDataAnnotation(meta, storagehelpers.AnnBetaStorageProvisioner, w.value)
	case w.key == "annotation" && w.has:
		name, value, _ := strings.Cut(w.value, ":")
		metav1.SetMetaDataAnnotation(meta, name, value)
	case namingAnnotations[w.key] != "" && w.has:
		metav1.SetMetaDataAnnotation(meta, namingAnnotations[w.key], w.value)
	case plainAnnotations[w.key] != "" && !w.has:
		metav1.SetMetaDataAnnotation(meta, plainAnnotations[w.key], "yes")
	default:
		return false
	}
	return true
}

// tellMeta is what readMeta reads, in a fixed order.
func tellMeta(meta *metav1.ObjectMeta) []word {
	var all []word
	left := maps.Clone(meta.Annotations)
	if len(meta.Labels) > 0 {
		all = append(all, word{"labels", tellMap(meta.Labels), true})
	}
	for _, key := range slices.Sorted(maps.Keys(plainAnnotations)) {
		if left[plainAnnotations[key]] == "yes" {
			all = append(all, word{key: key})
			delete(left, plainAnnotations[key])
		}
	}
	ga, hasGA := left[storagehelpers.AnnStorageProvisioner]
	if beta, has := left[storagehelpers.AnnBetaStorageProvisioner]; has && hasGA && ga == beta {
		all = append(all, word{"provisioner", ga, true})
		delete(left, storagehelpers.AnnStorageProvisioner)
		delete(left, storagehelpers.AnnBetaStorageProvisioner)
	}
	for _, key := range slices.Sorted(maps.Keys(namingAnnotations)) {
		if value, has := left[namingAnnotations[key]]; has {
			all = append(all, word{key, value, true})
			delete(left, namingAnnotations[key])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(left)) {
		all = append(all, word{"annotation", name + ":" + left[name], true})
	}
	if len(meta.Finalizers) > 0 {
		names := slices.Clone(meta.Finalizers)
		for short, long := range shortFinalizers { // each is another's: no order
			if i := slices.Index(names, long); i >= 0 {
				names[i] = short
			}
		}
		all = append(all, word{"finalizers", strings.Join(names, ","), true})
	}
	if meta.DeletionTimestamp != nil {
		all = append(all, word{key: "deleting"})
	}
	return all
}

func readModes(value string) []corev1.PersistentVolumeAccessMode {
	var modes []corev1.PersistentVolumeAccessMode
	for short := range strings.SplitSeq(value, ",") {
		modes = append(modes, shortModes[short])
	}
	return modes
}

func modesWord(modes []corev1.PersistentVolumeAccessMode) string {
	var names []string
	for _, m := range modes {
		for short, long := range shortModes { // each is another's: no order
			if m == long {
				names = append(names, short)
			}
		}
	}
	return strings.Join(names, ",")
}

func tellModes(modes []corev1.PersistentVolumeAccessMode) []word {
	if slices.Equal(modes, ordinaryModes()) {
		return nil
	}
	return []word{{"modes", modesWord(modes), true}}
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

func tell(all []word) string {
	texts := make([]string, len(all))
	for i, w := range all {
		texts[i] = w.String()
	}
	return strings.Join(texts, " ")
}
