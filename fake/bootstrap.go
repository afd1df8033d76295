package fake

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// NoRootCA is the content of kube-root-ca.crt if a server has no certificate authority.
const NoRootCA = "# This server has no certificate authority.\n"

// bootstrap creates the objects that a kube-apiserver creates when it starts, and in each namespace
// those that controllers create in a real cluster, so that they find nothing to do. The objects
// take no revision, and no UID from other objects.
//
// Upstream: pkg/controller/serviceaccount ServiceAccountsController,
// pkg/controller/certificates/rootcacertpublisher Publisher.
func (s *Server) bootstrap(rootCA string) {
	for i, ns := range s.List("namespaces") {
		s.bootstrapObject(uint64(2*i), "serviceaccounts", &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
			Namespace: ns.GetName(), Name: "default",
		}})
		s.bootstrapObject(uint64(2*i+1), "configmaps", &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: ns.GetName(), Name: rootCAConfigMap,
				Annotations: map[string]string{"kubernetes.io/description": "Contains a CA bundle that can be used to verify the " +
					"kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. " +
					"No other usage is guaranteed across distributions of Kubernetes clusters."},
			},
			Data: map[string]string{"ca.crt": rootCA},
		})
	}
	for i, c := range clusterObjects() {
		s.bootstrapObject(clusterUIDs+uint64(i), c.resource, s.table(c.resource).kind.shallow(c.object))
	}
}

// clusterUIDs is the first number of the UIDs of clusterObjects.
const clusterUIDs = 1 << 32

// bootstrapObject stores an object of the initial state.
func (s *Server) bootstrapObject(n uint64, resource string, obj Object) {
	t, k := s.table(resource), keyOf(obj)
	obj.SetUID(s.uidOf(1<<47+n, resource, k))
	obj.SetCreationTimestamp(s.timestamp())
	s.mu.Lock()
	defer s.mu.Unlock()
	obj.SetResourceVersion(formatRevision(s.revision))
	t.objects.Set(k, obj)
	t.log.append(event{
		kind: watch.Added, name: resource + "/" + k, object: obj,
		revision: s.revision, detail: detailOf(s.revision), at: s.now().UnixNano(),
	})
}
