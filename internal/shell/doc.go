// Package shell runs the commands of containers in memory, deterministically. It is a [container.Runtime].
//
//	process := host.Process("containers(node-1)")
//	runtime := shell.New(shell.Config{Process: process, FS: node, Root: "/var/lib/kubelet/containers"})
//	run := container.Run{Pod: "uid", Container: "main"}
//	runtime.Start(container.Spec{Run: run, Args: []string{"sh", "-c", "echo hello"}})
//	entries, _, _, _ := runtime.Log(run).Read(0)
//
// Each container has a root directory below Root, and sees its mounts. The scripts of its shell are
// parsed by mvdan.cc/sh and evaluated here; each tool of the image, such as cat or dd, is a Go function.
// The shell and the tools follow busybox, including the texts of errors. Each process of a container is
// a task of the node's sim.Process, and each access to a file is a call. So a stepped world can
// interleave containers at each access, and a crash of the process ends all of them.
//
// Paths are resolved inside the view of the container. Neither ".." nor a symbolic link leads out of
// its root directory and its mounts.
//
// Process 1 of a container ignores TERM without a trap, as the kernel defines it. A process that runs
// for long without waiting sleeps from time to time, so the clock of a stepped world advances.
//
// # Limits
//
// All processes run as root, without permission checks. Files have no times and no hard links. A file
// is written when the command that wrote to it ends or waits. A reader sees the content as it was when
// it opened the file. A command in the foreground runs in the task of its shell: a signal that ends the
// shell ends the command.
//
// Differs: a trap interrupts a sleep in the foreground, as if sleep were a builtin of the shell.
//
// Upstream: pkg/kubelet/kuberuntime (v1.36), containerd and runc for the states of containers.
package shell
