package csi

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/plugins"
)

// MigratedAnnotation returns the annotation by which a CSINode lists the plugins whose volumes CSI
// drivers handle.
//
// Upstream: pkg/volume/csi migratedPlugins, k8s.io/api/core/v1 MigratedPluginsAnnotationKey
// (v1.36).
func MigratedAnnotation() map[string]string {
	return map[string]string{
		corev1.MigratedPluginsAnnotationKey: strings.Join(slices.Sorted(maps.Keys(plugins.Migrated())), ","),
	}
}

// InitializeCSINode ensures that the node has a CSINode that it owns and that lists the migrated
// plugins. It makes one attempt, which may be repeated. node is the Node's UID if known, or "".
//
// Differs: upstream's kubelet exits after 24 failed attempts, for a supervisor to restart it, and
// is not ready before.
//
// Upstream: pkg/volume/csi/nodeinfomanager tryInitializeCSINodeWithAnnotation (v1.36).
func (p *Plugin) InitializeCSINode(ctx context.Context, node types.UID) error {
	p.nodeUID = node
	own, err := p.csiNode(ctx)
	if err != nil || !markMigrated(own, plugins.Migrated()) {
		return err
	}
	_, err = p.updateCSINode(ctx, own)
	return err
}

// csiNode returns the node's CSINode, which it creates if necessary. The caller may modify it. A
// CSINode of an earlier Node of the same name is deleted, which is an error.
//
// Differs: upstream knows the Node as it was when the kubelet started. It takes a CSINode of a Node
// that was recreated since for an earlier one's, and deletes whatever has the name by then.
//
// Upstream: pkg/volume/csi/nodeinfomanager tryUpdateCSINode, ensureNodeOwnsCSINode (v1.36).
func (p *Plugin) csiNode(ctx context.Context) (*storagev1.CSINode, error) {
	own, err := p.cfg.Client.StorageV1().CSINodes().Get(ctx, string(p.cfg.NodeName), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return p.createCSINode(ctx)
	}
	if err != nil || p.owns(own) {
		return ownCopy(own, err)
	}
	if _, err := p.getNode(ctx); err != nil {
		return nil, err
	}
	if p.owns(own) {
		return ownCopy(own, nil)
	}
	err = p.cfg.Client.StorageV1().CSINodes().Delete(ctx, own.Name,
		metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(own.UID))})
	if err != nil {
		return nil, fmt.Errorf("error deleting existing CSINode %q: %w", own.Name, err)
	}
	return nil, fmt.Errorf("CSINode %q was owned by different node (oldNodeID=%q, newNodeID=%q), deleted it",
		own.Name, ownerOf(own), p.nodeUID)
}

// ownCopy returns a copy of an answer that may be shared.
func ownCopy(node *storagev1.CSINode, err error) (*storagev1.CSINode, error) {
	return node.DeepCopy(), err
}

// owns reports whether a CSINode belongs to the Node.
//
// Upstream: pkg/volume/csi/nodeinfomanager nodeOwnsCSINode (v1.36).
func (p *Plugin) owns(node *storagev1.CSINode) bool {
	return slices.ContainsFunc(node.OwnerReferences, func(o metav1.OwnerReference) bool {
		return o.Kind == "Node" && o.Name == string(p.cfg.NodeName) && o.UID == p.nodeUID
	})
}

// ownerOf returns the UID of the Node that owns a CSINode.
func ownerOf(node *storagev1.CSINode) types.UID {
	var owner types.UID
	for _, o := range node.OwnerReferences {
		if o.Kind == "Node" {
			owner = o.UID
		}
	}
	return owner
}

// createCSINode creates the CSINode of the current Node.
//
// Upstream: pkg/volume/csi/nodeinfomanager CreateCSINode (v1.36).
func (p *Plugin) createCSINode(ctx context.Context) (*storagev1.CSINode, error) {
	node, err := p.getNode(ctx)
	if err != nil {
		return nil, err
	}
	owner := metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}
	return ownCopy(p.cfg.Client.StorageV1().CSINodes().Create(ctx, &storagev1.CSINode{
		ObjectMeta: metav1.ObjectMeta{
			Name: node.Name, OwnerReferences: []metav1.OwnerReference{owner}, Annotations: MigratedAnnotation(),
		},
	}, metav1.CreateOptions{}))
}

