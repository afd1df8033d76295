package invariant

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/fake"
)

// Rules about snapshots of volumes.
var snapshotRules = []builtIn{
	{"I64", "a snapshot whose data changes", snapshotRule(beginSnapshotData)},
	{"I65", "a volume without the data of its claim's source", beginSourceData},
	{"I66", "a source of data that is released while it is read", snapshotRule(beginSources)},
	{"I67", "a content that is released while the driver has its snapshot", snapshotRule(beginReleased)},
	{"L19", "a snapshot that is not taken, not removed, or that no content names", snapshotRule(beginSnapshotsEnd)},
}

const (
	// snapshotsTraced and contentsTraced are the resources as traces have them.
	snapshotsTraced = "volumesnapshots"
	contentsTraced  = "volumesnapshotcontents"
	snapshotGroup   = "snapshot.storage.k8s.io"
	// snapshots and contents are the resources as the server names them.
	snapshots = snapshotsTraced + "." + snapshotGroup
	contents  = contentsTraced + "." + snapshotGroup

	// Finalizers.
	finalizerSource      = "snapshot.storage.kubernetes.io/volumesnapshot-as-source-protection"
	finalizerClaimSource = "snapshot.storage.kubernetes.io/pvc-as-source-protection"
	finalizerContent     = "snapshot.storage.kubernetes.io/volumesnapshotcontent-bound-protection"

	// snapshotNamePrefix precedes the UID of a VolumeSnapshot in the name that a driver gets.
	//
	// Upstream: external-snapshotter cmd/csi-snapshotter --snapshot-name-prefix (8.7.0).
	snapshotNamePrefix = "snapshot-"
)

// aboutSnapshots is the subject of these rules.
var aboutSnapshots = subject{snapshots, contents}

// snapshotRule defers the begin of a rule until the world has a snapshot or a content.
func snapshotRule(begin func(c *Checker) watcher) func(c *Checker) watcher {
	return func(*Checker) watcher { return watcher{later: later{&aboutSnapshots, begin}} }
}

// A SnapshotBackend is a Backend with snapshots.
type SnapshotBackend interface {
	Backend
	// Snapshots returns the snapshots, by handle.
	Snapshots() []Snapshot
	// Source returns the handle of the volume or snapshot of which a volume is a copy; "": it was empty.
	Source(handle string) string
}

// A Snapshot is a snapshot of a backend.
type Snapshot struct {
	Handle string
	Name   string // with which it was requested; for a member of a group, that of the group
	Hash   string // of its data; "": unknown
}

// A snapshotObject is what the rules read of a VolumeSnapshot.
type snapshotObject struct {
	namespace, name, uid string
	claim, content       string // its source claim, and the content that its status names
	ready, failed        bool
	deleting             bool
}

// A contentObject is what the rules read of a VolumeSnapshotContent.
type contentObject struct {
	name, driver, policy string
	handle               string // that its status names, or its source
	source               string // the handle of the volume of which it is a snapshot; "": none
	snapshotUID          string
	dynamic              bool // its source is a volume
	ready, failed        bool
	deleting             bool
}

func snapshotOf(obj fake.Object) snapshotObject {
	content := obj.(*fake.CustomObject).Content
	return snapshotObject{
		namespace: obj.GetNamespace(), name: obj.GetName(), uid: string(obj.GetUID()),
		claim:   textIn(content, "spec", "source", "persistentVolumeClaimName"),
		content: textIn(content, "status", "boundVolumeSnapshotContentName"),
		ready:   boolIn(content, "status", "readyToUse"), failed: hasIn(content, "status", "error"),
		deleting: obj.GetDeletionTimestamp() != nil,
	}
}

func contentOf(obj fake.Object) contentObject {
	content := obj.(*fake.CustomObject).Content
	made := contentObject{
		name: obj.GetName(), driver: textIn(content, "spec", "driver"), policy: textIn(content, "spec", "deletionPolicy"),
		handle: textIn(content, "status", "snapshotHandle"), snapshotUID: textIn(content, "spec", "volumeSnapshotRef", "uid"),
		source:  textIn(content, "spec", "source", "volumeHandle"),
		dynamic: hasIn(content, "spec", "source", "volumeHandle"),
		ready:   boolIn(content, "status", "readyToUse"), failed: hasIn(content, "status", "error"),
		deleting: obj.GetDeletionTimestamp() != nil,
	}
	if made.handle == "" {
		made.handle = textIn(content, "spec", "source", "snapshotHandle")
	}
	return made
}

