package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/internal/process"
	"github.com/volsim/volsim/internal/shell"
	"github.com/volsim/volsim/kubelet"
	"github.com/volsim/volsim/kubelet/container"
)

// Containers names what runs the containers of pods.
type Containers string

// The kinds of containers.
const (
	// NoContainers runs none: a container is running when its volumes are mounted, and exits as
	// kubelet.ExitCodesAnnotation or Finish says.
	NoContainers Containers = "none"
	// ShellContainers executes the commands of containers in this process, with an interpreter for the shell and the
	// usual small tools. Images are names only. Their files are on the nodes' disks, so volumes are where the
	// containers mount them. A container without a command runs until it is stopped. In a stepped world each
	// access to a file is a decision, and a command that repeats indefinitely keeps the world from coming to rest.
	ShellContainers Containers = "shell"
	// ProcessContainers executes the commands of containers as processes of this machine, in namespaces and with
	// limits of their own. busybox is their only program. Needs Linux, root, busybox-static, cgroups, and Loop or LVM
	// in a live world. A privileged container can take over the machine.
	ProcessContainers Containers = "process"
)

// validate returns an error for an unknown kind, or one that the world or this machine does not support.
func (k Containers) validate(devices Devices, stepped bool) error {
	switch {
	case k == "", k == NoContainers, k == ShellContainers:
		return nil
	case k != ProcessContainers:
		return fmt.Errorf("containers %q: want %q, %q or %q", string(k), NoContainers, ShellContainers, ProcessContainers)
	case stepped:
		return fmt.Errorf("containers %q need a live world: in a stepped one use %q", string(k), ShellContainers)
	}
	if err := process.Check(); err != nil {
		return fmt.Errorf("containers %q: %w", string(k), err)
	}
	if devices == Array {
		return fmt.Errorf("containers %q need volumes on this machine: devices %q are in memory; use %q or %q", string(k), Array, Loop, LVM)
	}
	return nil
}

// runs reports whether containers run.
func (k Containers) runs() bool { return k == ShellContainers || k == ProcessContainers }

// containersDir is the directory of containers on a node's disk, below that of its kubelet.
//
// Upstream: containerd's state directory, which is below /run.
const containersDir = "containers"

// bootContainers starts what runs the containers of a node, or starts it again: all containers have ended.
func (c *Cluster) bootContainers(n *node) error {
	if !c.containers.runs() {
		return nil
	}
	if n.containerProcess != nil {
		c.host.Crash(n.containerProcess)
	}
	n.containerProcess = c.host.Process("containers(" + n.name + ")")
	return n.containerProcess.SetUp(func() error {
		runtime, err := c.newRuntime(n)
		if err != nil {
			return fmt.Errorf("containers of %s: %w", n.name, err)
		}
		n.containers.Store(&runtime)
		return nil
	})
}

// newRuntime returns what runs the containers of a node.
func (c *Cluster) newRuntime(n *node) (container.Runtime, error) {
	if c.containers == ShellContainers {
		return shell.New(shell.Config{Process: n.containerProcess, FS: n.fs, Root: n.root + "/" + containersDir}), nil
	}
	return process.New(process.Config{Process: n.containerProcess, Root: n.root})
}

// endContainers ends the processes of all containers, which use the disks of the nodes.
func (c *Cluster) endContainers() {
	for _, n := range c.nodes {
		if r, ok := n.runtime().(interface{ Close() }); ok {
			r.Close()
		}
	}
}

// runtime returns what runs the containers of the node; nil if nothing does.
func (n *node) runtime() container.Runtime {
	if r := n.containers.Load(); r != nil {
		return *r
	}
	return nil
}

// errNoContainers says that a cluster runs no containers.
var errNoContainers = errors.New("no containers run in this cluster: set Config.Containers")

// A Result is that of a command.
type Result struct {
	Stdout, Stderr string
	Code           int32 // exit code
}

