// Package flexvolume is the volume plugins that are programs: each call of such a plugin runs the program with the call's name
// and arguments, and reads what it prints.
//
// [New] asks a program what it can do and makes its plugin; package prober finds the programs. A program prints one JSON
// object, in which the status is "Success", "Failure" or "Not supported". What it does not support is not asked for again, and
// done as by default: attaching is nothing, a device is formatted and mounted, and what is mounted for the node is bound for
// the pod. A program that fails has had no effect; of one that gives no answer nobody knows.
//
// Each run leaves the component, and is recorded as a driver call. In a stepped world it is a function that runs
// (Config.Run).
//
// Not here: secrets, fsGroup, metrics, expansion (expandvolume, expandfs), and isattached, which wants more of a volume than the
// name that is known of one that is gone.
//
// Upstream: pkg/volume/flexvolume (v1.36).
package flexvolume
