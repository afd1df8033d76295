// Package prober finds plugins that come and go as directories, and tells a plugins.Manager of them: the way in which drivers
// that are programs are found. DIR/VENDOR~DRIVER/DRIVER is the program of the plugin VENDOR/DRIVER.
//
// A [Directory] is part of the component whose manager it fills, so that whoever is told of a change by the manager is told in
// his own monitor. It looks at a directory when it is told that something there may have changed ([Directory.Notify]), and makes
// the plugin of what is there by then: it goes by what it sees, not by what it is told. Looking at a driver and making its
// plugin are a strand of their own for each driver, so one that hangs delays nobody: not those who look for plugins, which
// the manager sees to, and not the other drivers. What fails is tried again after a while.
//
// Who tells it is another matter. In a stepped world a test does, or a user's strand. Beside a live host
// [Directory.Watch] does, on a goroutine of its own, as the file system tells it.
//
// Not here: what a driver is asked (that is the factory's), and programs' modes: one that cannot be run fails when it is.
//
// Upstream: pkg/volume/flexvolume probe.go (v1.36).
package prober
