// Package recycler empties volumes with pods, which is how the plugins of kube-controller-manager
// recycle.
//
//	pods := informers.Core().V1().Pods()
//	r := recycler.New(recycler.Config{Process: process, Client: client, Pods: pods})
//	err := r.Run(ctx, recycler.Job{
//		Volume: "disk-1", Source: source, Deadline: time.Minute,
//		RecordEvent: func(eventType, message string) {},
//	})
//
// [Recycler.Run] creates the pod recycler-for-NAME, which mounts the volume at /scrub and removes
// its contents. It waits until the pod has ended, and deletes it. It forwards the pod's events. An
// existing pod of that name may be left over from an earlier controller, or an impostor: it is
// deleted, and the recycling fails, to be retried.
//
// The pod has a scheduling gate until the caller holds the volume (Job.Acquire). Its name makes it
// the only pod that empties the volume. So a volume that is still released at that time cannot be
// bound to another claim before the pod has ended. A controller that crashes in between leaves a
// pod that never runs; the next recycling of the volume deletes it.
//
// The Recycler waits for the pod in the process's cache of pods, so nothing polls and no cache
// exists only for it. A program that simulates pods recognizes a recycler pod by [PodVolume], and
// does what its command would by [Scrub].
//
// What it does not do: watch events; they are listed each time the pod changes.
//
// Upstream: pkg/volume/util/recyclerclient, pkg/volume NewPersistentVolumeRecyclerPodTemplate
// (v1.36).
package recycler
