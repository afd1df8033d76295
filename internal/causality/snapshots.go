package causality

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// The resources of snapshots of claims.
const (
	snapshotResource = "volumesnapshots"
	contentResource  = "volumesnapshotcontents"
	groupResource    = "volumegroupsnapshots"
	groupContents    = "volumegroupsnapshotcontents"
)

// snapshotResources holds the resources of snapshots, whose objects are selected, too.
var snapshotResources = map[string]bool{snapshotResource: true, contentResource: true, groupResource: true, groupContents: true}

// snapshotKinds holds those resources by the kinds of their objects.
var snapshotKinds = map[string]string{
	"VolumeSnapshot": snapshotResource, "VolumeSnapshotContent": contentResource,
	"VolumeGroupSnapshot": groupResource, "VolumeGroupSnapshotContent": groupContents,
}

// A snapshot has the relations of a snapshot, a group of snapshots, or a content.
type snapshot struct {
	Spec struct {
		Source struct {
			Claim string `json:"persistentVolumeClaimName"`
		}
		Snapshot objectRef `json:"volumeSnapshotRef"`
		Group    objectRef `json:"volumeGroupSnapshotRef"`
	}
	Status struct {
		Handle      string `json:"snapshotHandle"`
		GroupHandle string `json:"volumeGroupSnapshotHandle"`
	}
}

type objectRef struct{ Namespace, Name string }

// observeSnapshot records the relations of a snapshot, a group or a content, and returns its name; "" for
// another object.
func (c *RelatedObjects) observeSnapshot(obj runtime.Object) string {
	o, ok := obj.(metav1.Object)
	if !ok {
		return ""
	}
	kind := obj.GetObjectKind().GroupVersionKind()
	resource := snapshotKinds[kind.Kind]
	if resource == "" || kind.Group != "snapshot.storage.k8s.io" && kind.Group != "groupsnapshot.storage.k8s.io" {
		return ""
	}
	key := resource + "/" + o.GetName()
	if namespace := o.GetNamespace(); namespace != "" {
		key = resource + "/" + namespace + "/" + o.GetName()
	}
	var s snapshot
	data, err := json.Marshal(obj)
	if err != nil || json.Unmarshal(data, &s) != nil {
		return key
	}
	if s.Spec.Source.Claim != "" {
		c.link(key, "persistentvolumeclaims/"+o.GetNamespace()+"/"+s.Spec.Source.Claim)
	}
	if ref := s.Spec.Snapshot; ref.Name != "" {
		c.link(key, snapshotResource+"/"+ref.Namespace+"/"+ref.Name)
	}
	if ref := s.Spec.Group; ref.Name != "" {
		c.link(key, groupResource+"/"+ref.Namespace+"/"+ref.Name)
	}
	for _, owner := range o.GetOwnerReferences() {
		if owner.Kind == "VolumeGroupSnapshot" {
			c.link(key, groupResource+"/"+o.GetNamespace()+"/"+owner.Name)
		}
	}
	switch {
	case s.Status.Handle != "":
		c.handles[s.Status.Handle] = key
	case s.Status.GroupHandle != "":
		c.handles[s.Status.GroupHandle] = key
	}
	return key
}

// linkSource records from which snapshot a claim is made.
func (c *RelatedObjects) linkSource(key string, claim *corev1.PersistentVolumeClaim) {
	if source := claim.Spec.DataSource; source != nil && source.Kind == "VolumeSnapshot" {
		c.link(key, snapshotResource+"/"+claim.Namespace+"/"+source.Name)
	}
}
