package csi

import (
	"context"
	"fmt"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/sim"
)

var _ plugins.Registrar = (*Plugin)(nil)

// ValidatePlugin returns an error unless the driver supports a CSI version that is supported here,
// and a newer one than the registered driver of the same name.
//
// Upstream: pkg/volume/csi RegistrationHandler.ValidatePlugin (v1.36), and its texts.
func (p *Plugin) ValidatePlugin(r plugins.Registration) error {
	if _, err := p.validate("ValidatePlugin", r); err != nil {
		return fmt.Errorf("validation failed for CSI Driver %s at endpoint %s: %w", r.Name, r.Endpoint, err)
	}
	return nil
}

// validate returns the newest CSI version that the driver and this plugin support. caller is for
// the error's text.
//
// Upstream: pkg/volume/csi validateVersions (v1.36).
func (p *Plugin) validate(caller string, r plugins.Registration) (*version.Version, error) {
	if len(r.Versions) == 0 {
		return nil, fmt.Errorf("%s: %s for CSI driver %q failed. Plugin returned an empty list for supported versions",
			PluginName, caller, r.Name)
	}
	newest, err := version.HighestSupportedVersion(r.Versions)
	if err != nil {
		return nil, fmt.Errorf("%s: %s for CSI driver %q failed. None of the versions specified %q are supported. err=%w",
			PluginName, caller, r.Name, r.Versions, err)
	}
	if d := p.drivers[r.Name]; d != nil && !d.version.LessThan(newest) {
		return nil, fmt.Errorf("%s: %s for CSI driver %q failed. "+
			"Another driver with the same name is already registered with a higher supported version: %q",
			PluginName, caller, r.Name, d.version)
	}
	return newest, nil
}

// RegisterPlugin makes a driver available to this kubelet, asks it about the node, and publishes
// the answer. If one of these steps fails, the driver is unregistered again.
//
// Differs: the driver is asked for its capabilities once, at registration; upstream asks before
// each use.
//
// Upstream: pkg/volume/csi RegistrationHandler.RegisterPlugin (v1.36).
func (p *Plugin) RegisterPlugin(ctx context.Context, r plugins.Registration) error {
	defer p.lockDriver(r.Name)()
	csiVersion, err := p.validate("RegisterPlugin", r)
	if err != nil {
		return err
	}
	if err := p.connect(ctx, r, csiVersion); err != nil {
		if unregisterErr := p.unregister(ctx, r.Name); unregisterErr != nil {
			p.record("unregister", r.Name, unregisterErr)
		}
		return err
	}
	return nil
}

// connect connects to a driver, asks it for its capabilities and its node, and publishes them. The
// driver can be found as soon as it can be called.
func (p *Plugin) connect(ctx context.Context, r plugins.Registration, csiVersion *version.Version) error {
	conn, err := p.cfg.Dial(r.Name, r.Endpoint)
	if err != nil {
		return fmt.Errorf("driver %s: %w", r.Name, err)
	}
	d, err := newNodeDriver(ctx, r.Name, conn)
	if err != nil {
		return err
	}
	d.socket, d.version = r.Socket, csiVersion
	p.drivers[r.Name] = d
	info, err := d.client.NodeGetInfo(ctx, &csispec.NodeGetInfoRequest{})
	if err != nil {
		return fmt.Errorf("driver %s: NodeGetInfo: %w", r.Name, err)
	}
	return p.install(ctx, r.Name, info)
}

// DeregisterPlugin makes a driver unavailable to this kubelet at once, and removes it from the Node
// and the CSINode. Its mounts stay. Operations that need it fail with a transient error.
//
// Differs: a driver of the same name that registered through another socket stays. Upstream goes by
// the name, and forgets the newer driver when the older one's socket disappears. A failure to
// update the cluster is returned for a retry; upstream gives up.
//
// Upstream: pkg/volume/csi RegistrationHandler.DeRegisterPlugin (v1.36).
func (p *Plugin) DeregisterPlugin(ctx context.Context, r plugins.Registration) error {
	if d := p.drivers[r.Name]; d != nil && d.socket == r.Socket {
		delete(p.drivers, r.Name)
	}
	defer p.lockDriver(r.Name)()
	if p.drivers[r.Name] != nil {
		return nil
	}
	return p.unregister(ctx, r.Name)
}

// unregister removes a driver, here and in the cluster.
//
// Upstream: pkg/volume/csi unregisterDriver (v1.36).
func (p *Plugin) unregister(ctx context.Context, name string) error {
	delete(p.drivers, name)
	if err := p.uninstall(ctx, name); err != nil {
		return fmt.Errorf("%s: Error uninstalling CSI driver: %w", PluginName, err)
	}
	return nil
}

// lockDriver waits until no other task updates what the cluster knows of a driver. The caller must
// call unlock.
func (p *Plugin) lockDriver(driver string) (unlock func()) {
	t := p.driverLocks[driver]
	if t == nil {
		t = &driverLock{}
		p.driverLocks[driver] = t
	}
	for t.held {
		p.cfg.Process.WaitOn(&t.released, "registration of "+driver, 0, func() bool { return !t.held })
	}
	t.held = true
	return func() {
		t.held = false
		t.released.Broadcast()
	}
}

// A driverLock serializes the updates of one driver.
type driverLock struct {
	held     bool
	released sim.Signal
}
