// Package guest runs a program as root on a Linux kernel of its own: a User-Mode-Linux guest, which is a process of this
// machine. It is for tests of what this machine's kernel does not offer (device-mapper), of what takes root where nobody is
// root, and of what no machine that is needed should go through: a power failure.
//
// # The model
//
// The kernel is Debian's user-mode-linux, an ordinary program: no virtualization, no privilege, no image. It takes one CPU,
// and its memory is a file without a name. The guest's root is this machine's, read-only, through hostfs: programs,
// libraries, the test binary and its working directory are where they always are. /run and /dev/shm are the guest's own, in
// its memory, and TMPDIR leads there; /proc, /sys and /dev are the guest's. What a program writes reaches this machine by its
// standard output and error, by the folders of Config.Writable, and by Config.Disks, files of this machine that are
// /dev/ubda, /dev/ubdb, … inside. There is no network but lo, no udev (DM_DISABLE_UDEV is set), and nothing on standard input.
//
// This is no wall: root in the guest can mount the rest of this machine's files writable, with the rights of whoever started
// the guest. It keeps accidents apart, not enemies.
//
// Process 1 of the guest is the very program that starts it: Main, called first of all in main or TestMain, sees that it is
// inside, mounts, loads the modules, runs the command, tells what came of it, and never returns. Outside and inside speak
// over one line, a raw terminal of the guest whose ends outside are pipes (wire.go): outputs as they come, then the exit
// status. When that is told, all is told, and the guest's processes are killed; its file systems were unmounted before.
//
// # Power loss
//
// Guest.Kill is a power failure: the kernel's processes are killed as they stand. What the guest had not yet written to its
// disks is gone, what it had written is there, also when it was not flushed: the disks' own caches survive. (A disk that
// forgets what was not flushed is to be had of dm-flakey's drop_writes, inside.) The next guest on the same disks is the
// machine that comes up again.
//
// # Nothing is left
//
// A guest ends when its command does, when Kill is called or when the context is done; and with the process that started it,
// however that ends. The processes of a guest are a process group; Wait returns when all of them are gone. The job's folder,
// below TMPDIR, goes with it; one that nobody took away because its process was killed is taken away by the next Start.
//
// # What does not run
//
// A program with the race detector: its shadow memory does not fit into the guest's address space (512 GiB). A RAID 6, unless
// Config.RAID6 is set: without it the kernel does not try out which of its routines is fastest, which takes two thirds of a second.
package guest