// names reports whether a content names a snapshot of its driver: by its handle or, if the driver has not
// answered, by the name of the request.
func (o *contentObject) names(s Snapshot) bool {
	if o.handle != "" {
		return o.handle == s.Handle
	}
	return o.dynamic && o.snapshotUID != "" && s.Name == snapshotNamePrefix+o.snapshotUID
}

// textIn, boolIn and hasIn read a field of a custom resource; they return zero if it does not exist.
func textIn(content map[string]any, fields ...string) string {
	s, _, _ := unstructured.NestedString(content, fields...)
	return s
}

func boolIn(content map[string]any, fields ...string) bool {
	b, _, _ := unstructured.NestedBool(content, fields...)
	return b
}

func hasIn(content map[string]any, fields ...string) bool {
	_, has, _ := unstructured.NestedFieldNoCopy(content, fields...)
	return has
}

// allSnapshots and allContents return the objects in the store, by namespace and name.
func (c *Checker) allSnapshots() []snapshotObject {
	list := c.API.List(snapshots)
	all := make([]snapshotObject, len(list))
	for i, obj := range list {
		all[i] = snapshotOf(obj)
	}
	return all
}

func (c *Checker) allContents() []contentObject {
	list := c.API.List(contents)
	all := make([]contentObject, len(list))
	for i, obj := range list {
		all[i] = contentOf(obj)
	}
	return all
}

// contentNamed returns a content; false if it does not exist.
func (c *Checker) contentNamed(name string) (contentObject, bool) {
	obj, exists := c.API.Get(contents, "", name)
	if name == "" || !exists {
		return contentObject{}, false
	}
	return contentOf(obj), true
}

// snapshotBackend returns the backend of a driver if its snapshots are known; nil if they are not.
func (c *Checker) snapshotBackend(driver string) SnapshotBackend {
	b, _ := c.backend(driver).(SnapshotBackend)
	return b
}

// snapshotOfContent returns the driver's snapshot of a content.
func (c *Checker) snapshotOfContent(o *contentObject) (Snapshot, bool) {
	b := c.snapshotBackend(o.driver)
	if b == nil {
		return Snapshot{}, false
	}
	all := b.Snapshots()
	if i := slices.IndexFunc(all, o.names); i >= 0 {
		return all[i], true
	}
	return Snapshot{}, false
}

// sourceOf returns in words the source of the data of a claim, and its handle at the driver, "" if that is
// not known. A claim without a source, or with one that a populator serves, has none.
func (c *Checker) sourceOf(claim *corev1.PersistentVolumeClaim) (words, handle string) {
	source := claim.Spec.DataSource
	switch {
	case source == nil:
	case source.Kind == "PersistentVolumeClaim" && ptr.Deref(source.APIGroup, "") == "":
		obj, exists := c.API.Get("persistentvolumeclaims", claim.Namespace, source.Name)
		if !exists {
			break
		}
		if v := csiVolumeNamed(c.API, obj.(*corev1.PersistentVolumeClaim).Spec.VolumeName); v != nil {
			return "claim " + claim.Namespace + "/" + source.Name, v.Spec.CSI.VolumeHandle
		}
	case source.Kind == "VolumeSnapshot" && ptr.Deref(source.APIGroup, "") == snapshotGroup:
		obj, exists := c.API.Get(snapshots, claim.Namespace, source.Name)
		if !exists {
			break
		}
		if content, exists := c.contentNamed(snapshotOf(obj).content); exists {
			return "snapshot " + claim.Namespace + "/" + source.Name, content.handle
		}
	}
	return "", ""
}

// restoresFrom reports whether a claim has a snapshot of its namespace as its source.
func restoresFrom(claim *corev1.PersistentVolumeClaim, snapshot *snapshotObject) bool {
	source := claim.Spec.DataSource
	return source != nil && source.Kind == "VolumeSnapshot" && ptr.Deref(source.APIGroup, "") == snapshotGroup &&
		claim.Namespace == snapshot.namespace && source.Name == snapshot.name
}

// isSnapshotCall reports whether a driver call may concern the data of snapshots.
func isSnapshotCall(verb string) bool {
	return strings.HasSuffix(verb, "Snapshot") || verb == "CreateVolume" || verb == "DeleteVolume" || verb == "NodeUnpublishVolume"
}
