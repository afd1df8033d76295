// Package plugintest checks whether a plugin keeps the contract of package plugins, as
// testing/fstest.TestFS does for a file system.
//
//	err := plugintest.Check(ctx, func() (*plugintest.World, error) {
//		host := sim.NewStepped(sim.SteppedConfig{})
//		process := host.Process("controller")
//		w := &plugintest.World{Host: host, Process: process, Volumes: volumes, Resources: list}
//		w.Plugin = newPlugin(process)
//		return w, nil
//	})
//
// [Check] runs the plugin in many worlds and returns an error that lists each violation.
//
// Names must be qualified, stable and distinct. Only volumes of the plugin's kind may be supported.
// Odd volumes must not cause a panic, and arguments must not be modified. Attaching, mounting for a
// node, mounting for a pod and provisioning can each be repeated, undone, undone twice, done again,
// and undone when nothing was done. The reported state of an attachment is the actual one. Two
// pods, two volumes and two nodes are independent. A volume in use stays in use if it cannot be
// mounted again. Measuring has no side effects. A recycled volume exists and is empty, and nothing
// is removed without permission.
//
// In a stepped world each operation is also run with each fault injected into each of its calls,
// interrupted by a crash at each of its steps, and called with a canceled context. A final or
// transient error must leave nothing behind. Whatever happened, the operation can be repeated and
// undone, and then nothing is left.
//
// [CheckFlexDriver] checks the program of a FlexVolume driver.
//
// What it does not do: check the contents of volumes, events and messages, and whether a plugin is
// right to refuse.
//
// Upstream: none; its contract is implied by its callers.
package plugintest
