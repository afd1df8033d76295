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

// printingRegistrar registers any plugin.
type printingRegistrar struct{}

func (printingRegistrar) ValidatePlugin(plugins.Registration) error { return nil }

func (printingRegistrar) RegisterPlugin(_ context.Context, r plugins.Registration) error {
	fmt.Println(r.Name, "registered at", r.Endpoint)
	return nil
}

func (printingRegistrar) DeregisterPlugin(_ context.Context, r plugins.Registration) error {
	fmt.Println(r.Name, "deregistered")
	return nil
}

// A driver registers through a socket, and its socket is removed.
func Example() {
	const socket = "/var/lib/kubelet/plugins_registry/disk.sock"
	host := sim.NewStepped(sim.SteppedConfig{})
	defer host.Close()
	var sockets pluginmanager.Memory // pluginmanager.Unix: those of this machine
	manager := pluginmanager.New(pluginmanager.Config{
		Process: host.Process("kubelet"), Sockets: &sockets, Dir: "/var/lib/kubelet/plugins_registry",
		Handlers: map[string]plugins.Registrar{registration.CSIPlugin: printingRegistrar{}},
	})

	driver := registrar.New("disk.example.com", "/csi.sock")
	sockets.Put(socket, csi.Direct(driver.Register))
	manager.Notify(socket) // Watch does this for a real directory
	firstErr := host.Run()
	registered, _, _ := driver.Status()
	fmt.Println("the driver was notified:", registered)

	sockets.Remove(socket)
	manager.Notify(socket)
	if err := errors.Join(firstErr, host.Run()); err != nil {
		log.Fatal(err)
	}
	// Output:
	// disk.example.com registered at /csi.sock
	// the driver was notified: true
	// disk.example.com deregistered
}
