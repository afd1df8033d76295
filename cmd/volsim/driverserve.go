package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"google.golang.org/grpc"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/volsim/volsim/cmd/volsim/internal/csiserver"
	"github.com/volsim/volsim/sidecars/registrar"
)

// headerTimeout is the time limit for the header of a metrics request.
const headerTimeout = 10 * time.Second

// serveDriver runs a driver until ctx ends. Then it waits for calls in flight and removes the
// sockets. Volumes in use stay in use.
func serveDriver(ctx context.Context, log *slog.Logger, k driverKind, o driverOptions) (err error) {
	socket, err := csiserver.SocketPath(o.endpoint)
	if err != nil {
		return fmt.Errorf("--endpoint: %w", err)
	}
	if k.onDevices {
		unlock, err := csiserver.LockDir(ctx, o.state)
		if errors.Is(err, csiserver.ErrLocked) {
			err = fmt.Errorf("%w: a running driver keeps its volumes there; stop it, or choose another --state", err)
		}
		if err != nil {
			return fmt.Errorf("--state: %w", err)
		}
		defer unlock()
	}
	if err := k.usable(); err != nil {
		return err
	}
	driver, err := k.open(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, driver.close()) }()
	if err := recoverDriver(ctx, log, k, o, driver); err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	calls, err := csiserver.NewCallObserver(log, registry, o.name)
	if err != nil {
		return err
	}
	figures, err := serveMetrics(log, o.metrics, registry)
	if err != nil {
		return fmt.Errorf("--metrics: %w", err)
	}
	defer func() { err = errors.Join(err, figures.Close()) }()
	server, err := csiserver.Listen(ctx, socket, driver.register, grpc.UnaryInterceptor(calls.Observe))
	if err != nil {
		return fmt.Errorf("--endpoint: %w", err)
	}
	server.Serve()
	registered, err := o.register(ctx, log, socket)
	if err != nil {
		return errors.Join(fmt.Errorf("--kubelet-registration: %w", err), server.Stop(o.grace))
	}
	log.Info("serving", "endpoint", socket, "driver", o.name, "node", o.node)
	return o.wait(ctx, log, server, registered)
}

// recoverDriver has a driver recover from a killed process, and logs the orphans.
func recoverDriver(ctx context.Context, log *slog.Logger, k driverKind, o driverOptions, driver *openDriver) error {
	if driver.warning != "" {
		log.Warn(driver.warning)
	}
	if k.onDevices {
		log.Info("starting", "state", o.state, "root", o.root, "nodeAttaches", o.nodeAttaches)
	}
	done, err := driver.recover(ctx)
	for _, each := range done {
		log.Info("recovered", "what", each)
	}
	if err != nil {
		return fmt.Errorf("recover state in %s: %w", o.state, err)
	}
	orphans, err := driver.orphans(ctx)
	for _, each := range orphans {
		log.Warn("orphan", "what", each)
	}
	if err != nil {
		return fmt.Errorf("list orphans: %w", err)
	}
	return nil
}

// register serves the kubelet's registration service. It returns nil if registration is disabled.
func (o driverOptions) register(ctx context.Context, log *slog.Logger, socket string) (*csiserver.Server, error) {
	if o.registration == "" {
		return nil, nil
	}
	path, err := csiserver.SocketPath(o.registration)
	if err != nil {
		return nil, err
	}
	endpoint := o.kubeletEndpoint
	if endpoint == "" {
		endpoint = socket
	}
	r := registrar.New(o.name, endpoint)
	server, err := csiserver.Listen(ctx, path, r.Register, grpc.UnaryInterceptor(
		func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
			response, err := handle(ctx, request)
			if _, is := request.(*registration.RegistrationStatus); is {
				logRegistration(log, r)
			}
			return response, err
		}))
	if err == nil {
		server.Serve()
	}
	return server, err
}

// logRegistration logs the kubelet's reply to the registration.
func logRegistration(log *slog.Logger, r *registrar.Registrar) {
	if registered, why, _ := r.Status(); !registered {
		log.Warn("kubelet rejected the registration", "error", why)
		return
	}
	log.Info("registered with the kubelet")
}

// wait blocks until ctx ends or a server fails, then stops all servers.
func (o driverOptions) wait(ctx context.Context, log *slog.Logger, server, registered *csiserver.Server) (err error) {
	servers := []*csiserver.Server{server}
	var gone <-chan error
	if registered != nil {
		gone = registered.Done()
		servers = []*csiserver.Server{registered, server}
	}
	var broken *csiserver.Server
	select {
	case <-ctx.Done():
		log.Info("stopping", "grace", o.grace)
	case err = <-server.Done():
		broken = server
	case err = <-gone:
		broken = registered
	}
	for _, each := range servers {
		if each != broken {
			err = errors.Join(err, each.Stop(o.grace))
		}
	}
	if err == nil {
		log.Info("stopped")
	}
	return err
}

// serveMetrics serves the metrics of a registry at an address. An empty address disables it.
func serveMetrics(log *slog.Logger, address string, registry *prometheus.Registry) (*http.Server, error) {
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	server := &http.Server{ReadHeaderTimeout: headerTimeout}
	if address == "" {
		return server, nil
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	log.Info("metrics", "url", "http://"+listener.Addr().String()+"/metrics")
	server.Handler = localOnly(mux, listener)
	go func() { _ = server.Serve(listener) }() // ends with Close
	return server, nil
}
