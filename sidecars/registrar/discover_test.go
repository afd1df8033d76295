package registrar_test

import (
	"context"
	"testing"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/csi"
	"github.com/volsim/volsim/sidecars/registrar"
)

type identity struct {
	csispec.UnimplementedIdentityServer
	name string
	err  error
}

func (i identity) GetPluginInfo(context.Context, *csispec.GetPluginInfoRequest) (*csispec.GetPluginInfoResponse, error) {
	return &csispec.GetPluginInfoResponse{Name: i.name}, i.err
}

func TestDiscover(t *testing.T) {
	t.Parallel()
	tests := []struct {
		driver identity
		want   string // "" for an error
	}{
		{identity{name: "disk.example.com"}, "disk.example.com"},
		{identity{}, ""},
		{identity{name: "disk.example.com", err: status.Error(codes.Unavailable, "starting")}, ""},
	}
	for _, tt := range tests {
		conn := csi.Direct(func(r grpc.ServiceRegistrar) { csispec.RegisterIdentityServer(r, tt.driver) })
		r, err := registrar.Discover(t.Context(), conn, "/csi.sock")
		if (err != nil) != (tt.want == "") {
			t.Errorf("%+v: error %v", tt.driver, err)
		}
		if err == nil {
			info := testcheck.Must(r.GetInfo(t.Context(), &registration.InfoRequest{}))
			testcheck.Equal(t, "name and endpoint", []string{tt.want, "/csi.sock"}, []string{info.GetName(), info.GetEndpoint()})
		}
	}
}
