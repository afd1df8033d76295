package fake

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/volsim/volsim/fake/internal/admit"
	"github.com/volsim/volsim/internal/reuse"
	"github.com/volsim/volsim/sim"
)

// Paths in validation errors.
var (
	metaPath = field.NewPath("metadata")
	specPath = field.NewPath("spec")
)

// An Object is an API object: a pointer to a type of k8s.io/api, or a *CustomObject.
type Object interface {
	metav1.Object
	runtime.Object
}

// Defaults of Config.
const (
	historyEvents = 10_000
	historyBytes  = 64 << 20
)

// Config configures NewServer.
type Config struct {
	Now        func() time.Time // the clock of the world; required
	Namespaces []string         // created besides default, kube-system, kube-public and kube-node-lease
	RootCA     string           // the PEM content of kube-root-ca.crt; "": NoRootCA
	// Version is what the server says of its own version. nil: that of Kubernetes 1.36.3, whose
	// behaviour the server has in any case.
	Version *version.Info
	// Identity is part of every UID and of generated names, so that those of two servers with
	// different identities differ, even with the same history. 0 is for reproducible worlds.
	Identity uint64
	// SkipBootstrap creates the namespaces without the ServiceAccount default and the ConfigMap
	// kube-root-ca.crt, which controllers create in a real cluster, and leaves out what the real
	// server creates when it starts: the service default/kubernetes with its endpoints, the
	// system's priority classes, the mandatory flow schemas and priority levels.
	SkipBootstrap bool
	// SkipProtection creates volumes, claims and attributes classes without the finalizers
	// kubernetes.io/pv-protection, pvc-protection and vac-protection, as a server does that was started with
	// --disable-admission-plugins=StorageObjectInUseProtection.
	SkipProtection bool
	// CrossNamespaceSources keeps data sources of claims that are in other namespaces: the feature gate
	// CrossNamespaceVolumeDataSource.
	CrossNamespaceSources bool
	// MountTokens adds a volume kube-api-access-… with the token of its service account to each pod that
	// does not decline, as every real server does: the kubelet has one more volume to mount, and the
	// controllers of root certificates and service accounts must run. A service account must exist then.
	MountTokens bool

	// Services has the HTTPS servers of Services that run inside the process. A webhook that refers
	// to such a Service is answered by its handler, in memory, without TLS and without a goroutine.
	// The Service need not exist. A handler is called during requests to the API server, so it must
	// not make any. In a stepped world its answers must depend on its requests only, except for the
	// UID of a review, which is random.
	Services map[types.NamespacedName]http.Handler

	// Kubelets returns the HTTP server of a node's kubelet, or nil if it cannot be reached. Requests for
	// nodes/NAME/proxy, pods/NAME/log and pods/NAME/exec are passed to it, by package fake/apiserver. It may be
	// called concurrently. nil: such requests are refused.
	Kubelets interface {
		Kubelet(node string) http.Handler
	}

	// RBAC lets users do only what roles and their bindings allow, and kubelets what the Node authorizer
	// allows, as a real server with --authorization-mode=Node,RBAC. The server starts with upstream's roles and
	// bindings. Clients are those of system:admin, which may do everything, unless they are made by
	// Clientset.AsUser. false: every user may do everything.
	RBAC bool
	// TokenKey signs the tokens of service accounts. nil: a key that is the same in each run, so the
	// tokens are too, and anyone can make some.
	TokenKey []byte

	// CreateWarnings returns further warnings for the creator of an object of a resource. Responses
	// to HTTP requests have them as Warning headers. It may be called concurrently. nil: none.
	CreateWarnings func(resource schema.GroupResource) []string

	// TrackManagedFields tracks the managed fields of every object from its creation on, as the
	// real server does. It makes a write ten times as slow. Otherwise they are tracked from an
	// object's first server-side apply on.
	TrackManagedFields bool
	// HistoryEvents is the minimum number of events that each resource's log keeps. At twice as
	// many, the older half is dropped. A watch or list from before is answered with 410 Expired. 0:
	// 10,000.
	HistoryEvents int
	// HistoryBytes is the maximum size of the objects that each resource's log keeps for its
	// events, approximately. A log that grows beyond it drops its older half. The last event is
	// always kept. 0: 64 MiB.
	HistoryBytes int
	// HistoryAge is the maximum age of an event in a log. Older events are dropped at a later
	// write. 0: no limit.
	HistoryAge time.Duration
	// Reuse is memory of a world. The namespaces and initial objects of an earlier server with the same
	// configuration are then shared. nil: they are created.
	Reuse *reuse.Memory
}

