package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/sim/trace"
)

// A chapter is a step of the demo.
type chapter struct {
	title string
	why   string // why it happens, in one sentence
	run   func(ctx context.Context) error
}

// chapters returns the steps of the demo. An LVM volume is bound to one node: it is provisioned
// when its first pod is scheduled, and its pod cannot move to another node.
func (s *demoRun) chapters(kind cluster.Devices, why string) []chapter {
	start := chapter{
		"A cluster of two nodes with volumes on " + why,
		"A CSI driver registers with the kubelet of each node, and a storage class names the driver that provisions its volumes.",
		s.cluster.Start,
	}
	restore := chapter{
		"A snapshot is taken and restored as a second volume",
		"A snapshot keeps what a volume has at one moment, and a claim that names it as its data source gets a new volume with that content.",
		func(ctx context.Context) error { return s.restore(ctx, kind) },
	}
	remove := chapter{
		"Pods, claims, snapshot and volumes are deleted",
		"The volume's reclaim policy is Delete, so it goes with its claim; finalizers keep each object until whatever uses it is gone.",
		s.remove,
	}
	if kind == cluster.LVM {
		return []chapter{
			start,
			{
				"A claim waits for its first pod, which may run on either node",
				"The claim is Pending because its class waits for the first consumer: a local volume must be created on the node of its pod.",
				s.waitingClaim,
			},
			{
				"A pod is scheduled to node-1, and its volume is provisioned there",
				"The scheduler selects a node for the pod and notes it on the claim, which tells the provisioner where to create the volume.",
				s.firstPod,
			},
			{
				"The pod is recreated, and can only run on node-1",
				"The volume exists on node-1 only and its node affinity says so, so the scheduler accepts no other node for the pod.",
				s.samePod,
			},
			restore, remove,
		}
	}
	return []chapter{
		start,
		{
			"A claim is provisioned and bound",
			"The claim asks for storage of a class that binds immediately, so its volume is created before any pod needs it.",
			s.claim,
		},
		{
			"A pod uses it on node-1",
			"Before the pod can start, the volume is attached to its node, staged there once, and published in the pod's directory.",
			s.firstPod,
		},
		{
			"The pod is recreated on node-2",
			"The access mode is ReadWriteOnce, for one node at a time: node-1 must unmount and detach the volume before node-2 gets it.",
			s.secondPod,
		},
		restore, remove,
	}
}

// waitingClaim creates the claim and waits for the event that says what it waits for. Both nodes have their free
// capacity published then, so that the pod gets the first one.
func (s *demoRun) waitingClaim(ctx context.Context) error {
	if err := s.createClaim(ctx); err != nil {
		return err
	}
	err := s.cluster.Wait(ctx, "the scheduler to see the capacity of both nodes", func() bool {
		return capacitiesSeen(s.cluster.Trace().Records()) >= 2
	})
	if err != nil {
		return err
	}
	return s.cluster.Wait(ctx, "the event WaitForFirstConsumer on the claim", func() bool {
		for _, object := range s.cluster.Server().List("events") {
			if object.(*corev1.Event).Reason == "WaitForFirstConsumer" {
				return true
			}
		}
		return false
	})
}

// capacitiesSeen returns how many published capacities the scheduler's cache has got, by its last list and since.
func capacitiesSeen(records []trace.Record) int {
	seen := 0
	for _, r := range records {
		if r.Kind != trace.KindDeliver || r.Err != nil || !strings.HasPrefix(r.Task, "scheduler/") {
			continue
		}
		switch one := strings.HasPrefix(r.Object, "csistoragecapacities/"); {
		case r.Object == "csistoragecapacities":
			count, _, _ := strings.Cut(r.Detail, " ") // "2 items rv=7"
			seen, _ = strconv.Atoi(count)
		case one && r.Verb == string(watch.Added):
			seen++
		case one && r.Verb == string(watch.Deleted):
			seen--
		}
	}
	return seen
}

func (s *demoRun) createClaim(ctx context.Context) error {
	claims := s.cluster.Client().CoreV1().PersistentVolumeClaims(namespace)
	_, err := claims.Create(ctx, cluster.NewClaim(claimName, "64Mi"), metav1.CreateOptions{})
	return err
}

