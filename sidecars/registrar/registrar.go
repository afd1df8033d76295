package registrar

import (
	"context"
	"sync"

	"google.golang.org/grpc"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// csiVersion is the CSI version reported for every driver.
//
// Upstream: node-driver-registrar supportedVersions.
const csiVersion = "1.0.0"

// A Registrar announces one driver. Its methods may be called concurrently.
type Registrar struct {
	registration.UnimplementedRegistrationServer
	driver, endpoint string

	mu   sync.Mutex
	last *registration.RegistrationStatus // guarded by mu; nil: not notified yet
}

// New returns a Registrar for a driver that serves at the socket endpoint.
func New(driver, endpoint string) *Registrar { return &Registrar{driver: driver, endpoint: endpoint} }

// Register adds the registration service to a gRPC server or to csi.Direct.
func (r *Registrar) Register(s grpc.ServiceRegistrar) { registration.RegisterRegistrationServer(s, r) }

// Status returns the last status from the kubelet: whether the driver is registered, and otherwise
// the reason. answered is false before the first notification.
func (r *Registrar) Status() (registered bool, reason string, answered bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last.GetPluginRegistered(), r.last.GetError(), r.last != nil
}

// GetInfo returns the driver's name, socket and CSI version.
func (r *Registrar) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{
		Type: registration.CSIPlugin, Name: r.driver, Endpoint: r.endpoint, SupportedVersions: []string{csiVersion},
	}, nil
}

// NotifyRegistrationStatus stores the status from the kubelet.
func (r *Registrar) NotifyRegistrationStatus(
	_ context.Context, status *registration.RegistrationStatus,
) (*registration.RegistrationStatusResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = &registration.RegistrationStatus{PluginRegistered: status.GetPluginRegistered(), Error: status.GetError()}
	return &registration.RegistrationStatusResponse{}, nil
}
