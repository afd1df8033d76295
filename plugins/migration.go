package plugins

import (
	"fmt"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	csitranslation "k8s.io/csi-translation-lib"
)

// A Migration maps in-tree plugins whose volumes CSI drivers now serve to those drivers.
type Migration map[string]string

// Migrated returns the migrations of Kubernetes 1.36, which are always enabled.
//
// Upstream: pkg/volume/csimigration IsMigrationEnabledForPlugin, k8s.io/csi-translation-lib
// GetCSINameFromInTreeName (v1.36).
func Migrated() Migration {
	return Migration{
		"kubernetes.io/aws-ebs":         "ebs.csi.aws.com",
		"kubernetes.io/azure-disk":      "disk.csi.azure.com",
		"kubernetes.io/azure-file":      "file.csi.azure.com",
		"kubernetes.io/cinder":          "cinder.csi.openstack.org",
		"kubernetes.io/gce-pd":          "pd.csi.storage.gke.io",
		"kubernetes.io/portworx-volume": "pxd.portworx.com",
		"kubernetes.io/vsphere-volume":  "csi.vsphere.vmware.com",
	}
}

// DriverOf returns the in-tree plugin of a volume and the CSI driver that serves its volumes, and
// reports whether the plugin is migrated.
//
// Upstream: pkg/volume/csimigration IsMigratable, GetInTreePluginNameFromSpec (v1.36).
func (m Migration) DriverOf(spec *Spec) (plugin, driver string, migrated bool) {
	plugin, err := csitranslation.New().GetInTreePluginNameFromSpec(spec.PersistentVolume, spec.Volume)
	if err != nil {
		return "", "", false // there is no such plugin
	}
	driver, migrated = m[plugin]
	return plugin, driver, migrated
}

// Translate returns the volume as its CSI driver sees it. A volume of a plugin that is not migrated
// is returned unchanged. An inline volume of a pod in the namespace becomes a PersistentVolume that
// does not exist in the API.
//
// Upstream: pkg/volume/csimigration IsMigratable, TranslateInTreeSpecToCSI (v1.36).
func (m Migration) Translate(spec *Spec, namespace string) (*Spec, error) {
	if spec.PersistentVolume != nil && spec.PersistentVolume.Spec.CSI != nil {
		return spec, nil
	}
	translator := csitranslation.New()
	plugin, _, migrated := m.DriverOf(spec)
	if !migrated {
		return spec, nil
	}
	var volume *corev1.PersistentVolume
	var err error
	if spec.PersistentVolume != nil {
		volume, err = translator.TranslateInTreePVToCSI(logr.Discard(), spec.PersistentVolume)
	} else {
		volume, err = translator.TranslateInTreeInlineVolumeToCSI(logr.Discard(), spec.Volume, namespace)
	}
	if err != nil {
		return nil, fmt.Errorf("translate volume %q of %s to CSI: %w", spec.Name(), plugin, err)
	}
	return &Spec{PersistentVolume: volume, ReadOnly: spec.ReadOnly, Inline: spec.Volume != nil}, nil
}
