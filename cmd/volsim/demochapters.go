package main

import (
	"bytes"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/cluster"
)

// chapter is a step of the demo, and what is said of it.
type chapter struct {
	title string // "": nothing
	run   func(ctx context.Context) error
}

// chapters is what is shown. A volume that can be used on its own node only is made when its first pod comes, and is not followed
// by a pod to another one.
func (s *demoRun) chapters(kind cluster.Devices) []chapter {
	if kind == cluster.LVM {
		return []chapter{
			{"", s.cluster.Start},
			{"A claim waits for its first pod: it could be on either node", s.waitingClaim},
			{"A pod comes, and the volume is made where it is to run, on node-1", s.firstPod},
			{"The pod comes back, and can only do so on node-1", s.samePod},
			{"Pod, claim and volume go", s.remove},
		}
	}
	return []chapter{
		{"", s.cluster.Start},
		{"A claim is provisioned and bound", s.claim},
		{"A pod uses it on node-1", s.firstPod},
		{"The pod comes back on node-2", s.secondPod},
		{"Pod, claim and volume go", s.remove},
	}
}

// waitingClaim makes the claim and waits until it is told what it waits for.
func (s *demoRun) waitingClaim(ctx context.Context) error {
	if err := s.createClaim(ctx); err != nil {
		return err
	}
	return s.cluster.Wait(ctx, "the claim to be told that it waits for its first pod", func() bool {
		for _, object := range s.cluster.Server().List("events") {
			if object.(*corev1.Event).Reason == "WaitForFirstConsumer" {
				return true
			}
		}
		return false
	})
}

func (s *demoRun) createClaim(ctx context.Context) error {
	claims := s.cluster.Client().CoreV1().PersistentVolumeClaims(namespace)
	_, err := claims.Create(ctx, cluster.NewClaim(claimName, "64Mi"), metav1.CreateOptions{})
	return err
}

// claim makes the claim and waits until it is bound.
func (s *demoRun) claim(ctx context.Context) error {
	if err := s.createClaim(ctx); err != nil {
		return err
	}
	return s.cluster.WaitForClaim(ctx, namespace, claimName, corev1.ClaimBound)
}

var greeting = []byte("Written on node-1, through the pod's own path.\n")

func (s *demoRun) firstPod(ctx context.Context) error {
	if err := s.startPod(ctx); err != nil {
		return err
	}
	if err := s.cluster.WriteFile(namespace, podName, claimName, fileName, greeting); err != nil {
		return err
	}
	path, err := s.cluster.MountPath(namespace, podName, claimName)
	if err != nil {
		return err
	}
	s.out.note("web", fmt.Sprintf("writes %d bytes to %s/%s", len(greeting), path, fileName))
	return nil
}

func (s *demoRun) createPod(ctx context.Context) error {
	_, err := s.cluster.Client().CoreV1().Pods(namespace).Create(ctx, cluster.NewPod(podName, claimName), metav1.CreateOptions{})
	return err
}

func (s *demoRun) startPod(ctx context.Context) error {
	if err := s.createPod(ctx); err != nil {
		return err
	}
	return s.cluster.WaitForPod(ctx, namespace, podName, corev1.PodRunning)
}

// secondPod brings the pod back on the other node.
func (s *demoRun) secondPod(ctx context.Context) error {
	if err := s.cordon(ctx, true); err != nil {
		return err
	}
	if err := s.stopPod(ctx); err != nil {
		return err
	}
	if err := s.startPod(ctx); err != nil {
		return err
	}
	return s.checkFile()
}

// samePod brings the pod back where it was: nowhere else can it have its volume.
func (s *demoRun) samePod(ctx context.Context) error {
	if err := s.cordon(ctx, true); err != nil {
		return err
	}
	if err := s.stopPod(ctx); err != nil {
		return err
	}
	if err := s.createPod(ctx); err != nil {
		return err
	}
	why, err := s.waitUnschedulable(ctx)
	if err != nil {
		return err
	}
	s.out.note("scheduler", "finds no node for pod default/web: "+why)
	s.out.note("", "The volume lies in the volume group of node-1: on node-2 there is no such disk, so the pod waits for node-1.")
	if err := s.cordon(ctx, false); err != nil {
		return err
	}
	if err := s.cluster.WaitForPod(ctx, namespace, podName, corev1.PodRunning); err != nil {
		return err
	}
	return s.checkFile()
}

// cordon closes node-1 to new pods, or opens it.
func (s *demoRun) cordon(ctx context.Context, closed bool) error {
	patch := fmt.Appendf(nil, `{"spec":{"unschedulable":%t}}`, closed)
	_, err := s.cluster.Client().CoreV1().Nodes().Patch(ctx, "node-1", types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// waitUnschedulable waits until the scheduler has found no node for the pod, and returns its words.
func (s *demoRun) waitUnschedulable(ctx context.Context) (why string, err error) {
	err = s.cluster.Wait(ctx, "the scheduler to find no node", func() bool {
		pod, ok := s.cluster.Server().Get("pods", namespace, podName)
		if !ok {
			return false
		}
		for _, c := range pod.(*corev1.Pod).Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable {
				why = c.Message
			}
		}
		return why != ""
	})
	return why, err
}

// checkFile looks for the file that the first pod has written.
func (s *demoRun) checkFile() error {
	found, err := s.cluster.ReadFile(namespace, podName, claimName, fileName)
	if err != nil {
		return err
	}
	if !bytes.Equal(found, greeting) {
		return fmt.Errorf("the file has changed: %q", found)
	}
	s.out.note("web", fmt.Sprintf("finds %s with the same %d bytes", fileName, len(found)))
	return nil
}

func (s *demoRun) stopPod(ctx context.Context) error {
	if err := s.cluster.Client().CoreV1().Pods(namespace).Delete(ctx, podName, metav1.DeleteOptions{}); err != nil {
		return err
	}
	return s.cluster.WaitForGone(ctx, "pods", namespace, podName)
}

func (s *demoRun) remove(ctx context.Context) error {
	if err := s.stopPod(ctx); err != nil {
		return err
	}
	claims := s.cluster.Client().CoreV1().PersistentVolumeClaims(namespace)
	if err := claims.Delete(ctx, claimName, metav1.DeleteOptions{}); err != nil {
		return err
	}
	if err := s.cluster.WaitForGone(ctx, "persistentvolumeclaims", namespace, claimName); err != nil {
		return err
	}
	return s.cluster.WaitForRest(ctx)
}
