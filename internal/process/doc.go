// Package process runs the commands of containers as real processes. It is a [container.Runtime].
//
//	process := host.Process("containers(node-1)")
//	runtime, err := process.New(process.Config{Process: process, Root: "/var/tmp/volumes/node-1"})
//	defer runtime.Close()
//	run := container.Run{Pod: "uid", Container: "main"}
//	runtime.Start(container.Spec{Run: run, Args: []string{"sh", "-c", "echo hello"}})
//
// Each run has namespaces of its own: mounts, processes, network, host name and IPC. Its root directory
// is a small file system in memory, with busybox as the only program. It sees the volumes of its pod at
// their mount points, and nothing else of this machine's files. Its memory and the number of its processes
// are limited by cgroups.
//
// A thread of this program enters the namespaces, gives up capabilities and forks process 1, which is
// stopped by ptrace at its exec. While it is stopped it is put into its cgroups, and its /proc is mounted. So
// no instruction of the command runs before it is confined. The thread waits for the end of the process: if
// this program dies, the kernel kills process 1, and with it all processes of the run. Its mounts end with them.
//
// What confines a run:
//   - it has docker's default capabilities without those for devices, raw sockets, chroot and the audit log,
//     and cannot gain others
//   - a filter refuses the system calls that do not belong to a namespace: keyrings, bpf, user namespaces
//   - mounts are private, and without setuid programs and device nodes
//   - /proc has no process of the machine; what changes the machine is read-only, or hidden
//
// A privileged run has all capabilities and no filter. It can take over the machine.
//
// Process 1 ignores TERM without a handler, as the kernel defines it.
//
// # Limits
//
// Linux as root, with busybox-static and cgroups for memory and processes. The containers
// of a pod share volumes, but no network. Nothing leads out of the network of a run. stdout and stderr are two pipes, so the
// order between them is that of reading.
//
// Root in a run that stops all its processes again and again may stop a command of an execution before it has begun. Then this
// program starts no other process until the run is removed.
//
// Differs: the first process that a run starts has a number greater than 2.
//
// Upstream: runc (v1.3), containerd's CRI plugin (v2), pkg/kubelet/kuberuntime (v1.36).
package process
