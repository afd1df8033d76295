package csi

import (
	"fmt"
	"slices"

	storagev1 "k8s.io/api/storage/v1"

	"github.com/volsim/volsim/plugins"
)

// SupportsSELinuxContextMount reports whether the volume's driver can mount with an SELinux label,
// according to its CSIDriver object.
//
// Upstream: pkg/volume/csi csiPlugin.SupportsSELinuxContextMount (v1.36).
func (p *Plugin) SupportsSELinuxContextMount(spec *plugins.Spec) (bool, error) {
	name, err := driverOf(spec)
	if err != nil {
		return false, err
	}
	driver, err := p.csiDriver(name)
	return supportsSELinuxMount(driver), err
}

func supportsSELinuxMount(driver *storagev1.CSIDriver) bool {
	return driver != nil && driver.Spec.SELinuxMount != nil && *driver.Spec.SELinuxMount
}

// mountLabel returns the SELinux label that the driver must mount with; "": none. driver is its
// CSIDriver object.
func mountLabel(driver *storagev1.CSIDriver, opts plugins.MountOptions) string {
	if !supportsSELinuxMount(driver) {
		return ""
	}
	return opts.SELinuxLabel
}

// withSELinuxLabel adds the mount option for an SELinux label, which may contain commas.
//
// Upstream: pkg/volume/util AddSELinuxMountOption (v1.36).
func withSELinuxLabel(options []string, label string) []string {
	if label == "" {
		return options
	}
	return append(slices.Clone(options), fmt.Sprintf("context=%q", label))
}
