package pluginmanager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/grpc"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/csi"
)

// reconcile brings what is registered in line with what is at a path now.
//
// Differs: a deregistration that failed is tried again; upstream's is over.
//
// Upstream: pkg/kubelet/pluginmanager/reconciler reconcile (v1.36).
func (m *Manager) reconcile(ctx context.Context, path string, s *socket) error {
	is, err := m.cfg.Sockets.Identify(path)
	if err != nil {
		return err
	}
	if s.registered != "" && (s.undo || s.registered != is) {
		if err := m.deregister(ctx, s); err != nil {
			return err
		}
	}
	if s.refused = false; is == "" || s.registered == is {
		return nil
	}
	return m.register(ctx, path, is, s)
}

// deregister undoes a registration. Then another plugin of the name may have a chance.
//
// Upstream: pkg/kubelet/pluginmanager/operationexecutor GenerateUnregisterPluginFunc (v1.36).
func (m *Manager) deregister(ctx context.Context, s *socket) error {
	plugin := s.plugin
	if err := m.cfg.Handlers[plugin.Type].DeregisterPlugin(ctx, plugin); err != nil {
		return err
	}
	m.note("deregister", plugin.Name, nil)
	s.registered, s.undo = "", false
	m.retryRefused(plugin)
	return nil
}

// register asks the plugin at a socket what it is, has it registered, and tells it.
//
// Upstream: pkg/kubelet/pluginmanager/operationexecutor GenerateRegisterPluginFunc (v1.36), and its texts.
func (m *Manager) register(ctx context.Context, path, is string, s *socket) error {
	conn, err := m.cfg.Sockets.Dial(path)
	if err != nil {
		return fmt.Errorf("RegisterPlugin error -- dial failed at socket %s, err: %w", path, err)
	}
	client := registration.NewRegistrationClient(csi.Suspend(m.cfg.Process, m.name(path), conn))
	info, err := client.GetInfo(ctx, &registration.InfoRequest{}, grpc.WaitForReady(true))
	if err != nil {
		return fmt.Errorf("RegisterPlugin error -- failed to get plugin info using RPC GetInfo at socket %s, err: %w", path, err)
	}
	handler, found := m.cfg.Handlers[info.GetType()]
	if !found {
		s.refused = true
		return reject(ctx, client, fmt.Errorf("RegisterPlugin error -- no handler registered for plugin type: %s at socket %s", info.GetType(), path))
	}
	plugin := plugins.Registration{
		Socket: path, Type: info.GetType(), Name: info.GetName(),
		Endpoint: cmp.Or(info.GetEndpoint(), path), Versions: info.GetSupportedVersions(),
	}
	if err := handler.ValidatePlugin(plugin); err != nil {
		s.refused = true
		return reject(ctx, client, fmt.Errorf("RegisterPlugin error -- plugin validation failed with err: %w", err))
	}
	m.supersede(plugin)
	s.registered, s.undo, s.plugin = is, false, plugin
	if err := handler.RegisterPlugin(ctx, plugin); err != nil {
		s.registered = ""
		m.retryRefused(plugin)
		return reject(ctx, client, fmt.Errorf("RegisterPlugin error -- plugin registration failed with err: %w", err))
	}
	m.note("register", plugin.Name, nil)
	if _, err := client.NotifyRegistrationStatus(ctx, &registration.RegistrationStatus{PluginRegistered: true}); err != nil {
		s.undo = true
		return errors.Join(fmt.Errorf("RegisterPlugin error -- failed to send registration status at socket %s, err: %w", path, err),
			m.deregisterUnnotified(ctx, s))
	}
	return nil
}

// deregisterUnnotified deregisters a plugin that does not know that it is registered, unless another has taken its place.
func (m *Manager) deregisterUnnotified(ctx context.Context, s *socket) error {
	if s.registered == "" {
		return nil
	}
	return m.deregister(ctx, s)
}

// reject tells a plugin why it is not registered, which is also the error.
//
// Upstream: pkg/kubelet/pluginmanager/operationexecutor notifyPlugin (v1.36).
func reject(ctx context.Context, client registration.RegistrationClient, why error) error {
	_, err := client.NotifyRegistrationStatus(ctx, &registration.RegistrationStatus{Error: why.Error()})
	if err != nil {
		return fmt.Errorf("%w: %w", why, err)
	}
	return why
}

// supersede has other plugins of the name no longer be registered: this one takes their place. When it goes, they have a chance.
//
// Differs: upstream takes them for registered, and deregisters this one when they go.
func (m *Manager) supersede(plugin plugins.Registration) {
	for _, s := range m.sockets {
		if s.registered != "" && s.plugin.Type == plugin.Type && s.plugin.Name == plugin.Name {
			s.registered, s.undo, s.refused = "", false, true
		}
	}
}

// retryRefused looks at the plugins of a name that were refused, as another one is gone.
//
// Differs: upstream's are tried again when their back-off is over, or never if they had been registered before.
func (m *Manager) retryRefused(gone plugins.Registration) {
	for _, path := range slices.Sorted(maps.Keys(m.sockets)) {
		if s := m.sockets[path]; s.refused && path != gone.Socket {
			m.look(path)
		}
	}
}