// markMigrated updates the list of migrated plugins of a CSINode, and reports whether it changed.
// The order of the names does not matter.
//
// Upstream: pkg/volume/csi/nodeinfomanager setMigrationAnnotation (v1.36).
func markMigrated(node *storagev1.CSINode, migrated plugins.Migration) (changed bool) {
	const key = corev1.MigratedPluginsAnnotationKey
	value, found := node.Annotations[key]
	got, want := strings.Split(value, ","), slices.Sorted(maps.Keys(migrated))
	slices.Sort(got)
	switch {
	case len(want) == 0:
		delete(node.Annotations, key)
		return found && value != ""
	case slices.Equal(slices.Compact(got), want):
		return false
	case node.Annotations == nil:
		node.Annotations = map[string]string{}
	}
	node.Annotations[key] = strings.Join(want, ",")
	return true
}

// updateDriverEntry writes a driver's entry into the node's CSINode.
//
// Differs: an entry that changes keeps its position if possible; upstream moves it to the end. If a
// field that the API does not allow to change differs, the entry is removed first. Upstream tries
// in vain, unregisters the driver, and registers it again later.
//
// Upstream: pkg/volume/csi/nodeinfomanager updateCSINode, UpdateCSIDriver (v1.36), and their texts.
func (p *Plugin) updateDriverEntry(ctx context.Context, entry storagev1.CSINodeDriver) error {
	err := p.retry(func() error {
		node, err := p.csiNode(ctx)
		if err != nil {
			return err
		}
		marked, current := markMigrated(node, plugins.Migrated()), findDriverEntry(node, entry.Name)
		if current != nil && (current.NodeID != entry.NodeID || !sameKeys(current.TopologyKeys, entry.TopologyKeys)) {
			node.Spec.Drivers = slices.DeleteFunc(node.Spec.Drivers,
				func(d storagev1.CSINodeDriver) bool { return d.Name == entry.Name })
			if node, err = p.updateCSINode(ctx, node); err != nil {
				return err
			}
			current = nil
		}
		switch {
		case current == nil:
			node.Spec.Drivers = append(node.Spec.Drivers, entry)
		case !equality.Semantic.DeepEqual(current.Allocatable, entry.Allocatable):
			current.Allocatable = entry.Allocatable
		case !marked:
			return nil
		}
		_, err = p.updateCSINode(ctx, node)
		return err
	})
	if err != nil {
		return fmt.Errorf("error updating CSINode object with CSI driver node info: error updating CSINode: %w", err)
	}
	p.rememberDriverEntry(entry)
	return nil
}

func (p *Plugin) updateCSINode(ctx context.Context, node *storagev1.CSINode) (*storagev1.CSINode, error) {
	return ownCopy(p.cfg.Client.StorageV1().CSINodes().Update(ctx, node, metav1.UpdateOptions{}))
}

// findDriverEntry returns a driver's entry in a CSINode, or nil.
func findDriverEntry(node *storagev1.CSINode, driver string) *storagev1.CSINodeDriver {
	i := slices.IndexFunc(node.Spec.Drivers, func(d storagev1.CSINodeDriver) bool { return d.Name == driver })
	if i < 0 {
		return nil
	}
	return &node.Spec.Drivers[i]
}

// sameKeys reports whether a and b hold the same keys in any order.
func sameKeys(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// removeDriverEntry removes a driver's entry from the node's CSINode, if there is one.
//
// Upstream: pkg/volume/csi/nodeinfomanager tryUninstallDriverFromCSINode (v1.36).
func (p *Plugin) removeDriverEntry(ctx context.Context, driver string) error {
	node, err := ownCopy(p.cfg.Client.StorageV1().CSINodes().Get(ctx, string(p.cfg.NodeName), metav1.GetOptions{}))
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	others := slices.DeleteFunc(slices.Clone(node.Spec.Drivers),
		func(d storagev1.CSINodeDriver) bool { return d.Name == driver })
	if len(others) == len(node.Spec.Drivers) {
		return nil
	}
	node.Spec.Drivers = others
	_, err = p.updateCSINode(ctx, node)
	return err
}

func topologyKeys(info *csispec.NodeGetInfoResponse) []string {
	return slices.Sorted(maps.Keys(info.GetAccessibleTopology().GetSegments()))
}
