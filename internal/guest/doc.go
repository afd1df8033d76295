// Package guest runs a program as root on a separate Linux kernel: a User-Mode-Linux guest, which
// is a process of this machine.
//
//	func TestMain(m *testing.M) { guest.Main(); os.Exit(m.Run()) }
//	...
//	err := guest.Run(ctx, guest.Config{Disks: []string{"disk.img"}}, "mkfs.ext4", "/dev/ubda")
//
// It is for tests that need device-mapper where this machine's kernel has none, root where the user
// is not root, or a power failure.
//
// # Model
//
// The kernel is Debian's user-mode-linux, an ordinary program without virtualization, privileges or
// images. It uses one CPU, and its memory is an unnamed file. The guest's root is this machine's
// file system, read-only, through hostfs: programs, libraries, the test binary and its working
// directory keep their paths. /run, /dev/shm and TMPDIR are in the guest's memory. /proc, /sys and
// /dev are the guest's.
//
// A program's effects reach this machine only through its standard output and error, the folders of
// Config.Writable, and the files of Config.Disks, which are /dev/ubda, /dev/ubdb, … in the guest.
// There is no network except lo, no udev (DM_DISABLE_UDEV is set), and no standard input.
//
// The guest is not a security boundary: root in the guest can mount the rest of this machine's
// files writable, with the rights of the user who started it. It prevents accidents, not attacks.
//
// Process 1 of the guest is the program that starts it. Main, called first in main or TestMain,
// detects the guest. It then mounts file systems, loads modules, runs the command, reports the
// result, and never returns. Host and guest communicate over one line, a raw terminal of the guest
// that is connected to pipes of the host (frames.go). It carries the output as it is written, then
// the exit status. After that the guest has unmounted its file systems, and its processes are
// killed.
//
// # Power failure
//
// Guest.Kill simulates a power failure: it kills the kernel's processes immediately. Data that the
// guest has not written to its disks is lost. Written data survives even if it was not flushed, so
// the caches of the disks survive. (dm-flakey's drop_writes, in the guest, simulates a disk that
// loses unflushed data.) The next guest with the same disks is the rebooted machine.
//
// # Cleanup
//
// A guest ends with its command, by Kill, when the context is done, or with the process that
// started it, however that ends. Its processes form a process group, and Wait returns after all of
// them have ended. The job's folder, below TMPDIR, is removed by the guest's supervisor, a separate
// process.
//
// # What does not run
//
// Programs built with the race detector, whose shadow memory exceeds the guest's address space (512
// GiB). RAID 6, unless Config.RAID6 is set: by default the kernel skips its benchmark of RAID 6
// routines, which takes two thirds of a second.
package guest
