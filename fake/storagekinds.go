package fake

import (
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volsim/volsim/fake/internal/rules"
)

// storageKinds are the resources of the group storage.k8s.io.
//
// Upstream: pkg/registry/storage, the strategies.
var storageKinds = []*kind{
	newKind(strategy[*storagev1.StorageClass]{
		resource: "storageclasses", gvk: storagev1.SchemeGroupVersion.WithKind("StorageClass"),
		rules:                    rules.StorageClass,
		short:                    []string{"sc"},
		allowUnconditionalUpdate: true,
	}, func(m metav1.ListMeta, items []storagev1.StorageClass) runtime.Object {
		return &storagev1.StorageClassList{ListMeta: m, Items: items}
	}),

	newKind(strategy[*storagev1.VolumeAttachment]{
		resource: "volumeattachments", gvk: storagev1.SchemeGroupVersion.WithKind("VolumeAttachment"),
		rules:      rules.VolumeAttachment,
		copyStatus: func(to, from *storagev1.VolumeAttachment) { to.Status = from.Status },
	}, func(m metav1.ListMeta, items []storagev1.VolumeAttachment) runtime.Object {
		return &storagev1.VolumeAttachmentList{ListMeta: m, Items: items}
	}),

	newKind(strategy[*storagev1.CSIDriver]{
		resource: "csidrivers", gvk: storagev1.SchemeGroupVersion.WithKind("CSIDriver"),
		rules: rules.CSIDriver,
	}, func(m metav1.ListMeta, items []storagev1.CSIDriver) runtime.Object {
		return &storagev1.CSIDriverList{ListMeta: m, Items: items}
	}),

	newKind(strategy[*storagev1.CSINode]{
		resource: "csinodes", gvk: storagev1.SchemeGroupVersion.WithKind("CSINode"),
		rules: rules.CSINode,
	}, func(m metav1.ListMeta, items []storagev1.CSINode) runtime.Object {
		return &storagev1.CSINodeList{ListMeta: m, Items: items}
	}),

	newKind(strategy[*storagev1.CSIStorageCapacity]{
		resource: "csistoragecapacities",
		gvk:      storagev1.SchemeGroupVersion.WithKind("CSIStorageCapacity"), namespaced: true,
		rules:               rules.CSIStorageCapacity,
		deleteReturnsStatus: true,
	}, func(m metav1.ListMeta, items []storagev1.CSIStorageCapacity) runtime.Object {
		return &storagev1.CSIStorageCapacityList{ListMeta: m, Items: items}
	}),

	newKind(strategy[*storagev1.VolumeAttributesClass]{
		resource: "volumeattributesclasses", gvk: storagev1.SchemeGroupVersion.WithKind("VolumeAttributesClass"),
		rules:                    rules.VolumeAttributesClass,
		short:                    []string{"vac"},
		allowUnconditionalUpdate: true,
	}, func(m metav1.ListMeta, items []storagev1.VolumeAttributesClass) runtime.Object {
		return &storagev1.VolumeAttributesClassList{ListMeta: m, Items: items}
	}),
}
