// Package csitest checks a CSI driver under the controllers and kubelets that call it, and scripts the answers
// of one for tests of its callers.
//
//	func TestDriver(t *testing.T) {
//		csitest.Check(t, csitest.Target{New: func() cluster.Driver {
//			disks := newDisks() // without volumes
//			return cluster.Driver{Name: "disk.example.com", Controller: disks.Controller, Node: disks.Node}
//		}})
//	}
//
// csi-sanity makes one call after the other. [Check] instead runs the driver in small clusters in which pods use
// its volumes, move, share them and reboot, volumes grow, and snapshots are taken and restored, as far as the
// driver has the capabilities. A trial is one such cluster in which one call is disturbed: its response is lost
// or comes too late, it is refused with one of the codes that callers treat in different ways, it is delayed,
// its caller crashes before or after it, the driver restarts, or an administrator removes the volume. The caller
// then does what Kubernetes does: it repeats the call, undoes it, or takes it for failed. At the end everything
// is deleted. Then schedules are drawn, in which two users act at once and several things go wrong.
//
// An answer that the specification does not allow after the earlier ones is a finding, and so is a world that
// does not come to its end, a rule of package invariant that does not hold, a file that is lost, and a volume,
// a snapshot or a mount that is left. A finding is a sentence:
//
//	NodeUnstageVolume is not idempotent: the second call after a lost response fails with NotFound: not staged
//
// Each is reported once, with the name of the trial, its schedule and its calls. Target.Trial runs that trial
// alone, and with the flag -artifacts of go test a picture is drawn.
//
// A driver in the program runs in stepped worlds, which are the same in each run. So does one at a socket, whose
// calls are forwarded; its nodes are directories of this machine. With Target.Live the trials that need no
// stepping run in live worlds, where calls overlap.
//
// A [Script] wraps a driver for the opposite purpose: the n-th call of an RPC fails, is held up or loses its
// response, so that a sidecar, an operator or a controller can be tested. It records the calls.
//
// What it does not do: check requests with invalid fields, as csi-sanity does; check groups of snapshots, the
// modification of volumes, secrets, and the health and usage of volumes; let caches of callers begin with old
// lists; find defects that need several calls of the driver at once, except by chance with Target.Live.
//
// Upstream: the Container Storage Interface 1.13, and the callers as UPSTREAM.md lists them.
package csitest
