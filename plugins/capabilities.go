package plugins

// Capabilities is a plugin with what it offers; what it doesn't is nil.
type Capabilities struct {
	Plugin
	Attacher            Attacher
	Verifier            Verifier
	Limiter             Limiter
	DeviceMounter       DeviceMounter
	Mounter             Mounter
	Remounter           Remounter
	MountOptioner       MountOptioner
	SELinux             SELinuxMounter
	Reconstructor       Reconstructor
	DeviceReconstructor DeviceReconstructor
	BlockMapper         BlockMapper
	NodeExpander        NodeExpander
	StatsProvider       StatsProvider
	Provisioner         Provisioner
	Deleter             Deleter
	Recycler            Recycler
}

// capabilities finds out what a plugin offers.
func capabilities(p Plugin) Capabilities {
	c := Capabilities{Plugin: p}
	c.Attacher, _ = p.(Attacher)
	c.Verifier, _ = p.(Verifier)
	c.Limiter, _ = p.(Limiter)
	c.DeviceMounter, _ = p.(DeviceMounter)
	c.Mounter, _ = p.(Mounter)
	c.Remounter, _ = p.(Remounter)
	c.MountOptioner, _ = p.(MountOptioner)
	c.SELinux, _ = p.(SELinuxMounter)
	c.Reconstructor, _ = p.(Reconstructor)
	c.DeviceReconstructor, _ = p.(DeviceReconstructor)
	c.BlockMapper, _ = p.(BlockMapper)
	c.NodeExpander, _ = p.(NodeExpander)
	c.StatsProvider, _ = p.(StatsProvider)
	c.Provisioner, _ = p.(Provisioner)
	c.Deleter, _ = p.(Deleter)
	c.Recycler, _ = p.(Recycler)
	return c
}

// Attachable tells whether this volume is attached before use. A plugin that attaches nothing is no error.
//
// Upstream: pkg/volume FindAttachablePluginBySpec (v1.36).
func (c Capabilities) Attachable(spec *Spec) (bool, error) {
	if c.Attacher == nil {
		return false, nil
	}
	return c.Attacher.CanAttach(spec)
}

// DeviceMountable tells whether this volume is mounted for the node before it is mounted for pods. A plugin that mounts none
// for a node is no error.
//
// Upstream: pkg/volume FindDeviceMountablePluginBySpec (v1.36).
func (c Capabilities) DeviceMountable(spec *Spec) (bool, error) {
	if c.DeviceMounter == nil {
		return false, nil
	}
	return c.DeviceMounter.CanDeviceMount(spec)
}
