// Package csiserver serves the services of a CSI driver on a unix socket, as a
// program does that a kubelet and sidecars talk to.
//
// A [Server] has one socket, of which the directory's lock lets one process at a
// time find out whether somebody serves there: a socket that nobody answers at is
// what a killed process left, and is replaced; one that is answered at is an error.
// [LockDir] keeps a second process away from what a driver keeps on disk. Both
// locks are the kernel's, so that nothing of them is left by a process that is
// killed.
//
// [CallObserver] sees each call: a line of log, and a figure for Prometheus. What a
// request holds is logged only when asked for, and then without its secrets.
package csiserver