// claim creates the claim and waits until it is bound.
func (s *demoRun) claim(ctx context.Context) error {
	if err := s.createClaim(ctx); err != nil {
		return err
	}
	return s.cluster.WaitForClaim(ctx, namespace, claimName, corev1.ClaimBound)
}

const greeting = "Written on node-1, through the pod's own path.\n"

func (s *demoRun) firstPod(ctx context.Context) error {
	if err := s.startPod(ctx); err != nil {
		return err
	}
	if err := s.write(ctx, greeting); err != nil {
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
	_, err := s.cluster.Client().CoreV1().Pods(namespace).Create(ctx,
		cluster.NewPod(podName, claimName), metav1.CreateOptions{})
	return err
}

func (s *demoRun) startPod(ctx context.Context) error {
	if err := s.createPod(ctx); err != nil {
		return err
	}
	return s.cluster.WaitForPod(ctx, namespace, podName, corev1.PodRunning)
}

// secondPod recreates the pod on the other node.
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
	return s.checkFile(ctx)
}

// samePod recreates the pod on the same node, the only one with its volume.
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
	s.out.note("scheduler", "cannot schedule pod/web: "+why)
	s.out.note("", "The volume is in the volume group of node-1. Node-2 has no such disk, so the pod waits for node-1.")
	if err := s.cordon(ctx, false); err != nil {
		return err
	}
	if err := s.cluster.WaitForPod(ctx, namespace, podName, corev1.PodRunning); err != nil {
		return err
	}
	return s.checkFile(ctx)
}

// cordon marks node-1 unschedulable, or schedulable again.
func (s *demoRun) cordon(ctx context.Context, closed bool) error {
	patch := fmt.Appendf(nil, `{"spec":{"unschedulable":%t}}`, closed)
	node, err := s.cluster.Client().CoreV1().Nodes().Patch(ctx, "node-1",
		types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return err
	}
	// Else the scheduler may still take node-1 as it was.
	return s.schedulerSees(ctx, "node-1 as it is", func(r trace.Record) bool {
		return r.Object == "nodes/node-1" && strings.HasSuffix(r.Detail, "rv="+node.ResourceVersion)
	})
}

// schedulerSees waits until the scheduler's cache has got what a function recognizes in one of its deliveries.
func (s *demoRun) schedulerSees(ctx context.Context, what string, is func(r trace.Record) bool) error {
	return s.cluster.Wait(ctx, "the scheduler to see "+what, func() bool {
		return slices.ContainsFunc(s.cluster.Trace().Records(), func(r trace.Record) bool {
			return r.Kind == trace.KindDeliver && strings.HasPrefix(r.Task, "scheduler/") && is(r)
		})
	})
}

// waitUnschedulable waits until the scheduler has found no node for the pod, and returns its
// reason.
func (s *demoRun) waitUnschedulable(ctx context.Context) (why string, err error) {
	err = s.cluster.Wait(ctx, "condition PodScheduled=False, reason Unschedulable", func() bool {
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

// checkFile compares the file with what the first pod wrote.
func (s *demoRun) checkFile(ctx context.Context) error {
	found, err := s.read(ctx, podName, claimName)
	if err != nil {
		return err
	}
	if found != greeting {
		return fmt.Errorf("file content has changed: %q", found)
	}
	s.out.note("web", fmt.Sprintf("finds %s with the same %d bytes", fileName, len(found)))
	return s.showSpace(ctx)
}

func (s *demoRun) stopPod(ctx context.Context) error {
	if err := s.cluster.Client().CoreV1().Pods(namespace).Delete(ctx, podName, metav1.DeleteOptions{}); err != nil {
		return err
	}
	return s.cluster.WaitForGone(ctx, "pods", namespace, podName)
}

func (s *demoRun) remove(ctx context.Context) error {
	if err := s.removeRestored(ctx); err != nil {
		return err
	}
	if err := s.stopPod(ctx); err != nil {
		return err
	}
	if err := s.removeClaim(ctx, claimName); err != nil {
		return err
	}
	return s.cluster.WaitForRest(ctx)
}

func (s *demoRun) removeClaim(ctx context.Context, name string) error {
	claims := s.cluster.Client().CoreV1().PersistentVolumeClaims(namespace)
	if err := claims.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	return s.cluster.WaitForGone(ctx, "persistentvolumeclaims", namespace, name)
}
