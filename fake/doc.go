// Package fake is the API server of a world: store, rules, typed client and informers, in memory.
//
// There is one counter of revisions, as etcd has. Stored objects are immutable and shared. Of each resource the server
// keeps the objects, in an ordered tree that is copied on write, so that a list or a page of one is a snapshot at an exact
// revision, and a log of events: a watch is a place in the log, copies nothing, and is told 410 Expired when what it wants
// was dropped. Every write of every resource goes through one pipeline: default, admit, validate, check what the writer
// presumes (UID, resourceVersion), commit. What differs between the resources stands in one table (kinds.go).
//
// [Server.Client] gives a client-go clientset. Each of its requests is one Call of a [sim.Caller], so that the host of the
// world decides what comes in between. It hands out deep copies; what it is given it does not keep.
//
// [NewClientset] has the call shape of client-go's: a server of its own, with the given objects in it, on the real clock.
// docs/migrating.md tells what a test meets that comes from there; package fake/reactors has actions and reactors.
// [Clientset.Dynamic] and [Clientset.Metadata] are untyped clients, [Clientset.Discovery] tells what is served, and
// [Clientset.Review] answers who one is and what one may do.
//
// [Server.Informers] gives a component its views: informers that the host moves one event at a time, so that a cache is as
// stale as the host wants it to be. Views share the stored objects: whoever changes one changes everybody's.
//
// Two servers that are told the same are the same: UIDs and generated names come from counters, time from Config.Now.
// No goroutine runs here, but for the pump of a Watch of the clientset.
//
// [ResourceClient] is the untyped client of one resource, which all the others are made of: package fake/rest answers
// requests of HTTP through it, in memory (rest.NewConfig) or by HTTPS (rest.NewHandler, rest.Listen). A table of facts,
// package fake/facts, is put to all ways in, and to a real kube-apiserver.
//
// # What it has
//
// The core group: namespaces, nodes, pods (with binding and eviction), persistent volumes, claims, events, secrets, config
// maps, service accounts (with token), resource quotas, limit ranges, services, endpoints, replication controllers.
// storage.k8s.io: classes, attachments, drivers, CSI nodes, storage capacities, attributes classes. apps: stateful sets,
// deployments, replica sets, daemon sets, controller revisions. Leases, roles and their bindings, pod disruption budgets,
// priority classes, resource.k8s.io, and the events of events.k8s.io. [Server.Resources] lists them. Custom resources come
// with package fake/crd, which brings the machinery of schemas; who does not import it does not compile that.
//
// Status subresources, scale, finalizers and graceful deletion, propagation policies, preconditions, dry run, generateName,
// label and field selectors, limit and continue, exact and not-older-than lists, watches with initial events and bookmarks;
// JSON, merge and strategic merge patches with field validation, and server-side apply; defaults, validation and
// immutability; the admission plugins NamespaceLifecycle, StorageObjectInUseProtection, DefaultStorageClass,
// PersistentVolumeClaimResize, Priority, DefaultTolerationSeconds, and of ServiceAccount the name.
//
// # What it does not do
//
//   - Other kinds: their clients answer 404, their informers never sync. OpenAPI answers 404 to [Clientset.Discovery]; by
//     HTTP it is there.
//   - Of what kube-controller-manager watches: jobs, cron jobs, autoscalers, certificate signing requests, endpoint slices,
//     addresses and CIDRs of services, admission policies, claim templates of resource.k8s.io, and the ConfigMap about old
//     tokens. Its controllers of these only log that they are missing, unless --controllers leaves them out; the others,
//     and kube-scheduler, work as they do on the real server (test/conformance/controlplane_test.go).
//   - Managed fields of objects that nobody applied to, unless Config.TrackManagedFields (managedfields.go).
//   - Authorization: whoever asks may do everything. Quotas, limit ranges and disruption budgets are stored, not enforced.
//     A service account need not exist, and no token is mounted; tokens are not signed.
//   - Validation of everything: validate*.go covers what matters to storage; of the insides of containers and of
//     resource.k8s.io little. What is not looked at is stored as it came.
//   - Pods' logs, exec, port-forward, resize and ephemeral containers (refused).
//   - What controllers do: a deletion says what is to become of dependents, and a namespace's deletion that it is to be
//     emptied, but controllers/garbagecollector and controllers/namespace carry it out. Expiry of events: that is etcd's.
//   - Bookmarks at their minute to typed, dynamic and metadata clients: they come with the next event of the resource.
//   - Webhooks, of admission and of conversion.
//   - The wire, to the clients that do not use it: empty lists and maps outside of metadata are stored as they came, where
//     the wire would lose them.
//
// Where it does something otherwise than the real server, the place says so in a line that begins with "Differs:".
package fake
