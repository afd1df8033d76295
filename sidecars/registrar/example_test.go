package registrar_test

import (
	"context"
	"errors"
	"fmt"

	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/volsim/volsim/plugins/csi"
	"github.com/volsim/volsim/sidecars/registrar"
)

// A kubelet asks what there is at a socket, and says that it has registered it.
func Example() {
	ctx := context.Background()
	announced := registrar.New("disk.example.com", "/var/lib/kubelet/plugins/disk/csi.sock")
	kubelet := registration.NewRegistrationClient(csi.Direct(announced.Register)) // Offer takes a gRPC server at a socket as well

	info, asked := kubelet.GetInfo(ctx, &registration.InfoRequest{})
	fmt.Println(info.GetType(), info.GetName(), info.GetEndpoint(), info.GetSupportedVersions())
	_, told := kubelet.NotifyRegistrationStatus(ctx, &registration.RegistrationStatus{PluginRegistered: true})
	registered, _, _ := announced.Status()
	fmt.Println("registered:", registered, errors.Join(asked, told))
	// Output:
	// CSIPlugin disk.example.com /var/lib/kubelet/plugins/disk/csi.sock [1.0.0]
	// registered: true <nil>
}
