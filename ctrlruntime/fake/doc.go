// Package fake has controller-runtime's builder of fake clients, with an API server behind it.
//
//	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(box).WithStatusSubresource(box).Build()
//	err := c.Get(ctx, client.ObjectKeyFromObject(box), box)
//
// A test that uses sigs.k8s.io/controller-runtime/pkg/client/fake changes one import. The server is a
// [fake.Server]: objects are validated and get defaults, generations and resource versions;
// finalizers, preconditions, server-side apply and status are those of Kubernetes 1.36.
//
// Kinds of the scheme that the server does not have, such as those of the user's own API, are added
// when they are used. They have no schema, so any object is valid, and have /status if
// WithStatusSubresource names them. A kind is cluster-scoped if the first object or key has no
// namespace, unless WithRESTMapper knows better. [ClientBuilder.WithCRDDirectoryPaths] serves them
// with their schemas instead.
//
// # Differences from controller-runtime's fake client
//
// Each row is run by TestDifferences, against both clients.
//
//	what                                           | upstream                | here
//	an invalid object of a built-in kind           | is stored               | is refused: Invalid
//	defaults, such as a pod's restartPolicy        | none                    | are set
//	a new object's UID and creationTimestamp       | none                    | are set
//	an update that changes the spec                | keeps the generation    | increments it
//	an update that changes nothing                 | changes resourceVersion | keeps it
//	an update of an immutable field                | is stored               | is refused: Invalid
//	an object without its namespace                | is stored               | is refused
//	the namespaces of a new client                 | none                    | those of a new cluster
//	the namespace of a new object                  | does not exist          | is created
//	a deleted namespace                            | is gone                 | is terminating
//	a list                                         | any resourceVersion     | the revision of the server
//	a selector of metadata.name without an index   | is an error             | works
//	the RESTMapper                                 | is empty                | that of the server
//	WithObjectTracker                              | is used                 | Build panics
//
// # What it does not do
//
// WithTypeConverters and WithGlobalResourceVersionCounter have no effect. There are no controllers:
// owners are not garbage-collected, claims do not bind. Package ctrlruntime has a world in which they
// do.
//
// Upstream: sigs.k8s.io/controller-runtime/pkg/client/fake (v0.23 to v0.25).
package fake
