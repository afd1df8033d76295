// Package dm makes devices that go wrong when a test says so, of the kernel's device-mapper.
//
// A [Disk] stands before another device, its backing, and passes everything on until Become says otherwise: it may fail what is
// written or all that is asked of it, forget writes that it said it had done, or take its time. It changes while it is in use,
// between two requests: those under way are ended first. What it passes on is never changed by it, so that a disk that became
// Healthy again shows what its backing has.
//
// All is done by dmsetup(8), which takes root and the package dmsetup (lvm2 needs it). Where a machine has no device-mapper
// (Missing), its tests run in a guest: see cmd/umlexec.
//
// Not done, on purpose: sectors that go bad one by one (dust), a record of all writes (log-writes).
package dm
