package recycler

import (
	"cmp"
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

var errDeleted = errors.New("recycler pod was deleted")

// await waits until a pod has ended, and says how.
//
// Differs: upstream watches the pod's events, and tells of one at once; here they are listed when the pod has changed. Upstream's
// watch begins with the events of earlier pods of that name, which are told again.
//
// Upstream: pkg/volume/util/recyclerclient waitForPod (v1.36).
func (r *Recycler) await(ctx context.Context, made *corev1.Pod, tell func(severity, text string)) error {
	w := watched{recycler: r, made: made}
	told := map[types.UID]bool{}
	for {
		r.cfg.Component.Wait("change of recycler pod "+made.Name, 0, w.changed)
		r.relay(ctx, made, told, tell)
		switch w.last {
		case looksGone:
			if err := r.isThere(ctx, made); err != nil {
				return err
			}
			continue
		case isGone:
			return errDeleted
		}
		switch pod := w.pod; {
		case pod.Status.Phase == corev1.PodSucceeded:
			return nil
		case pod.Status.Phase == corev1.PodFailed && pod.Status.Message != "":
			return errors.New(pod.Status.Message)
		case pod.Status.Phase == corev1.PodFailed:
			return errors.New("pod failed, pod.Status.Message unknown")
		}
	}
}

// What the cache shows of a pod.
type sight int

const (
	isComing  sight = iota // nothing yet
	isSeen                 // the pod
	isGone                 // no longer the pod
	looksGone              // not the pod, and it should
)

// watched is a pod as the component's cache shows it.
type watched struct {
	recycler *Recycler
	made     *corev1.Pod // as it was created

	last sight
	pod  *corev1.Pod // last seen
	come string      // where the cache stood when the pod last looked gone
}

// changed looks again, and tells whether there is something new.
func (w *watched) changed() bool {
	pod, err := w.recycler.cfg.Pods.Lister().Pods(w.made.Namespace).Get(w.made.Name)
	if err == nil && pod.UID == w.made.UID {
		if w.pod != nil && pod.ResourceVersion == w.pod.ResourceVersion {
			return false
		}
		w.last, w.pod = isSeen, pod
		return true
	}
	if w.pod != nil {
		w.last = isGone
		return true
	}
	come := w.recycler.cfg.Pods.Informer().LastSyncResourceVersion()
	if come == w.come || !isAtLeast(come, w.made.ResourceVersion) {
		return false
	}
	w.last, w.come = looksGone, come
	return true
}

// isAtLeast tells whether a resourceVersion is known to be at least another.
func isAtLeast(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order >= 0
}

// isThere asks the API server for a pod, since the cache may have missed all of its life, or may be about to show it. The error
// matches errDeleted, or it could not be asked.
func (r *Recycler) isThere(ctx context.Context, made *corev1.Pod) error {
	pod, err := r.cfg.Client.CoreV1().Pods(made.Namespace).Get(ctx, made.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && pod.UID != made.UID {
		return errDeleted
	}
	return err
}

// relay tells of the pod's events, each once, in their order. Those that cannot be read now are told the next time.
func (r *Recycler) relay(ctx context.Context, pod *corev1.Pod, told map[types.UID]bool, tell func(severity, text string)) {
	about := fields.Set{"involvedObject.name": pod.Name, "involvedObject.uid": string(pod.UID)}
	list, err := r.cfg.Client.CoreV1().Events(pod.Namespace).List(ctx, metav1.ListOptions{FieldSelector: about.String()})
	if err != nil {
		return
	}
	slices.SortStableFunc(list.Items, func(a, b corev1.Event) int {
		return cmp.Or(a.FirstTimestamp.Compare(b.FirstTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	for i := range list.Items {
		if e := &list.Items[i]; !told[e.UID] {
			told[e.UID] = true
			tell(e.Type, e.Message)
		}
	}
}
