package pluginmanager

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/csi"
)

// reconcile brings the registration in line with the socket that exists at a path.
//
// Differs: a deregistration that failed is retried; upstream gives up.
//
// Upstream: pkg/kubelet/pluginmanager/reconciler reconcile (v1.36).
func (m *Manager) reconcile(ctx context.Context, path string, s *socket) error {
	id, err := m.cfg.Sockets.Identify(path)
	if err != nil {
		return err
	}
	if s.registered != "" && (s.undo || s.registered != id) {
		if err := m.deregister(ctx, s); err != nil {
			return err
		}
	}
	if s.rejected = false; id == "" || s.registered == id {
		return nil
	}
	return m.register(ctx, path, id, s)
}

// deregister undoes a registration. Then another plugin of the name may be registered.
//
// Upstream: pkg/kubelet/pluginmanager/operationexecutor GenerateUnregisterPluginFunc (v1.36).
func (m *Manager) deregister(ctx context.Context, s *socket) error {
	plugin := s.plugin
	if err := m.cfg.Handlers[plugin.Type].DeregisterPlugin(ctx, plugin); err != nil {
		return err
	}
	m.record("deregister", plugin.Name, nil)
	s.registered, s.undo = "", false
	m.retryRejected(plugin)
	return nil
}

// register asks the plugin at a socket for its registration, registers it, and notifies it. id is
// the socket's identity.
//
// Upstream: pkg/kubelet/pluginmanager/operationexecutor GenerateRegisterPluginFunc (v1.36), and its
// texts.
func (m *Manager) register(ctx context.Context, path, id string, s *socket) error {
	conn, err := m.cfg.Sockets.Dial(path)
	if err != nil {
		return fmt.Errorf("RegisterPlugin error -- dial failed at socket %s, err: %w", path, err)
	}
	client := registration.NewRegistrationClient(csi.Suspend(m.cfg.Process, m.name(path), conn))
	info, err := client.GetInfo(ctx, &registration.InfoRequest{}, grpc.WaitForReady(true))
	if err != nil {
		return fmt.Errorf("RegisterPlugin error -- failed to get plugin info using RPC GetInfo at socket %s, err: %w",
			path, err)
	}
	handler, found := m.cfg.Handlers[info.GetType()]
	if !found {
		s.rejected = true
		return reject(ctx, client,
			fmt.Errorf("RegisterPlugin error -- no handler registered for plugin type: %s at socket %s",
				info.GetType(), path))
	}
	plugin := plugins.Registration{
		Socket: path, Type: info.GetType(), Name: info.GetName(),
		Endpoint: cmp.Or(info.GetEndpoint(), path), Versions: info.GetSupportedVersions(),
	}
	if err := handler.ValidatePlugin(plugin); err != nil {
		s.rejected = true
		return reject(ctx, client, fmt.Errorf("RegisterPlugin error -- plugin validation failed with err: %w", err))
	}
	m.supersede(plugin)
	s.registered, s.undo, s.plugin = id, false, plugin
	if err := handler.RegisterPlugin(ctx, plugin); err != nil {
		s.registered = ""
		m.retryRejected(plugin)
		return reject(ctx, client, fmt.Errorf("RegisterPlugin error -- plugin registration failed with err: %w", err))
	}
	m.record("register", plugin.Name, nil)
	if _, err := client.NotifyRegistrationStatus(ctx,
		&registration.RegistrationStatus{PluginRegistered: true}); err != nil {
		s.undo = true
		return errors.Join(fmt.Errorf("RegisterPlugin error -- failed to send registration status at socket %s, err: %w",
			path, err),
			m.deregisterUnnotified(ctx, s))
	}
	return nil
}

// deregisterUnnotified deregisters a plugin that does not know of its registration, unless another
// has replaced it.
func (m *Manager) deregisterUnnotified(ctx context.Context, s *socket) error {
	if s.registered == "" {
		return nil
	}
	return m.deregister(ctx, s)
}

// reject notifies a plugin of the reason why it is not registered, and returns that error.
//
// Upstream: pkg/kubelet/pluginmanager/operationexecutor notifyPlugin (v1.36).
func reject(ctx context.Context, client registration.RegistrationClient, reason error) error {
	_, err := client.NotifyRegistrationStatus(ctx, &registration.RegistrationStatus{Error: reason.Error()})
	if err != nil {
		return fmt.Errorf("%w: %w", reason, err)
	}
	return reason
}

// supersede marks other plugins of the name as not registered: this one replaces them. They are
// retried when it is deregistered.
//
// Differs: upstream takes them for registered, and deregisters this one when their sockets
// disappear.
func (m *Manager) supersede(plugin plugins.Registration) {
	for _, s := range m.queue.All() {
		if s.registered != "" && s.plugin.Type == plugin.Type && s.plugin.Name == plugin.Name {
			s.registered, s.undo, s.rejected = "", false, true
		}
	}
}

// retryRejected retries the rejected plugins after another one was deregistered.
//
// Differs: upstream's are retried after their back-off, or never if they had been registered
// before.
func (m *Manager) retryRejected(deregistered plugins.Registration) {
	for path, s := range m.queue.All() {
		if s.rejected && path != deregistered.Socket {
			m.queue.Sync(path)
		}
	}
}
