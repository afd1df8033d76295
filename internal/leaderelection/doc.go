// Package leaderelection lets one of several processes act: the holder of a Lease.
//
//	leaderelection.Run(leaderelection.Config{
//		Process: process, Client: client, Recorder: recorder,
//		Namespace: "kube-system", Name: "external-attacher-leader-disk.example.com", Identity: "attacher-1",
//		Started: func() { attacher.New(cfg) },
//		Stopped: func() { restart("attacher-1") },
//	})
//
// A candidate tries every RetryPeriod to take the Lease: when it has no holder, when it holds it itself (a
// container that is restarted keeps its identity), and when the holder has not renewed it for LeaseDuration, as
// the candidate's own clock has observed. The holder renews it every RetryPeriod. If it could not for
// RenewDeadline, it must stop: its process ends without giving the Lease back.
//
// Renewals are heartbeats, and candidates their watchdogs (package sim): they do not keep a world from being at
// rest while there is a leader, and time passes for the candidates when there is none.
//
// What it does not do: delays are not random, and labels, health checks and the release of the Lease are missing.
//
// Upstream: client-go tools/leaderelection (v0.36), with the periods and names of csi-lib-utils leaderelection.
package leaderelection
