package plugins

import (
	"fmt"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	csitranslation "k8s.io/csi-translation-lib"
)

// Migration maps plugins whose volumes are handled by CSI drivers now, in whatever way they were made, to the drivers.
type Migration map[string]string

// Migrated is what Kubernetes 1.36 migrates: all of it, and always.
//
// Upstream: pkg/volume/csimigration IsMigrationEnabledForPlugin, k8s.io/csi-translation-lib GetCSINameFromInTreeName (v1.36).
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

// Translate is the volume as its CSI driver has it; one of a plugin that is not migrated is as it was. Of a volume written
// out in a pod of the namespace it makes a PersistentVolume that no API server has.
//
// Upstream: pkg/volume/csimigration IsMigratable, TranslateInTreeSpecToCSI (v1.36).
func (m Migration) Translate(spec *Spec, namespace string) (*Spec, error) {
	if spec.PersistentVolume != nil && spec.PersistentVolume.Spec.CSI != nil {
		return spec, nil
	}
	translator := csitranslation.New()
	plugin, err := translator.GetInTreePluginNameFromSpec(spec.PersistentVolume, spec.Volume)
	if _, migrated := m[plugin]; err != nil || !migrated {
		return spec, nil //nolint:nilerr // the error is that there is no such plugin
	}
	var volume *corev1.PersistentVolume
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
