package pluginmanager_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/volsim/volsim/kubelet/pluginmanager"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/csi"
	"github.com/volsim/volsim/sidecars/registrar"
	"github.com/volsim/volsim/sim"
)

// guests takes in any plugin.
type guests struct{}

func (guests) ValidatePlugin(plugins.Registration) error { return nil }

func (guests) RegisterPlugin(_ context.Context, r plugins.Registration) error {
	fmt.Println(r.Name, "comes, and serves at", r.Endpoint)
	return nil
}

func (guests) DeregisterPlugin(_ context.Context, r plugins.Registration) error {
	fmt.Println(r.Name, "goes")
	return nil
}

// A driver announces itself at a socket, and its socket goes.
func Example() {
	const socket = "/var/lib/kubelet/plugins_registry/disk.sock"
	host := sim.NewStepped(sim.SteppedConfig{})
	defer host.Close()
	var sockets pluginmanager.Memory // pluginmanager.Unix are those of this machine
	manager := pluginmanager.New(pluginmanager.Config{
		Process: host.Process("kubelet"), Sockets: &sockets, Dir: "/var/lib/kubelet/plugins_registry",
		Handlers: map[string]plugins.Registrar{registration.CSIPlugin: guests{}},
	})

	driver := registrar.New("disk.example.com", "/csi.sock")
	sockets.Put(socket, csi.Direct(driver.Register))
	manager.Notify(socket) // Watch tells of a real directory
	came := host.Run()
	registered, _, _ := driver.Status()
	fmt.Println("the driver was told so:", registered)

	sockets.Remove(socket)
	manager.Notify(socket)
	if err := errors.Join(came, host.Run()); err != nil {
		log.Fatal(err)
	}
	// Output:
	// disk.example.com comes, and serves at /csi.sock
	// the driver was told so: true
	// disk.example.com goes
}
