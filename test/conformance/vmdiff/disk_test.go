package vmdiff

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	volumetesting "k8s.io/kubernetes/pkg/volume/testing"

	"github.com/volsim/volsim/plugins"
)

// Plugins, by their volumes: attached and mounted for the node first, mounted for the node first,
// mounted for pods only.
const (
	blockPlugin = "example.com/block"
	localPlugin = "example.com/local"
	sharePlugin = "example.com/share"
)

// A disk is a volume and its claim, of the same name.
type disk struct {
	name     string
	plugin   string
	late     bool // the claim is initially not bound
	noVolume bool // the volume initially does not exist
	foreign  bool // the volume is bound to another claim
	single   bool // for one pod only
	block    bool // pods use it as a device
}

var disks = []disk{
	{name: "a", plugin: blockPlugin},
	{name: "b", plugin: blockPlugin},
	{name: "local", plugin: localPlugin},
	{name: "share", plugin: sharePlugin},
	{name: "late", plugin: blockPlugin, late: true},
	{name: "lost", plugin: blockPlugin, noVolume: true},
	{name: "others", plugin: blockPlugin, foreign: true},
	{name: "single", plugin: blockPlugin, single: true},
	{name: "raw", plugin: blockPlugin, block: true},
	{name: volumetesting.TimeoutOnSetupVolumeName, plugin: blockPlugin},
	{name: volumetesting.FailOnSetupVolumeName, plugin: blockPlugin},
	{name: volumetesting.TimeoutAndFailOnSetupVolumeName, plugin: blockPlugin},
	{name: volumetesting.SuccessAndTimeoutSetupVolumeName, plugin: blockPlugin},
	{name: volumetesting.SuccessAndFailOnSetupVolumeName, plugin: blockPlugin},
	{name: volumetesting.TimeoutOnMountDeviceVolumeName, plugin: blockPlugin},
	{name: volumetesting.TimeoutAndFailOnMountDeviceVolumeName, plugin: blockPlugin},
	{name: volumetesting.FailMountDeviceVolumeName, plugin: blockPlugin},
	{name: volumetesting.SuccessAndTimeoutDeviceName, plugin: blockPlugin},
	{name: volumetesting.SuccessAndFailOnMountDeviceName, plugin: blockPlugin},
}

func diskOf(name string) disk {
	for _, d := range disks {
		if d.name == name {
			return d
		}
	}
	panic("no disk " + name)
}

// hasBehaviour reports whether the name of the disk determines its behaviour.
func (d disk) hasBehaviour() bool { return strings.Contains(d.name, "-") }

func (d disk) attachable() bool { return d.plugin == blockPlugin }

func (d disk) unique() corev1.UniqueVolumeName { return plugins.UniqueVolumeName(d.plugin, d.name) }

// source returns the volume source that selects the plugin.
func (d disk) source() corev1.PersistentVolumeSource {
	switch d.plugin {
	case blockPlugin:
		return corev1.PersistentVolumeSource{RBD: &corev1.RBDPersistentVolumeSource{CephMonitors: []string{"m"}, RBDImage: d.name}}
	case localPlugin:
		return corev1.PersistentVolumeSource{FC: &corev1.FCVolumeSource{WWIDs: []string{d.name}}}
	default:
		return corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "server", Path: "/" + d.name}}
	}
}

// pluginOf returns the plugin of a volume by its name, which is all that reconstruction finds.
func pluginOf(name string) string {
	if at := slices.IndexFunc(disks, func(d disk) bool { return d.name == name }); at >= 0 {
		return disks[at].plugin
	}
	return ""
}

var size = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}

func (d disk) modes() []corev1.PersistentVolumeAccessMode {
	if d.single {
		return []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
	}
	return []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
}

func (d disk) mode() *corev1.PersistentVolumeMode {
	if d.block {
		return new(corev1.PersistentVolumeBlock)
	}
	return new(corev1.PersistentVolumeFilesystem)
}

func (d disk) uid() types.UID { return types.UID("uid-of-" + d.name) }

func (d disk) claim() *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: d.name, Namespace: "default", UID: d.uid()}}
	c.Finalizers = []string{"kubernetes.io/pvc-protection", "example.com/other"}
	c.Spec.AccessModes, c.Spec.Resources.Requests, c.Spec.VolumeName = d.modes(), size, d.name
	c.Spec.VolumeMode = d.mode()
	c.Status.Phase, c.Status.Capacity = corev1.ClaimBound, size
	if d.late {
		c.Status.Phase = corev1.ClaimPending
	}
	return c
}

func (d disk) volume() *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: d.name}}
	v.Spec.Capacity, v.Spec.AccessModes, v.Spec.PersistentVolumeSource = size, d.modes(), d.source()
	v.Spec.VolumeMode = d.mode()
	v.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: "default", Name: d.name, UID: d.uid()}
	if d.foreign {
		v.Spec.ClaimRef.UID = "uid-of-another"
	}
	return v
}
