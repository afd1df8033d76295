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

// awaitPod waits until a pod has ended, and says how.
//
// Differs: upstream watches the pod's events, and tells of one at once; here they are listed when the pod has changed.
// Upstream's watch begins with the events of earlier pods of that name, which are told again.
//
// Upstream: pkg/volume/util/recyclerclient waitForPod (v1.36).
func (r *Recycler) awaitPod(ctx context.Context, made *corev1.Pod, tell func(severity, text string)) error {
	w := podWatch{recycler: r, made: made, version: made.ResourceVersion}
	told := map[types.UID]bool{}
	for {
		r.cfg.Process.Wait("change of recycler pod "+made.Name, 0, w.changed)
		pod := w.observe()
		r.relayEvents(ctx, made, told, tell)
		switch {
		case pod == nil:
			if err := r.checkExists(ctx, made); err != nil {
				return err
			}
		case pod.Status.Phase == corev1.PodSucceeded:
			return nil
		case pod.Status.Phase == corev1.PodFailed && pod.Status.Message != "":
			return errors.New(pod.Status.Message)
		case pod.Status.Phase == corev1.PodFailed:
			return errors.New("pod failed, pod.Status.Message unknown")
		}
	}
}

// podWatch is a pod as the component's cache shows it.
type podWatch struct {
	recycler *Recycler
	made     *corev1.Pod // as it was created
	version  string      // of the pod, when it was last looked at
	missedAt string      // where the cache stood when it was last looked at and did not show the pod
}

// cached is the pod, nil while the cache does not show it, and where the cache stands.
func (w *podWatch) cached() (pod *corev1.Pod, at string) {
	at = w.recycler.cfg.Pods.Informer().LastSyncResourceVersion()
	pod, err := w.recycler.cfg.Pods.Lister().Pods(w.made.Namespace).Get(w.made.Name)
	if err != nil || pod.UID != w.made.UID {
		return nil, at
	}
	return pod, at
}

// changed tells whether the pod is another than when it was last looked at, or is not shown although the cache is past its
// creation.
func (w *podWatch) changed() bool {
	pod, at := w.cached()
	if pod != nil {
		return pod.ResourceVersion != w.version
	}
	return at != w.missedAt && isAtLeast(at, w.made.ResourceVersion)
}

// observe returns the pod, nil when it is not shown, and remembers what it saw.
func (w *podWatch) observe() *corev1.Pod {
	pod, at := w.cached()
	if pod == nil {
		w.missedAt = at
	} else {
		w.version = pod.ResourceVersion
	}
	return pod
}

// isAtLeast tells whether a resourceVersion is known to be at least another.
func isAtLeast(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order >= 0
}

// checkExists asks the API server for a pod, since the cache may have missed all of its life, or may be about to show it. The
// error matches errDeleted, or it could not be asked.
func (r *Recycler) checkExists(ctx context.Context, made *corev1.Pod) error {
	pod, err := r.cfg.Client.CoreV1().Pods(made.Namespace).Get(ctx, made.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && pod.UID != made.UID {
		return errDeleted
	}
	return err
}

// relayEvents tells of the pod's events, each once, in their order. Those that cannot be read now are told the next time.
func (r *Recycler) relayEvents(ctx context.Context, pod *corev1.Pod, told map[types.UID]bool, tell func(severity, text string)) {
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
