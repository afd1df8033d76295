package plugins

// Capabilities is a plugin with the optional interfaces that it implements. An interface that it
// does not implement is nil.
type Capabilities struct {
	Plugin
	Attacher            Attacher
	Verifier            Verifier
	Limiter             Limiter
	DeviceMounter       DeviceMounter
	Mounter             Mounter
	Remounter           Remounter
	MountOptioner       MountOptioner
	MountChecker        MountChecker
	SELinux             SELinuxMounter
	Reconstructor       Reconstructor
	DeviceReconstructor DeviceReconstructor
	BlockMapper         BlockMapper // nil unless BlockPaths is set
	BlockPaths          BlockPaths
	BlockReconstructor  BlockReconstructor // nil unless BlockMapper is set
	VolumeExpander      VolumeExpander
	NodeExpander        NodeExpander
	StatsProvider       StatsProvider
	Provisioner         Provisioner
	Deleter             Deleter
	Recycler            Recycler
}

// capabilities returns the plugin with the optional interfaces that it implements. A plugin maps
// devices only if it implements both BlockMapper and BlockPaths.
func capabilities(p Plugin) Capabilities {
	c := Capabilities{Plugin: p}
	c.Attacher, _ = p.(Attacher)
	c.Verifier, _ = p.(Verifier)
	c.Limiter, _ = p.(Limiter)
	c.DeviceMounter, _ = p.(DeviceMounter)
	c.Mounter, _ = p.(Mounter)
	c.Remounter, _ = p.(Remounter)
	c.MountOptioner, _ = p.(MountOptioner)
	c.MountChecker, _ = p.(MountChecker)
	c.SELinux, _ = p.(SELinuxMounter)
	c.Reconstructor, _ = p.(Reconstructor)
	c.DeviceReconstructor, _ = p.(DeviceReconstructor)
	if c.BlockPaths, _ = p.(BlockPaths); c.BlockPaths != nil {
		c.BlockMapper, _ = p.(BlockMapper)
	}
	if c.BlockMapper != nil {
		c.BlockReconstructor, _ = p.(BlockReconstructor)
	}
	c.VolumeExpander, _ = p.(VolumeExpander)
	c.NodeExpander, _ = p.(NodeExpander)
	c.StatsProvider, _ = p.(StatsProvider)
	c.Provisioner, _ = p.(Provisioner)
	c.Deleter, _ = p.(Deleter)
	c.Recycler, _ = p.(Recycler)
	return c
}

// Attachable reports whether this volume must be attached before use. A plugin without an Attacher
// is not an error.
//
// Upstream: pkg/volume FindAttachablePluginBySpec (v1.36).
func (c Capabilities) Attachable(spec *Spec) (bool, error) {
	if c.Attacher == nil {
		return false, nil
	}
	return c.Attacher.CanAttach(spec)
}

// DeviceMountable reports whether this volume is mounted for the node before it is mounted for
// pods. A plugin without a DeviceMounter is not an error.
//
// Upstream: pkg/volume FindDeviceMountablePluginBySpec (v1.36).
func (c Capabilities) DeviceMountable(spec *Spec) (bool, error) {
	if c.DeviceMounter == nil {
		return false, nil
	}
	return c.DeviceMounter.CanDeviceMount(spec)
}
