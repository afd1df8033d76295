package kubelet

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/kubelet/container"
)

// This file has the messages of containers that have exited: a file that is mounted in the container or, if that is empty, the
// end of its log.

// Limits of messages, in bytes and lines.
//
// Upstream: pkg/kubelet/container MaxPodTerminationMessageLogLength and its like (v1.36).
const (
	podMessagesMax     = 12 << 10
	messageMax         = 4 << 10
	logMessageMax      = 2 << 10
	logMessageLinesMax = 80
)

// messageFile returns the file with the message of a run.
//
// Differs: the last part of its name is derived from the run; upstream's is random.
//
// Upstream: pkg/kubelet getPodContainerDir, pkg/kubelet/kuberuntime makeMounts (v1.36).
func (k *Kubelet) messageFile(run container.Run) string {
	h := fnv.New32a()
	_, _ = fmt.Fprintf(h, "%s/%s/%d", run.Pod, run.Container, run.Restarts) // it returns no error
	return filepath.Join(k.messagesDir(run.Pod), run.Container, fmt.Sprintf("%08x", h.Sum32()))
}

func (k *Kubelet) messagesDir(uid types.UID) string {
	return filepath.Join(k.podsDir(), string(uid), "containers")
}

// mountMessage creates the file for the message of a run that starts, and adds its mount. Without the file the container starts
// too. The file of the run before the previous one is removed.
//
// Upstream: pkg/kubelet/kuberuntime makeMounts (v1.36).
func (k *Kubelet) mountMessage(pod *corev1.Pod, spec *container.Spec) {
	c := containerOf(pod, spec.Container)
	if c.TerminationMessagePath == "" {
		return
	}
	if old := spec.Run; old.Restarts > 1 {
		old.Restarts -= 2
		_ = k.cfg.FS.Remove(k.messageFile(old)) // it may be missing
	}
	file := k.messageFile(spec.Run)
	if k.cfg.FS.MkdirAll(filepath.Dir(file)) != nil || k.cfg.FS.WriteFile(file, nil) != nil || k.cfg.FS.Chmod(file, 0o666) != nil {
		return
	}
	spec.Mounts = append(slices.Clip(spec.Mounts), container.Mount{Path: path.Join("/", c.TerminationMessagePath), Source: file})
	slices.SortStableFunc(spec.Mounts, func(a, b container.Mount) int { return strings.Compare(a.Path, b.Path) })
}

// messageOf returns the message of a run that has exited.
//
// Upstream: pkg/kubelet/kuberuntime convertToKubeContainerStatus, getTerminationMessage, pkg/kubelet/status normalizeStatus (v1.36).
func (k *Kubelet) messageOf(pod *corev1.Pod, run container.Run, state container.State) string {
	c := containerOf(pod, run.Container)
	if c == nil {
		return state.Message
	}
	message, fallBack := "", c.TerminationMessagePolicy == corev1.TerminationMessageFallbackToLogsOnError && state.Code != 0
	if c.TerminationMessagePath != "" {
		file := k.messageFile(run)
		switch data, err := k.cfg.FS.ReadFile(file); {
		case err == nil:
			message = lastBytes(string(data), messageMax)
		case !errors.Is(err, fs.ErrNotExist):
			message = fmt.Sprintf("Error on reading termination log %s: %v", file, err)
		}
	}
	if log := k.cfg.Containers.Log(run); message == "" && fallBack && log != nil {
		message = lastBytes(lastLines(log.Text(""), logMessageLinesMax), logMessageMax)
	}
	if state.Message != "" && message != "" {
		message = ": " + message
	}
	message = state.Message + message
	return message[:min(len(message), podMessagesMax/len(allContainers(pod)))]
}

func lastBytes(text string, n int) string { return text[max(0, len(text)-n):] }

// lastLines returns the last lines of a text.
func lastLines(text string, n int) string {
	at := len(strings.TrimSuffix(text, "\n"))
	for range n {
		if at = strings.LastIndexByte(text[:at], '\n'); at < 0 {
			return text
		}
	}
	return text[at+1:]
}

// allContainers returns the names of the init containers, containers and ephemeral containers of a pod.
func allContainers(pod *corev1.Pod) []string {
	var names []string
	for i := range pod.Spec.InitContainers {
		names = append(names, pod.Spec.InitContainers[i].Name)
	}
	for i := range pod.Spec.Containers {
		names = append(names, pod.Spec.Containers[i].Name)
	}
	for i := range pod.Spec.EphemeralContainers {
		names = append(names, pod.Spec.EphemeralContainers[i].Name)
	}
	return names
}

// removeMessages removes the files of messages of a pod.
func (k *Kubelet) removeMessages(uid types.UID) error {
	if k.cfg.Containers == nil {
		return nil
	}
	dir := k.messagesDir(uid)
	names, err := k.cfg.FS.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, name := range names {
		files, errRead := k.cfg.FS.ReadDir(filepath.Join(dir, name))
		err = errors.Join(err, errRead)
		for _, file := range files {
			err = errors.Join(err, k.cfg.FS.Remove(filepath.Join(dir, name, file)))
		}
	}
	return err
}
