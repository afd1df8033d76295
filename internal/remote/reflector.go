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

// arrival is one thing that a reflector has to tell: a list, an object that came or changed, one that went, or an error.
type arrival struct {
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
	tell    func(ctx context.Context, a arrival) error
}

// run lists and watches until ctx ends.
func (r reflector) run(ctx context.Context) {
	quiet := klog.NewContext(ctx, logr.Discard()) // what is wrong is told by way of the component
	cache.NewReflectorWithOptions(listening{r, cache.ToListerWatcherWithContext(r.source)}, r.example,
		&intake{ctx, r.tell}, cache.ReflectorOptions{Name: r.name}).RunWithContext(quiet)
}

// keyOf is an object's "namespace/name", or "name".
func keyOf(obj any) string {
	key, err := cache.MetaNamespaceKeyFunc(obj)
	if err != nil {
		panic("remote: " + err.Error()) // the reflector looked at the type
	}
	return key
}

// intake is where a reflector puts what it hears.
type intake struct {
	ctx  context.Context //nolint:containedctx // the reflector's
	tell func(ctx context.Context, a arrival) error
}

var _ cache.ReflectorStore = (*intake)(nil)

// Add tells that an object came or changed.
func (i *intake) Add(obj any) error { return i.tell(i.ctx, arrival{object: obj}) }

// Update tells that an object came or changed.
func (i *intake) Update(obj any) error { return i.tell(i.ctx, arrival{object: obj}) }

// Delete tells that an object went.
func (i *intake) Delete(obj any) error { return i.tell(i.ctx, arrival{object: obj, gone: true}) }

// Replace tells of a list, in the order of names: the reflector has put it together in none.
func (i *intake) Replace(objects []any, revision string) error {
	slices.SortFunc(objects, func(a, b any) int { return strings.Compare(keyOf(a), keyOf(b)) })
	return i.tell(i.ctx, arrival{list: true, objects: objects, revision: revision})
}

// Resync does nothing.
func (i *intake) Resync() error { return nil }

// listening is a source of which the component hears when it fails. A list has a limit of time; a watch has the server's.
type listening struct {
	reflector
	from cache.ListerWatcherWithContext
}

var (
	_ cache.ListerWatcherWithContext = listening{}
	_ cache.ListerWatcher            = listening{}
)

// ListWithContext lists.
func (l listening) ListWithContext(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	limited, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	list, err := l.from.ListWithContext(limited, opts)
	l.failed(ctx, err)
	return list, err
}

// WatchWithContext watches.
func (l listening) WatchWithContext(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	w, err := l.from.WatchWithContext(ctx, opts)
	l.failed(ctx, err)
	return w, err
}

// List lists.
func (l listening) List(opts metav1.ListOptions) (runtime.Object, error) {
	return l.ListWithContext(context.Background(), opts)
}

// Watch watches.
func (l listening) Watch(opts metav1.ListOptions) (watch.Interface, error) {
	return l.WatchWithContext(context.Background(), opts)
}

// failed tells the component of an error, but for one that is part of the ordinary course.
func (l listening) failed(ctx context.Context, err error) {
	if err == nil || ctx.Err() != nil || errors.Is(err, context.Canceled) || expired(err) {
		return
	}
	_ = l.tell(ctx, arrival{err: err}) // it fails when ctx ends: then nobody listens
}

// expired tells whether the server says that what was asked for is too old, or not there yet: the reflector asks anew.
func expired(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}
