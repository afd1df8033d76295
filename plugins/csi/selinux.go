package csi

import (
	"fmt"
	"slices"

	storagev1 "k8s.io/api/storage/v1"

	"github.com/volsim/volsim/plugins"
)

// SupportsSELinuxContextMount tells whether the volume's driver can mount it with an SELinux label: its CSIDriver object says so.
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

// mountLabel is the SELinux label that the driver, of which its CSIDriver object is given, is to mount with; "": none.
func mountLabel(driver *storagev1.CSIDriver, use plugins.MountOptions) string {
	if !supportsSELinuxMount(driver) {
		return ""
	}
	return use.SELinuxLabel
}

// withSELinuxLabel adds the option that mounts with an SELinux label, in which there may be commas.
//
// Upstream: pkg/volume/util AddSELinuxMountOption (v1.36).
func withSELinuxLabel(options []string, label string) []string {
	if label == "" {
		return options
	}
	return append(slices.Clone(options), fmt.Sprintf("context=%q", label))
}
