package plugins

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
