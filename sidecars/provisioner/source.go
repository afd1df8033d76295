package provisioner

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/internal/snapshotapi"
	"github.com/volsim/volsim/sidecars/internal/driver"
)

// The kinds of data sources that the provisioner handles. It leaves all others to populators.
const (
	claimKind    = "PersistentVolumeClaim"
	snapshotKind = "VolumeSnapshot"
)

// A dataSource is the object from which the volume of a claim is made.
type dataSource struct{ group, kind, namespace, name string }

// dataSourceOf returns the data source of a claim, or nil if it has none.
//
// Upstream: external-provisioner pkg/controller dataSource (6.3.0).
func dataSourceOf(claim *corev1.PersistentVolumeClaim) *dataSource {
	if s := claim.Spec.DataSource; s != nil {
		return &dataSource{ptr.Deref(s.APIGroup, ""), s.Kind, claim.Namespace, s.Name}
	}
	if s := claim.Spec.DataSourceRef; s != nil {
		return &dataSource{ptr.Deref(s.APIGroup, ""), s.Kind, cmp.Or(ptr.Deref(s.Namespace, ""), claim.Namespace), s.Name}
	}
	return nil
}

// isFrom reports whether the volume of a claim is made from an object.
func isFrom(claim *corev1.PersistentVolumeClaim, kind, namespace, name string) bool {
	s := dataSourceOf(claim)
	return s != nil && s.kind == kind && s.namespace == namespace && s.name == name
}

// checkSource returns a final error for a data source that no retry makes acceptable: errPopulator for
// one that is a populator's.
//
// Upstream: external-provisioner pkg/controller dataSource, prepareProvision, checkDriverCapabilities
// (6.3.0).
func checkSource(claim *corev1.PersistentVolumeClaim, crossNamespace bool, capabilities driver.Capabilities) error {
	s := dataSourceOf(claim)
	if s == nil {
		return nil
	}
	ref := claim.Spec.DataSourceRef
	switch {
	case claim.Spec.DataSource == nil && ptr.Deref(ref.Namespace, "") != "" && !crossNamespace:
		return errors.New("dataSourceRef namespace specified but the CrossNamespaceVolumeDataSource feature is disabled")
	case s.name == "":
		return fmt.Errorf("the PVC source not found for PVC %s", claim.Name)
	case s.kind == snapshotKind && s.group != snapshotapi.Group:
		return fmt.Errorf("the PVC source does not belong to the right APIGroup. Expected %s, Got %s", snapshotapi.Group, s.group)
	case s.kind == snapshotKind && !capabilities[csispec.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT]:
		return errors.New("CSI driver does not support snapshot restore: " +
			"controller CREATE_DELETE_SNAPSHOT capability is not reported")
	case s.kind == claimKind && !capabilities[csispec.ControllerServiceCapability_RPC_CLONE_VOLUME]:
		return errors.New("CSI driver does not support clone operations: " +
			"controller CLONE_VOLUME capability is not reported")
	case s.kind != snapshotKind && s.kind != claimKind:
		return errPopulator
	}
	return nil
}

// findSource returns the volume or snapshot from which a claim's volume is made, and adds the finalizer
// to its object. It returns nil if there is none. No error is a NotFound error, which is reserved for
// nodes.
//
// Upstream: external-provisioner pkg/controller getVolumeContentSource (6.3.0).
func (c *Controller) findSource(
	ctx context.Context, claim *corev1.PersistentVolumeClaim, provisioner, class string,
) (*csispec.VolumeContentSource, error) {
	s := dataSourceOf(claim)
	if s == nil {
		return nil, nil //nolint:nilnil // none
	}
	if err := c.checkGranted(claim, s); err != nil {
		return nil, err
	}
	find := c.findSourceClaim
	if s.kind == snapshotKind {
		find = c.findSourceSnapshot
	}
	source, protect, err := find(ctx, claim, *s, provisioner, class)
	if err != nil {
		return nil, fmt.Errorf("error getting handle for DataSource Type %s by Name %s: %w", s.kind, s.name, err)
	}
	return source, protect(ctx)
}
