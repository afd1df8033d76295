package recycler

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/volsim/volsim/internal/resourceversion"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
)

var errDeleted = errors.New("recycler pod was deleted")

// awaitPod waits until a pod has ended. It returns an error unless the pod succeeded.
//
// Differs: upstream watches the pod's events and forwards each at once; here they are listed when
// the pod changes. Upstream's watch begins with the events of earlier pods of that name, which are
// forwarded again.
//
// Upstream: pkg/volume/util/recyclerclient waitForPod (v1.36).
func (r *Recycler) awaitPod(
	ctx context.Context, created *corev1.Pod, recordEvent func(eventType, message string),
) error {
	w := podWatch{recycler: r, created: created, version: created.ResourceVersion}
	recorded := map[types.UID]bool{}
	for {
		r.cfg.Process.Wait("change of recycler pod "+created.Name, 0, w.changed)
		pod := w.observe()
		r.relayEvents(ctx, created, recorded, recordEvent)
		switch {
		case pod == nil:
			if err := r.checkExists(ctx, created); err != nil {
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

// A podWatch follows a pod in the process's cache.
type podWatch struct {
	recycler *Recycler
	created  *corev1.Pod // as it was created
	version  string      // of the pod, when last observed
	missedAt string      // the cache's version when last observed without the pod
}

// cached returns the pod, nil while the cache does not contain it, and the cache's resource
// version.
func (w *podWatch) cached() (pod *corev1.Pod, version string) {
	version = w.recycler.cfg.Pods.Informer().LastSyncResourceVersion()
	pod, err := w.recycler.cfg.Pods.Lister().Pods(w.created.Namespace).Get(w.created.Name)
	if err != nil || pod.UID != w.created.UID {
		return nil, version
	}
	return pod, version
}

// changed reports whether the pod has changed since it was last observed, or is missing although
// the cache is newer than its creation.
func (w *podWatch) changed() bool {
	pod, version := w.cached()
	if pod != nil {
		return pod.ResourceVersion != w.version
	}
	return version != w.missedAt && isAtLeast(version, w.created.ResourceVersion)
}

// observe returns the pod, or nil if it is not cached, and remembers what it saw.
func (w *podWatch) observe() *corev1.Pod {
	pod, version := w.cached()
	if pod == nil {
		w.missedAt = version
	} else {
		w.version = pod.ResourceVersion
	}
	return pod
}

// isAtLeast reports whether resource version a is known to be at least b.
func isAtLeast(a, b string) bool {
	order, err := resourceversion.Compare(a, b)
	return err == nil && order >= 0
}

// checkExists asks the API server for a pod: the cache may have missed its whole lifetime, or may
// be about to show it. The error is errDeleted, or that of the request.
func (r *Recycler) checkExists(ctx context.Context, created *corev1.Pod) error {
	pod, err := r.cfg.Client.CoreV1().Pods(created.Namespace).Get(ctx, created.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && pod.UID != created.UID {
		return errDeleted
	}
	return err
}

// relayEvents forwards the pod's events in order, each once. Events that cannot be read now are
// forwarded the next time.
func (r *Recycler) relayEvents(
	ctx context.Context, pod *corev1.Pod, recorded map[types.UID]bool, recordEvent func(eventType, message string),
) {
	about := fields.Set{"involvedObject.name": pod.Name, "involvedObject.uid": string(pod.UID)}
	list, err := r.cfg.Client.CoreV1().Events(pod.Namespace).List(ctx,
		metav1.ListOptions{FieldSelector: about.String()})
	if err != nil {
		return
	}
	slices.SortStableFunc(list.Items, func(a, b corev1.Event) int {
		return cmp.Or(a.FirstTimestamp.Compare(b.FirstTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	for i := range list.Items {
		if e := &list.Items[i]; !recorded[e.UID] {
			recorded[e.UID] = true
			recordEvent(e.Type, e.Message)
		}
	}
}
