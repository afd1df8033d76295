package registrar

import (
	"context"
	"sync"

	"google.golang.org/grpc"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// csiVersion is the version of CSI that drivers are said to speak.
//
// Upstream: node-driver-registrar supportedVersions.
const csiVersion = "1.0.0"

// Registrar announces one driver. Its methods may be called concurrently.
type Registrar struct {
	registration.UnimplementedRegistrationServer
	driver, endpoint string

	mu   sync.Mutex
	last *registration.RegistrationStatus // guarded by mu; nil: nothing yet
}

// New makes what announces a driver that serves at a socket.
func New(driver, endpoint string) *Registrar { return &Registrar{driver: driver, endpoint: endpoint} }

// Register adds the service to a server, which may be a real one or csi.Direct's.
func (r *Registrar) Register(s grpc.ServiceRegistrar) { registration.RegisterRegistrationServer(s, r) }

// Status is what the kubelet said last: whether the driver is registered, and else why not. told is false while it has said
// nothing.
func (r *Registrar) Status() (registered bool, why string, told bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last.GetPluginRegistered(), r.last.GetError(), r.last != nil
}

// GetInfo tells what the driver is.
func (r *Registrar) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{
		Type: registration.CSIPlugin, Name: r.driver, Endpoint: r.endpoint, SupportedVersions: []string{csiVersion},
	}, nil
}

// NotifyRegistrationStatus keeps what the kubelet says.
func (r *Registrar) NotifyRegistrationStatus(_ context.Context, status *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = &registration.RegistrationStatus{PluginRegistered: status.GetPluginRegistered(), Error: status.GetError()}
	return &registration.RegistrationStatusResponse{}, nil
}
