package trace

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// snapshotKinds holds the words for the kinds of snapshots, by kind.
var snapshotKinds = map[string]string{
	"VolumeSnapshot": "snapshot", "VolumeSnapshotContent": "snapshot content",
	"VolumeGroupSnapshot": "group snapshot", "VolumeGroupSnapshotContent": "group snapshot content",
}

// A snapshot is what descriptions tell of a snapshot, of a group of snapshots, or of their contents.
type snapshot struct {
	Spec struct {
		Source struct {
			Claim         string `json:"persistentVolumeClaimName"`
			Content       string `json:"volumeSnapshotContentName"`
			GroupContent  string `json:"volumeGroupSnapshotContentName"`
			VolumeHandle  string `json:"volumeHandle"`
			VolumeHandles []string
			Selector      *metav1.LabelSelector
		}
		SnapshotRef      snapshotRef `json:"volumeSnapshotRef"`
		GroupSnapshotRef snapshotRef `json:"volumeGroupSnapshotRef"`
	}
	Status struct {
		Content      string `json:"boundVolumeSnapshotContentName"`
		GroupContent string `json:"boundVolumeGroupSnapshotContentName"`
		Handle       string `json:"snapshotHandle"`
		GroupHandle  string `json:"volumeGroupSnapshotHandle"`
		ReadyToUse   bool
		Error        struct{ Message string }
	}
}

// A snapshotRef is the reference of a content to its snapshot.
type snapshotRef struct{ Namespace, Name string }

// String returns "default/data", "" for no reference.
func (r snapshotRef) String() string {
	if r.Name == "" {
		return ""
	}
	return r.Namespace + "/" + r.Name
}

// isSnapshot reports whether an object is a snapshot, a group of snapshots, or a content.
func isSnapshot(obj runtime.Object) bool {
	if obj == nil {
		return false
	}
	kind := obj.GetObjectKind().GroupVersionKind()
	of := kind.Group == "snapshot.storage.k8s.io" || kind.Group == "groupsnapshot.storage.k8s.io"
	return of && snapshotKinds[kind.Kind] != ""
}

// nameOfSnapshot returns the kind and the name of a snapshot: "snapshot default/data".
func nameOfSnapshot(obj runtime.Object) string {
	meta, ok := obj.(metav1.Object)
	if !ok {
		return ""
	}
	ref := meta.GetName()
	if namespace := meta.GetNamespace(); namespace != "" {
		ref = namespace + "/" + ref
	}
	return snapshotKinds[obj.GetObjectKind().GroupVersionKind().Kind] + " " + ref
}

// parseSnapshot returns the fields of a snapshot; none for nil.
func parseSnapshot(obj runtime.Object) (s snapshot) {
	if obj == nil {
		return s
	}
	if data, err := json.Marshal(obj); err == nil {
		_ = json.Unmarshal(data, &s) // an object of the API has these types
	}
	return s
}

// describeSnapshot describes a write of a snapshot, of a group, or of a content.
func describeSnapshot(before, after runtime.Object) (string, bool) {
	was, is, noun := parseSnapshot(before), parseSnapshot(after), nameOfSnapshot(after)
	source, status := &is.Spec.Source, &is.Status
	var creation string
	switch {
	case source.Claim != "":
		creation = fmt.Sprintf("creates %s of claim %s", noun, source.Claim)
	case source.Selector != nil:
		creation = fmt.Sprintf("creates %s of the claims with %s", noun, metav1.FormatLabelSelector(source.Selector))
	case is.Spec.SnapshotRef.Name != "":
		creation = fmt.Sprintf("creates %s for snapshot %s", noun, is.Spec.SnapshotRef)
	case is.Spec.GroupSnapshotRef.Name != "":
		creation = fmt.Sprintf("creates %s for group snapshot %s", noun, is.Spec.GroupSnapshotRef)
	default:
		creation = fmt.Sprintf("creates %s of content %s%s", noun, source.Content, source.GroupContent)
	}
	content := status.Content + status.GroupContent
	handle := status.Handle
	if handle == "" {
		handle = status.GroupHandle
	}
	return firstHolding(
		candidate{before == nil, creation},
		candidate{content != was.Status.Content+was.Status.GroupContent, fmt.Sprintf("binds %s to content %s", noun, content)},
		candidate{status.ReadyToUse && !was.Status.ReadyToUse, fmt.Sprintf("reports %s ready to use", noun)},
		candidate{
			handle != "" && was.Status.Handle+was.Status.GroupHandle == "",
			fmt.Sprintf("reports %s taken as %s", noun, handle),
		},
		candidate{
			status.Error.Message != "" && status.Error.Message != was.Status.Error.Message,
			fmt.Sprintf("reports an error of %s: %s", noun, status.Error.Message),
		},
		candidate{was.Status.ReadyToUse && !status.ReadyToUse, fmt.Sprintf("reports %s not ready to use", noun)},
	)
}