// A Server is the API server: the store, its rules, and its clients. All methods are safe for
// concurrent use.
type Server struct {
	now            func() time.Time
	identity       uint64         // the bits that Config.Identity adds to a UID; 0 for 0
	track          bool           // managed fields, from creation on
	protect        bool           // adds finalizers; see Config.SkipProtection
	crossNamespace bool           // see Config.CrossNamespaceSources
	tokens         bool           // of service accounts, for pods; see Config.MountTokens
	access         *access        // nil: see Config.RBAC
	admitter       admit.Admitter // nil: none; see SetAdmitter
	tokenKey       []byte
	services       map[types.NamespacedName]http.Handler
	created        func(resource schema.GroupResource) []string // see Config.CreateWarnings; nil: none
	kubelets       interface {
		Kubelet(node string) http.Handler
	} // see Config.Kubelets; nil: none
	version  atomic.Pointer[version.Info]
	unserved *kubernetes.Clientset // see unservedClient
	history  history
	catalog  atomic.Pointer[catalog]

	mu       sync.RWMutex
	revision int64 // guarded by mu: of the last commit

	counters  sync.Mutex
	uids      uint64 // guarded by counters: number assigned
	names     uint64 // guarded by counters: number generated
	addresses uint64 // guarded by counters: number assigned to services

	hooks            sync.RWMutex
	onCommit         []func(Commit)            // guarded by hooks
	afterCommit      []func(Commit)            // guarded by hooks
	factories        map[*sim.Process]*factory // guarded by hooks
	metadataWatchers []*sim.Process            // guarded by hooks: woken when custom resources change
}

// A Commit is one change of the store. The objects are the stored ones: read-only.
type Commit struct {
	Resource string          // such as "persistentvolumes"; custom ones with group: "snapshots.example.com"
	Type     watch.EventType // Added, Modified or Deleted
	Before   Object          // nil for Added
	After    Object          // for Deleted the last state, with the revision of the deletion
	Revision int64
}

// NewServer returns a server with its namespaces, and with what controllers create in them.
func NewServer(cfg Config) *Server {
	s := &Server{
		now:            cfg.Now,
		identity:       mix(cfg.Identity) ^ mix(0),
		track:          cfg.TrackManagedFields,
		protect:        !cfg.SkipProtection,
		crossNamespace: cfg.CrossNamespaceSources,
		services:       maps.Clone(cfg.Services),
		created:        cfg.CreateWarnings,
		tokens:         cfg.MountTokens,
		tokenKey:       bytes.Clone(cfg.TokenKey),
		kubelets:       cfg.Kubelets,
		history: history{
			events: cmp.Or(cfg.HistoryEvents, historyEvents), bytes: cmp.Or(cfg.HistoryBytes, historyBytes), age: cfg.HistoryAge,
		},
		factories: map[*sim.Process]*factory{},
	}
	s.SetVersion(*cmp.Or(cfg.Version, &emulatedVersion))
	s.unserved = s.unservedClient()
	s.catalog.Store(newCatalog(s.history))
	if cfg.RBAC {
		s.access = s.newAccess()
	}
	shared := baseOf(cfg, s.timestamp().Time)
	if !shared.restore(s) {
		s.begin(cfg)
		shared.store(s)
	}
	return s
}

// begin stores what a server begins with.
func (s *Server) begin(cfg Config) {
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
	if cfg.RBAC {
		s.bootstrapRoles()
	}
}

// addNamespace stores a namespace as the server creates it, unless it exists.
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

// OnCommit registers f to be called after each commit from now on, on the writer's goroutine,
// without locks. Commits of concurrent writers may arrive out of order. f must not block or make
// requests.
func (s *Server) OnCommit(f func(Commit)) {
	s.hooks.Lock()
	defer s.hooks.Unlock()
	s.onCommit = append(s.onCommit[:len(s.onCommit):len(s.onCommit)], f)
}

// Get returns the stored object, which is read-only. The bool is false if it does not exist. The
// call is not traced: use it in waits and checks, not in a simulated process. The resource is named
// as in Commit; an unknown one panics. namespace is "" for cluster-scoped resources.
func (s *Server) Get(resource, namespace, name string) (Object, bool) {
	obj := s.lookup(s.table(resource), key(namespace, name))
	return obj, obj != nil
}

// Kubelet returns the HTTP server of a node's kubelet; see Config.Kubelets. It reports whether kubelets
// can be asked at all.
func (s *Server) Kubelet(node string) (server http.Handler, served bool) {
	if s.kubelets == nil {
		return nil, false
	}
	return s.kubelets.Kubelet(node), true
}

// ServiceHandler returns the handler of Config.Services for a Service, or nil.
func (s *Server) ServiceHandler(namespace, name string) http.Handler {
	return s.services[types.NamespacedName{Namespace: namespace, Name: name}]
}

// CreateWarnings returns the warnings of Config.CreateWarnings for a resource.
func (s *Server) CreateWarnings(resource schema.GroupResource) []string {
	if s.created == nil {
		return nil
	}
	return s.created(resource)
}

// List returns the stored objects of a resource, which are read-only, sorted by namespace/name. It
// is not traced. An unknown resource panics.
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

// Compact drops the events of the given resources, or of all without arguments, as etcd's
// compaction does. Watches and lists from before are answered with 410 Expired. Informers that are
// behind list again.
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
		panic(fmt.Sprintf("fake: unknown resource %q", resource))
	}
	return t
}

// timestamp returns the time of the world as the API carries it: whole seconds, UTC.
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
