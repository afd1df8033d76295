package kubelet

import (
	"context"
	"fmt"
	"path"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/internal/recycler"
	"github.com/volsim/volsim/plugins/hostpath"
	"github.com/volsim/volsim/plugins/nfs"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sim/trace"
)

// recycle runs a recycler pod: it removes the content of the pod's volume and reports the pod as
// ended. The pod's mounts are not created.
//
// First it reads the pod from the API server. A kubelet whose last report was lost, or that
// restarted from an old list, does not know that the pod has ended; the volume may have a new user
// by then. Upstream's kubelet knows it from its containers.
//
// Upstream: pkg/kubelet SyncPod, pkg/kubelet/active_deadline.go (v1.36), and the container's
// command.
func (k *Kubelet) recycle(ctx context.Context, pod *corev1.Pod, volume string, source corev1.VolumeSource) error {
	live, err := k.cfg.Client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	case live.UID != pod.UID, live.DeletionTimestamp != nil, finished(live):
		return nil // the cache will show it
	}
	plugin, fs, dir, err := k.recycleTarget(source)
	if err != nil {
		return err
	}
	action := trace.Action{Kind: trace.KindDriver, Verb: "Recycle", Object: plugin + "/" + volume}
	began := k.cfg.Process.Now()
	out := k.cfg.Process.Call(action, func() trace.Outcome {
		return trace.Outcome{Err: clearDir(fs, dir), Detail: "node=" + k.cfg.Node + " path=" + sourcePath(source)}
	})
	err = k.reportPod(ctx, pod, terminatedStatus(pod, began, k.cfg.Process.Now(), out.Err), "")
	if err == nil {
		k.lifecycles[pod.UID] = ended
	}
	return err
}

// recycleTarget returns the plugin of the volume that a pod recycles, and where it is.
func (k *Kubelet) recycleTarget(source corev1.VolumeSource) (plugin string, fs nodefs.FS, dir string, err error) {
	switch {
	case source.HostPath != nil:
		return hostpath.Name, k.cfg.FS, path.Join(k.cfg.Root, source.HostPath.Path), nil
	case source.NFS != nil && k.cfg.NFS != nil:
		exports := k.cfg.NFS.Machine()
		return nfs.Name, exports.FS, exports.Path(path.Join("/", source.NFS.Server, source.NFS.Path)), nil
	default:
		return "", nil, "", fmt.Errorf("node %q: unsupported volume of recycler pod", k.cfg.Node)
	}
}

func sourcePath(source corev1.VolumeSource) string {
	if source.HostPath != nil {
		return source.HostPath.Path
	}
	return source.NFS.Server + ":" + source.NFS.Path
}

// clearDir removes the content of a directory. It creates a missing directory, as container
// runtimes do.
func clearDir(fs nodefs.FS, dir string) error {
	if err := fs.MkdirAll(dir); err != nil {
		return err
	}
	return recycler.Scrub(fs, dir)
}

// terminatedStatus returns the status of a pod whose only container ended with err, possibly after
// its deadline.
func terminatedStatus(pod *corev1.Pod, began, ended time.Time, err error) corev1.PodStatus {
	start, end := metav1.NewTime(began), metav1.NewTime(ended)
	status := corev1.PodStatus{Phase: corev1.PodSucceeded, StartTime: &start}
	exit := corev1.ContainerStateTerminated{Reason: "Completed", StartedAt: start, FinishedAt: end}
	why := "PodCompleted"
	if err != nil {
		status.Phase, why = corev1.PodFailed, "PodFailed"
		exit.ExitCode, exit.Reason = 1, "Error"
	}
	if limit := pod.Spec.ActiveDeadlineSeconds; limit != nil && ended.Sub(began) >= time.Duration(*limit)*time.Second {
		status.Phase, why = corev1.PodFailed, "PodFailed"
		status.Reason, status.Message = "DeadlineExceeded", "Pod was active on the node longer than the specified deadline"
	}
	for _, t := range []corev1.PodConditionType{corev1.PodReady, corev1.ContainersReady} {
		status.Conditions = append(status.Conditions, corev1.PodCondition{
			Type: t, Status: corev1.ConditionFalse, Reason: why, LastTransitionTime: end,
		})
	}
	for _, c := range pod.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, State: corev1.ContainerState{Terminated: &exit},
		})
	}
	return status
}
