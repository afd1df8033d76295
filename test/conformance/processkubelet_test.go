package conformance_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/fieldpath"
	"k8s.io/kubernetes/third_party/forked/golang/expansion"
)

// A processKubelet runs the command of each pod's first container as a process of this machine. It
// stands in for the kubelets of all nodes, a runtime, and a scheduler: a pod starts where it is. A
// directory and the environment are those of the image.
type processKubelet struct {
	t      *testing.T
	client kubernetes.Interface
	dir    string
	env    map[string]string

	running sync.WaitGroup
	mu      sync.Mutex
	logs    map[string]string // guarded by mu: output of the ended containers, by pod
}

// startProcessKubelet starts a stand-in that ends, with all processes, when ctx does.
func startProcessKubelet(ctx context.Context, t *testing.T, client kubernetes.Interface, factory informers.SharedInformerFactory,
	dir string, env map[string]string,
) *processKubelet {
	t.Helper()
	k := &processKubelet{t: t, client: client, dir: dir, env: env, logs: map[string]string{}}
	_, err := factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(obj any) {
		k.running.Go(func() { k.run(ctx, obj.(*corev1.Pod)) })
	}})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// log returns the output of a container that has ended.
func (k *processKubelet) log(pod string) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.logs[pod]
}

// run runs a pod to its end.
func (k *processKubelet) run(ctx context.Context, pod *corev1.Pod) {
	container := &pod.Spec.Containers[0]
	env := maps.Clone(k.env)
	for _, v := range container.Env {
		env[v.Name] = v.Value
		if v.ValueFrom != nil && v.ValueFrom.FieldRef != nil {
			value, err := fieldpath.ExtractFieldPathAsString(pod, v.ValueFrom.FieldRef.FieldPath)
			if err != nil {
				k.t.Error(err)
			}
			env[v.Name] = value
		}
	}
	var command []string
	for _, word := range slices.Concat(container.Command, container.Args) {
		command = append(command, expansion.Expand(word, expansion.MappingFuncFor(env)))
	}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir = k.dir
	for _, name := range slices.Sorted(maps.Keys(env)) {
		cmd.Env = append(cmd.Env, name+"="+env[name])
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	k.report(ctx, pod, corev1.PodRunning, corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}})
	err := cmd.Run()
	code := 0
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		code = exit.ExitCode()
	} else if err != nil {
		k.t.Errorf("pod %s: %v", pod.Name, err)
	}
	k.mu.Lock()
	k.logs[pod.Name] = out.String()
	k.mu.Unlock()
	phase := corev1.PodSucceeded
	if code != 0 {
		phase = corev1.PodFailed
	}
	k.report(ctx, pod, phase, corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: int32(code), FinishedAt: metav1.Now()}})
}

// report writes the status of a pod.
func (k *processKubelet) report(ctx context.Context, pod *corev1.Pod, phase corev1.PodPhase, state corev1.ContainerState) {
	patch, err := json.Marshal(map[string]any{"status": corev1.PodStatus{
		Phase: phase, ContainerStatuses: []corev1.ContainerStatus{{Name: pod.Spec.Containers[0].Name, State: state, Ready: state.Running != nil}},
	}})
	if err == nil {
		_, err = k.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	}
	if err != nil && ctx.Err() == nil {
		k.t.Errorf("pod %s: %v", pod.Name, err)
	}
}
