// Package recycler empties a volume by a pod: the way in which the plugins of kube-controller-manager recycle.
//
// [Recycler.Run] creates the pod recycler-for-NAME, which has the volume at /scrub and removes whatever is there, waits until
// the pod has ended, and deletes it. What is told of the pod in events is passed on. A pod of that name that is there already
// may be one that an earlier controller left, or somebody's who wants to be taken for it: it is deleted, and the recycling
// fails, to be tried again.
//
// The pod is kept from being scheduled until whoever asked for it holds the volume (Job.Begin): its name makes it the only
// pod that empties the volume, so a volume that is found as it was released then cannot become another's before the pod has
// ended. A controller that is killed in between leaves a pod that never runs; it goes when the volume is recycled the next
// time.
//
// The pod is waited for by what the component's cache of pods shows, so that nothing polls and no cache is had for it alone.
// Events are not watched: they are listed each time the pod has changed.
//
// Whoever runs pods recognizes one by [PodVolume], and does what its command would with [Scrub].
//
// Upstream: pkg/volume/util/recyclerclient, pkg/volume NewPersistentVolumeRecyclerPodTemplate (v1.36).
package recycler
