package remote

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// notification is one thing that a reflector reports: a list, a change of an object, a deletion, or
// an error.
type notification struct {
	list     bool
	objects  []any // of a list
	revision string
	object   any // added, changed or deleted
	gone     bool
	err      error // of a list or a watch
}

// reflector runs client-go's reflector.
type reflector struct {
	name    string
	source  cache.ListerWatcher
	example any           // an object of the type
	timeout time.Duration // of one list, or of one page of it
	notify  func(ctx context.Context, a notification) error
}

// run lists and watches until ctx ends.
func (r reflector) run(ctx context.Context) {
	quiet := klog.NewContext(ctx, logr.Discard()) // errors are reported to the process instead
	cache.NewReflectorWithOptions(reportingSource{r, cache.ToListerWatcherWithContext(r.source)}, r.example,
		&reflectorStore{ctx, r.notify}, cache.ReflectorOptions{Name: r.name}).RunWithContext(quiet)
}

// keyOf returns an object's "namespace/name", or "name".
func keyOf(obj any) string {
	key, err := cache.MetaNamespaceKeyFunc(obj)
	if err != nil {
		panic("remote: " + err.Error()) // the reflector has checked the type
	}
	return key
}

// reflectorStore is the store that a reflector writes to.
type reflectorStore struct {
	ctx    context.Context //nolint:containedctx // the reflector's
	notify func(ctx context.Context, a notification) error
}

var _ cache.ReflectorStore = (*reflectorStore)(nil)

// Add reports that an object was added or changed.
func (i *reflectorStore) Add(obj any) error { return i.notify(i.ctx, notification{object: obj}) }

// Update reports that an object was added or changed.
func (i *reflectorStore) Update(obj any) error { return i.notify(i.ctx, notification{object: obj}) }

// Delete reports that an object was deleted.
func (i *reflectorStore) Delete(obj any) error {
	return i.notify(i.ctx, notification{object: obj, gone: true})
}

// Replace reports a list, sorted by name. The reflector's order is random.
func (i *reflectorStore) Replace(objects []any, revision string) error {
	slices.SortFunc(objects, func(a, b any) int { return strings.Compare(keyOf(a), keyOf(b)) })
	return i.notify(i.ctx, notification{list: true, objects: objects, revision: revision})
}

// Resync does nothing.
func (i *reflectorStore) Resync() error { return nil }

// reportingSource is a source whose errors are reported to the process. Lists have a timeout;
// watches have the server's.
type reportingSource struct {
	reflector
	upstream cache.ListerWatcherWithContext
}

var (
	_ cache.ListerWatcherWithContext = reportingSource{}
	_ cache.ListerWatcher            = reportingSource{}
)

// ListWithContext lists.
func (l reportingSource) ListWithContext(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	limited, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	list, err := l.upstream.ListWithContext(limited, opts)
	l.reportError(ctx, err)
	return list, err
}

// WatchWithContext watches.
func (l reportingSource) WatchWithContext(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	w, err := l.upstream.WatchWithContext(ctx, opts)
	l.reportError(ctx, err)
	return w, err
}

// List lists.
func (l reportingSource) List(opts metav1.ListOptions) (runtime.Object, error) {
	return l.ListWithContext(context.Background(), opts)
}

// Watch watches.
func (l reportingSource) Watch(opts metav1.ListOptions) (watch.Interface, error) {
	return l.WatchWithContext(context.Background(), opts)
}

// reportError reports an error to the process, except an expected one.
func (l reportingSource) reportError(ctx context.Context, err error) {
	if err == nil || ctx.Err() != nil || errors.Is(err, context.Canceled) || expired(err) {
		return
	}
	_ = l.notify(ctx, notification{err: err}) // fails only when ctx has ended
}

// expired reports whether a resourceVersion is too old, or too new for the server. The reflector
// then lists again.
func expired(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) ||
		apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}
