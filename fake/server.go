package fake

import (
	"cmp"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/volsim/volsim/sim"
)

// The paths of an object that errors refer to.
var (
	metaPath = field.NewPath("metadata")
	specPath = field.NewPath("spec")
)

// Object is an object of the API: a pointer to one of the types of k8s.io/api.
type Object interface {
	metav1.Object
	runtime.Object
}

// historyEvents is how many events each resource's log keeps at least, where Config says nothing else.
const historyEvents = 10_000

// Config is what NewServer must be told.
type Config struct {
	Now        func() time.Time // the world's time; required
	Namespaces []string         // to begin with, besides default, kube-system, kube-public and kube-node-lease
	RootCA     string           // what kube-root-ca.crt holds in these, PEM. "": NoRootCA
	// SkipBootstrap leaves the namespaces without the ServiceAccount default and the ConfigMap kube-root-ca.crt, which controllers
	// make in a real cluster.
	SkipBootstrap bool

	// TrackManagedFields keeps managed fields of every object from its creation on, as the real server does, which makes
	// a write take ten times as long. Otherwise they are kept from an object's first server-side apply on.
	TrackManagedFields bool
	// HistoryEvents is how many events each resource's log keeps at least; beyond twice as many, the older half is
	// dropped. A watch or a list from before that is answered with 410 Expired. 0: 10,000.
	HistoryEvents int
	// HistoryAge is how old an event of a log may be; it is dropped when another one comes, or a few later. 0: however old.
	HistoryAge time.Duration
}

// Server is the API server: the store, its rules, and the ways in. All methods may be called concurrently.
type Server struct {
	now     func() time.Time
	track   bool // managed fields, from creation on
	history history
	catalog atomic.Pointer[catalog]

	mu       sync.RWMutex
	revision int64 // guarded by mu: of the last commit

	counters  sync.Mutex
	uids      uint64 // guarded by counters: how many were given out
	names     uint64 // guarded by counters: how many were generated
	addresses uint64 // guarded by counters: how many services got one

	hooks            sync.RWMutex
	onCommit         []func(Commit)            // guarded by hooks
	afterCommit      []func(Commit)            // guarded by hooks
	factories        map[*sim.Process]*factory // guarded by hooks
	metadataWatchers []*sim.Process            // guarded by hooks: who wants to know of resources that come and go
}

// Commit is one change of the store. The objects are the stored ones: read-only.
type Commit struct {
	Resource string          // such as "persistentvolumes"; of a custom resource with its group, as in "snapshots.example.com"
	Type     watch.EventType // Added, Modified or Deleted
	Before   Object          // nil for Added
	After    Object          // for Deleted the last state, with the revision of the deletion
	Revision int64
}

// NewServer makes a server that holds nothing but its namespaces, with what controllers would have made in them.
func NewServer(cfg Config) *Server {
	s := &Server{
		now:       cfg.Now,
		track:     cfg.TrackManagedFields,
		history:   history{events: cmp.Or(cfg.HistoryEvents, historyEvents), age: cfg.HistoryAge},
		factories: map[*sim.Process]*factory{},
	}
	s.catalog.Store(newCatalog(s.history))
	for _, name := range []string{
		metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic,
		corev1.NamespaceNodeLease,
	} {
		s.addNamespace(name)
	}
	for _, name := range cfg.Namespaces {
		s.addNamespace(name)
	}
	if !cfg.SkipBootstrap {
		s.bootstrap(cmp.Or(cfg.RootCA, NoRootCA))
	}
	return s
}

// addNamespace stores a namespace as the server itself makes it, unless it is there.
func (s *Server) addNamespace(name string) {
	t := s.table("namespaces")
	ns := &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{
			Name:              name,
			UID:               s.newUID(t.kind.resource, name),
			CreationTimestamp: s.timestamp(),
			Labels:            map[string]string{corev1.LabelMetadataName: name},
		},
		Spec:   corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{corev1.FinalizerKubernetes}},
		Status: corev1.NamespaceStatus{Phase: corev1.NamespaceActive},
	}
	s.commit(t, watch.Added, name, nil, ns)
}

// OnCommit calls f after each commit from now on, on the goroutine of whoever wrote, with no lock held. Concurrent
// writers' commits may arrive in another order than that of their revisions. f must not block, and must make no request.
func (s *Server) OnCommit(f func(Commit)) {
	s.hooks.Lock()
	defer s.hooks.Unlock()
	s.onCommit = append(s.onCommit[:len(s.onCommit):len(s.onCommit)], f)
}

// Get returns the stored object, which is read-only, and whether there is one. It leaves no trace: it is for waits and
// checkers, not for actors. The resource is named as in Commit; an unknown one panics. namespace is "" for what has none.
func (s *Server) Get(resource, namespace, name string) (Object, bool) {
	obj := s.lookup(s.table(resource), key(namespace, name))
	return obj, obj != nil
}

// List returns the stored objects of a resource, which are read-only, sorted by namespace/name. It leaves no trace. An
// unknown resource panics.
func (s *Server) List(resource string) []Object {
	t := s.table(resource)
	s.mu.RLock()
	defer s.mu.RUnlock()
	return t.objects.Values()
}

// Revision returns the revision of the last commit.
func (s *Server) Revision() int64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.revision
}

// Compact forgets the events so far of the given resources, or of all if none is given, as etcd does from time to time:
// watches and lists from before are answered with 410 Expired, and views that are behind list again.
func (s *Server) Compact(resources ...string) {
	if len(resources) == 0 {
		for _, k := range s.catalog.Load().kinds {
			if k.base == nil {
				resources = append(resources, k.id)
			}
		}
	}
	for _, r := range resources {
		t := s.table(r)
		s.mu.Lock()
		t.log.compact(0)
		s.mu.Unlock()
	}
}

func (s *Server) table(resource string) *table {
	t := s.catalog.Load().table(resource)
	if t == nil {
		panic("fake: no such resource: " + resource)
	}
	return t
}

// timestamp is the world's time as the API carries it: whole seconds, UTC.
func (s *Server) timestamp() metav1.Time {
	return metav1.Time{Time: time.Unix(s.now().Unix(), 0).UTC()}
}

func key(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

func formatRevision(r int64) string { return strconv.FormatInt(r, 10) }
