package casefile

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// A Kind is a kind of object that a line of words describes.
type Kind struct {
	Usage string // the kind and its required words, such as "claim NAME PHASE"
	// Read returns the objects that the words after the kind describe, and the line that describes
	// them. "" means that they have no unique line.
	Read func(words []Word) (objects []runtime.Object, line string, err error)
}

// NewKind returns a kind whose lines describe one object each. describe returns the line of an
// object, or ""; it may be nil.
func NewKind[O runtime.Object](usage string, read func([]Word) (O, error), describe func(O) string) Kind {
	return Kind{Usage: usage, Read: func(words []Word) ([]runtime.Object, string, error) {
		object, err := read(words)
		if err != nil || describe == nil {
			return []runtime.Object{object}, "", err
		}
		return []runtime.Object{object}, describe(object), nil
	}}
}

// ReadObjects returns the objects that a line describes. The line must be the one that describes
// them.
func ReadObjects(kinds []Kind, line string) ([]runtime.Object, error) {
	words, err := ParseWords(line)
	if err != nil {
		return nil, err
	}
	usages := make([]string, len(kinds))
	for i, kind := range kinds {
		usages[i] = kind.Usage
		required := strings.Fields(kind.Usage)
		if len(words) < len(required) || words[0].Key != required[0] {
			continue
		}
		objects, described, err := kind.Read(words[1:])
		if err == nil && described != "" && described != line {
			err = fmt.Errorf("%q: write it as %q", line, described)
		}
		return objects, err
	}
	return nil, fmt.Errorf("%q: want %s", line, strings.Join(usages, ", "))
}

var accessModes = map[string]corev1.PersistentVolumeAccessMode{
	"RWO": corev1.ReadWriteOnce, "ROX": corev1.ReadOnlyMany, "RWX": corev1.ReadWriteMany,
	"RWOP": corev1.ReadWriteOncePod,
}

// ParseAccessModes parses a list of access modes, such as "RWO,ROX".
func ParseAccessModes(list string) []corev1.PersistentVolumeAccessMode {
	var modes []corev1.PersistentVolumeAccessMode
	for short := range strings.SplitSeq(list, ",") {
		modes = append(modes, accessModes[short])
	}
	return modes
}

// FormatAccessModes returns the list that ParseAccessModes parses.
func FormatAccessModes(modes []corev1.PersistentVolumeAccessMode) string {
	var list []string
	for _, mode := range modes {
		for _, short := range slices.Sorted(maps.Keys(accessModes)) {
			if accessModes[short] == mode {
				list = append(list, short)
			}
		}
	}
	return strings.Join(list, ",")
}
