// Package prober finds plugins that are added and removed as directories, and updates a
// plugins.Manager. This is how drivers that are programs are found: DIR/VENDOR~DRIVER/DRIVER is the
// program of the plugin VENDOR/DRIVER.
//
//	directory := prober.New(prober.Config{
//		Process: process, Manager: &manager, FS: disk, Dir: "/drivers",
//		New: func(ctx context.Context, program, name string) (plugins.Plugin, error) { … },
//	})
//	directory.Notify("example.com~disk")
//
// A [Directory] belongs to the process whose manager it updates, so callbacks of the manager run
// inside that process. It reads a directory when notified of a possible change
// ([Directory.Notify]), and creates the plugin of what exists by then: it relies on what it reads,
// not on the notification. Each driver is probed in a task of its own, so one that hangs delays
// neither lookups in the manager nor the other drivers. What fails is retried with back-off.
//
// In a stepped world a test or a user's task calls Notify. On a live host [Directory.Watch] does,
// on a goroutine of its own, for each change that the file system reports.
//
// What it does not do: call the driver, which Config.New does, and check the mode of programs. One
// that cannot be executed fails when it is run.
//
// Upstream: pkg/volume/flexvolume probe.go (v1.36).
package prober
