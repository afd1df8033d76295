// Package fake is an in-memory Kubernetes API server for deterministic simulation, with typed
// clients and informers.
//
//	server := fake.NewServer(fake.Config{Now: host.Now})
//	client := server.Client(sim.DirectCaller())
//	claims := client.CoreV1().PersistentVolumeClaims("default")
//	_, err := claims.Create(ctx, claim, metav1.CreateOptions{})
//	stored, ok := server.Get("persistentvolumeclaims", "default", "data")
//
// For a test with client-go's fake clientset, [NewClientset] has the same signature. It uses a new
// server on the wall clock. Migrating from client-go's fake clientset? docs/migrating.md lists what
// will start to fail, why, and how to fix it. Package fake/reactors has actions and reactors.
//
// # Model
//
// There is one revision counter, as in etcd. Stored objects are immutable and shared. The server
// keeps each resource's objects in an ordered copy-on-write tree, so a list, or a page of one, is a
// snapshot at an exact revision. Each resource also has a log of events. A watch is a position in
// the log, copies nothing, and gets 410 Expired when its next event was dropped. Every write goes
// through one pipeline: default, admit, validate, check preconditions (UID, resourceVersion),
// commit. One table has the differences between the resources (kinds.go); package
// fake/internal/rules has their defaults and validation.
//
// [Server.Client] returns a client-go clientset. Each of its requests is one Call of a
// [sim.Caller], so the host decides what happens in between. It returns deep copies and does not
// retain arguments. [Clientset.Dynamic] and [Clientset.Metadata] are untyped clients.
// [Clientset.Discovery] lists the served resources, and [Clientset.Review] answers access and
// authentication reviews.
//
// [Server.Informers] returns the informers of a process. Their host delivers one event at a time,
// so a cache is as stale as the host decides. Caches share the stored objects: callers must not
// modify them.
//
// [ResourceClient] is the untyped client of one resource, which all other clients use. Package
// fake/apiserver serves HTTP requests through it, in memory (apiserver.NewConfig) or by HTTPS
// (apiserver.NewHandler, apiserver.Listen). Package internal/facts runs one table of facts against all
// clients and a real kube-apiserver.
//
// Two servers with the same history are equal: UIDs and generated names come from counters and
// Config.Identity, time from Config.Now. The only goroutine is that of a Watch of a clientset.
//
// # What it does
//
// The core group: namespaces, nodes, pods (with binding and eviction), persistent volumes, claims,
// events, secrets, config maps, service accounts (with token), resource quotas, limit ranges,
// services, endpoints, replication controllers, pod templates. storage.k8s.io: classes,
// attachments, drivers, CSI nodes, storage capacities, attributes classes. apps: stateful sets,
// deployments, replica sets, daemon sets, controller revisions. batch: jobs and cron jobs.
// networking.k8s.io: ingresses, their classes, network policies. Autoscalers, leases, roles and
// their bindings, pod disruption budgets, priority classes, endpoint slices, runtime classes, flow
// schemas and priority levels, configurations of admission webhooks, admission policies,
// resource.k8s.io, and the events of events.k8s.io.
// [Server.Resources] lists them.
// Package fake/crd adds custom resources; programs that do not import it do not link schema code.
//
// The objects that a kube-apiserver creates when it starts, such as the service
// default/kubernetes, exist unless Config.SkipBootstrap is set.
//
// Status subresources, scale, finalizers and graceful deletion, propagation policies,
// preconditions, dry run, generateName, label and field selectors, limit and continue, lists at an
// exact or a minimum revision, watches with initial events and bookmarks. JSON, merge and strategic
// merge patches with field validation, and server-side apply. Defaults, validation and
// immutability. The admission plugins NamespaceLifecycle, LimitRanger, StorageObjectInUseProtection
// (unless Config.SkipProtection is set), DefaultStorageClass, PersistentVolumeClaimResize, Priority,
// DefaultTolerationSeconds, PodTopologyLabels, ResourceQuota, and the default name of
// ServiceAccount. Evictions respect disruption budgets.
//
// # What it does not do
//
//   - Other kinds: their clients answer 404, their informers never sync. OpenAPI answers 404 to
//     [Clientset.Discovery]; it is served by HTTP.
//   - Some kinds that kube-controller-manager watches: certificate signing requests,
//     addresses and CIDRs of services, claim templates of resource.k8s.io, and
//     the ConfigMap of legacy tokens. Its controllers of these log that they are missing, unless
//     --controllers omits them. The others, and kube-scheduler, work as on the real server (test/conformance/controlplane_test.go).
//   - Managed fields of objects that were never applied, unless Config.TrackManagedFields is set.
//   - Authorization, unless Config.RBAC is set: every user may do everything. A service account need
//     not exist and no token is mounted, unless Config.MountTokens is set.
//   - Package fake/admission has webhooks and policies, package fake/audit the audit log of HTTP requests.
//   - Complete validation: fake/internal/rules validates what matters to storage, and little of
//     containers and resource.k8s.io. Other fields are stored as sent.
//   - Pods' port-forward and resize: they are rejected. Logs, exec and attach are answered by
//     kubelets ([Config].Kubelets), and rejected without.
//   - The effects of runtime classes, flow schemas and priority levels.
//   - The work of controllers: a deletion records its propagation policy, and a terminating
//     namespace its finalizer. Packages controllers/garbagecollector and controllers/namespace act
//     on them. A quota is enforced once controllers/resourcequota has counted, and a disruption
//     budget allows nothing before controllers/disruption has. Events do not expire.
//   - Bookmarks once a minute for typed, dynamic and metadata clients: they come with the next
//     event of the resource.
//   - Webhooks for admission. Package fake/crd calls those for conversion.
//   - The wire format, for clients in the same process: empty lists and maps outside of metadata
//     are stored as sent, whereas the wire would drop them.
//
// A line that begins with "Differs:" documents each difference from the real server.
//
// Upstream: k8s.io/apiserver; pkg/registry, pkg/apis of kube-apiserver (v1.36).
package fake
