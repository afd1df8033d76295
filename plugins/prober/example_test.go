package prober_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/plugins/prober"
	"github.com/volsim/volsim/sim"
)

// A plugin appears and disappears with its directory; the manager's callback runs each time.
func Example() {
	host := sim.NewStepped(sim.SteppedConfig{})
	defer host.Close()
	disk := nodefs.NewMemory("/")

	var manager plugins.Manager
	manager.OnChange(func() {
		_, err := manager.FindByName("example.com/disk")
		fmt.Println("a change; found:", err == nil)
	})
	drivers := prober.New(prober.Config{
		Process: host.Process("attachdetach"), Manager: &manager, FS: disk, Dir: "/drivers",
		New: func(_ context.Context, program, name string) (plugins.Plugin, error) {
			fmt.Println("a driver:", program)
			return &driver{name: name, program: program}, nil
		},
	})

	// On a real machine, Watch calls Notify.
	install := errors.Join(disk.MkdirAll("/drivers/example.com~disk"),
		disk.WriteFile("/drivers/example.com~disk/disk", nil))
	drivers.Notify("example.com~disk")
	ran := host.Run()
	remove := disk.RemoveAll("/drivers/example.com~disk")
	drivers.Notify("example.com~disk")
	fmt.Println(errors.Join(install, ran, remove, host.Run()))
	// Output:
	// a driver: /drivers/example.com~disk/disk
	// a change; found: true
	// a change; found: false
	// <nil>
}