// Exec executes a command in a container of a running pod, and lets the world run until it has ended. A command
// that does not exist has the exit code 127. container "" is the pod's only one. The error matches
// fs.ErrNotExist if the pod does not exist, and container.ErrNotRunning if the container does not run. In a world without
// Config.Containers there is always an error.
func (c *Cluster) Exec(ctx context.Context, namespace, pod, name string, args ...string) (Result, error) {
	n, run, err := c.containerRun(namespace, pod, name)
	if err != nil {
		return Result{}, fmt.Errorf("exec in pod %s/%s: %w", namespace, pod, err)
	}
	if err := c.waitForStart(ctx, namespace, pod, n, run); err != nil {
		return Result{}, fmt.Errorf("exec in pod %s/%s: container %q: %w: %w", namespace, pod, run.Container, container.ErrNotRunning, err)
	}
	out := container.NewOutput(0)
	e, err := n.runtime().Exec(run, args, container.Streams{Output: out})
	if err != nil {
		return Result{}, fmt.Errorf("exec in pod %s/%s: %w", namespace, pod, err)
	}
	err = c.Wait(ctx, "command in pod "+namespace+"/"+pod+" to end", e.Ended)
	if err != nil {
		e.Kill()
		return Result{}, err
	}
	return Result{Stdout: out.Text(container.Stdout), Stderr: out.Text(container.Stderr), Code: e.Code()}, nil
}

// waitForStart lets the world run until a run has started that the status of its pod shows as running: the kubelet
// writes the status first.
func (c *Cluster) waitForStart(ctx context.Context, namespace, pod string, n *node, run container.Run) error {
	return c.Wait(ctx, "container "+run.Container+" of pod "+namespace+"/"+pod+" to be started", func() bool {
		p, exists := c.pod(namespace, pod)
		if !exists || p.UID != run.Pod || n.runtime().State(run).Started {
			return true
		}
		return !slices.ContainsFunc(slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses), func(s corev1.ContainerStatus) bool {
			return s.Name == run.Container && s.RestartCount == run.Restarts && s.State.Running != nil
		})
	})
}

// Logs returns what the current run of a container has written so far, or its last run if it waits for the next.
// Errors are those of Exec, except that the container need not run.
func (c *Cluster) Logs(namespace, pod, name string) (string, error) {
	n, run, err := c.containerRun(namespace, pod, name)
	if err != nil {
		return "", fmt.Errorf("logs of pod %s/%s: %w", namespace, pod, err)
	}
	out := n.runtime().Log(run)
	if out == nil {
		return "", fmt.Errorf("logs of pod %s/%s: container %s: %w", namespace, pod, run.Container, container.ErrNotRunning)
	}
	return out.Text(""), nil
}

// containerRun returns the current run of a container, with its node.
func (c *Cluster) containerRun(namespace, name, in string) (*node, container.Run, error) {
	pod, ok := c.pod(namespace, name)
	if !ok {
		return nil, container.Run{}, fmt.Errorf("pod: %w", fs.ErrNotExist)
	}
	n, err := c.node(pod.Spec.NodeName)
	if err != nil {
		return nil, container.Run{}, err
	}
	if n.runtime() == nil {
		return nil, container.Run{}, errNoContainers
	}
	all := slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses, pod.Status.EphemeralContainerStatuses)
	if in == "" && len(pod.Spec.Containers) == 1 {
		in = pod.Spec.Containers[0].Name
	}
	i := slices.IndexFunc(all, func(s corev1.ContainerStatus) bool { return s.Name == in })
	if i < 0 {
		return nil, container.Run{}, fmt.Errorf("container %q: %w", in, fs.ErrNotExist)
	}
	return n, container.Run{Pod: pod.UID, Container: in, Restarts: all[i].RestartCount}, nil
}

// Finish lets the current run of each container of a pod exit with a code, by kubelet.ExitCodesAnnotation, in a world
// whose containers nothing runs. A container that is restarted then runs again. Init containers and sidecar containers are
// not finished. Errors are those of the API; with Config.Containers there is always one.
func (c *Cluster) Finish(ctx context.Context, namespace, pod string, code uint8) error {
	if c.containers.runs() {
		return fmt.Errorf("finish pod %s/%s: its containers run, and end by themselves", namespace, pod)
	}
	pods := c.Client().CoreV1().Pods(namespace)
	p, err := pods.Get(ctx, pod, metav1.GetOptions{})
	if err != nil {
		return err
	}
	var codes []string
	for _, s := range p.Status.ContainerStatuses {
		codes = append(codes, s.Name+"="+strings.Repeat(",", int(s.RestartCount))+strconv.Itoa(int(code)))
	}
	if p.Annotations == nil {
		p.Annotations = map[string]string{}
	}
	p.Annotations[kubelet.ExitCodesAnnotation] = strings.Join(codes, " ")
	_, err = pods.Update(ctx, p, metav1.UpdateOptions{})
	return err
}
