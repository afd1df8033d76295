// Package blockdev inspects block devices of any kernel driver and freezes their file systems.
//
//	frozen, err := blockdev.Freeze("/dev/loop3")
//	if err != nil {
//		return err
//	}
//	defer frozen.Thaw() // copy the device meanwhile
//
// It reports which device a node refers to, where its file system is mounted and whether it is in
// use. It freezes and thaws the file system, so that the device can be copied at one instant. The
// package keeps no state: it reads everything from the kernel on each call. Mounts are those that
// this process sees, unless a function says otherwise.
//
// Limits: on systems other than Linux all functions return ErrUnsupported.
package blockdev
