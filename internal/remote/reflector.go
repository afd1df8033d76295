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

// notification is one thing that a reflector has to tell: a list, an object that came or changed, one that went, or an error.
type notification struct {
	list     bool
	objects  []any // of a list
	revision string
	object   any // that came, changed or went
	gone     bool
	err      error // it could not list or watch
}

// reflector is client-go's, and whom it tells.
type reflector struct {
	name    string
	source  cache.ListerWatcher
	example any           // an object of the type
	timeout time.Duration // of one list, or of one page of it
	notify  func(ctx context.Context, a notification) error
}

// run lists and watches until ctx ends.
func (r reflector) run(ctx context.Context) {
	quiet := klog.NewContext(ctx, logr.Discard()) // what is wrong is told by way of the component
	cache.NewReflectorWithOptions(reportingSource{r, cache.ToListerWatcherWithContext(r.source)}, r.example,
		&reflectorStore{ctx, r.notify}, cache.ReflectorOptions{Name: r.name}).RunWithContext(quiet)
}

// keyOf is an object's "namespace/name", or "name".
func keyOf(obj any) string {
	key, err := cache.MetaNamespaceKeyFunc(obj)
	if err != nil {
		panic("remote: " + err.Error()) // the reflector looked at the type
	}
	return key
}

// reflectorStore is where a reflector puts what it hears.
type reflectorStore struct {
	ctx    context.Context //nolint:containedctx // the reflector's
	notify func(ctx context.Context, a notification) error
}

var _ cache.ReflectorStore = (*reflectorStore)(nil)

// Add tells that an object came or changed.
func (i *reflectorStore) Add(obj any) error { return i.notify(i.ctx, notification{object: obj}) }

// Update tells that an object came or changed.
func (i *reflectorStore) Update(obj any) error { return i.notify(i.ctx, notification{object: obj}) }

// Delete tells that an object went.
func (i *reflectorStore) Delete(obj any) error {
	return i.notify(i.ctx, notification{object: obj, gone: true})
}

// Replace tells of a list, in the order of names: the reflector has put it together in none.
func (i *reflectorStore) Replace(objects []any, revision string) error {
	slices.SortFunc(objects, func(a, b any) int { return strings.Compare(keyOf(a), keyOf(b)) })
	return i.notify(i.ctx, notification{list: true, objects: objects, revision: revision})
}

// Resync does nothing.
func (i *reflectorStore) Resync() error { return nil }

// reportingSource is a source of which the component hears when it fails. A list has a limit of time; a watch has the server's.
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

// reportError tells the component of an error, but for one that is part of the ordinary course.
func (l reportingSource) reportError(ctx context.Context, err error) {
	if err == nil || ctx.Err() != nil || errors.Is(err, context.Canceled) || expired(err) {
		return
	}
	_ = l.notify(ctx, notification{err: err}) // it fails when ctx ends: then nobody listens
}

// expired tells whether the server says that what was asked for is too old, or not there yet: the reflector asks anew.
func expired(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}
