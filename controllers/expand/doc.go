// Package expand is the part of volume expansion that kube-controller-manager does: for volumes of
// plugins that are not CSI drivers.
//
//	expand.New(expand.Config{
//		Process: process, Client: client, Informers: informers, Recorder: recorder, Plugins: &manager,
//	})
//	host.Run() // or host.Start, on a live host
//
// A claim that requests more than its capacity is expanded by the plugin of its volume, if that is a
// plugins.VolumeExpander. The controller records in the claim what it begins (package resize), calls
// the plugin, writes the size to the volume, and then either finishes the claim or leaves the file
// system to the kubelet. A FlexVolume is left to the kubelet at once: as upstream, the controller
// does not look for drivers. A volume of a migrated plugin gets the annotation by which the external
// resizer of its CSI driver finds the claim. All others wait for an external controller; an event says
// so.
//
// # What it does not do
//
// It does not expand volumes of CSI drivers; see package sidecars/resizer.
//
// Upstream: pkg/controller/volume/expand, pkg/volume/util/operationexecutor expandAndRecoverFunction
// (v1.36.3).
package expand
