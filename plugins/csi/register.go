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

// ValidatePlugin tells whether a driver speaks a version of CSI that is spoken here, and a newer one than the driver of its
// name that is registered.
//
// Upstream: pkg/volume/csi RegistrationHandler.ValidatePlugin (v1.36), and its texts.
func (p *Plugin) ValidatePlugin(r plugins.Registration) error {
	if _, err := p.validate("ValidatePlugin", r); err != nil {
		return fmt.Errorf("validation failed for CSI Driver %s at endpoint %s: %w", r.Name, r.Endpoint, err)
	}
	return nil
}

// validate is the newest version that a driver speaks and we do. who is for the text.
//
// Upstream: pkg/volume/csi validateVersions (v1.36).
func (p *Plugin) validate(who string, r plugins.Registration) (*version.Version, error) {
	if len(r.Versions) == 0 {
		return nil, fmt.Errorf("%s: %s for CSI driver %q failed. Plugin returned an empty list for supported versions",
			PluginName, who, r.Name)
	}
	newest, err := version.HighestSupportedVersion(r.Versions)
	if err != nil {
		return nil, fmt.Errorf("%s: %s for CSI driver %q failed. None of the versions specified %q are supported. err=%w",
			PluginName, who, r.Name, r.Versions, err)
	}
	if d := p.drivers[r.Name]; d != nil && !d.version.LessThan(newest) {
		return nil, fmt.Errorf("%s: %s for CSI driver %q failed. Another driver with the same name is already registered with a higher supported version: %q",
			PluginName, who, r.Name, d.version)
	}
	return newest, nil
}

// RegisterPlugin makes a driver known to this kubelet, asks it about the node, and tells the cluster. Where one of that fails,
// the driver is unregistered again.
//
// Differs: the driver is asked for its capabilities first, once; upstream asks before each use.
//
// Upstream: pkg/volume/csi RegistrationHandler.RegisterPlugin (v1.36).
func (p *Plugin) RegisterPlugin(ctx context.Context, r plugins.Registration) error {
	defer p.lockDriver(r.Name)()
	speaks, err := p.validate("RegisterPlugin", r)
	if err != nil {
		return err
	}
	if err := p.connect(ctx, r, speaks); err != nil {
		if left := p.unregister(ctx, r.Name); left != nil {
			p.record("unregister", r.Name, left)
		}
		return err
	}
	return nil
}

// connect asks a driver for all there is to know of it, and tells the cluster. It is known here as soon as it can be called.
func (p *Plugin) connect(ctx context.Context, r plugins.Registration, speaks *version.Version) error {
	conn, err := p.cfg.Dial(r.Name, r.Endpoint)
	if err != nil {
		return fmt.Errorf("driver %s: %w", r.Name, err)
	}
	d, err := newNodeDriver(ctx, r.Name, conn)
	if err != nil {
		return err
	}
	d.socket, d.version = r.Socket, speaks
	p.drivers[r.Name] = d
	info, err := d.client.NodeGetInfo(ctx, &csispec.NodeGetInfoRequest{})
	if err != nil {
		return fmt.Errorf("driver %s: NodeGetInfo: %w", r.Name, err)
	}
	return p.install(ctx, r.Name, info)
}

// DeregisterPlugin makes a driver unknown to this kubelet at once, and takes it from what the cluster knows of the node. What
// it has mounted stays so; who wants something of it is told that it may come back.
//
// Differs: a driver of the same name that was announced at another socket stays; upstream goes by the name, and forgets the
// newer one when the older one's socket goes. What the cluster could not be told is an error, and upstream's end of it.
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

// unregister makes a driver unknown, here and in the cluster.
//
// Upstream: pkg/volume/csi unregisterDriver (v1.36).
func (p *Plugin) unregister(ctx context.Context, name string) error {
	delete(p.drivers, name)
	if err := p.uninstall(ctx, name); err != nil {
		return fmt.Errorf("%s: Error uninstalling CSI driver: %w", PluginName, err)
	}
	return nil
}

// lockDriver waits until nobody else is about what the cluster knows of a driver. Whoever has the turn gives it back.
func (p *Plugin) lockDriver(driver string) (done func()) {
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

// driverLock is of those who are about one driver.
type driverLock struct {
	held     bool
	released sim.Signal
}
