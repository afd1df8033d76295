// Package blockdev is what a node knows of any of its block devices, whatever
// driver of the kernel's it is of: which one a node is, where its file system is
// mounted, whether anybody uses it. It freezes and thaws the file system, so that
// what is on the device can be copied. It keeps no state: what it tells is read
// from the kernel each time, and what is mounted is what this process sees, unless
// said otherwise.
//
// On systems other than Linux there are no devices.
package blockdev
