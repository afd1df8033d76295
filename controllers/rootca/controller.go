package rootca

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"

	"github.com/volsim/volsim/internal/eventhandler"
	"github.com/volsim/volsim/sim"
)

// The ConfigMap.
//
// Upstream: pkg/controller/certificates/rootcacertpublisher RootCACertConfigMapName,
// DescriptionAnnotation, Description.
const (
	ConfigMapName = "kube-root-ca.crt"
	dataKey       = "ca.crt"

	annotation  = "kubernetes.io/description"
	description = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as " +
		"the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes " +
		"clusters."
)

// Config configures New. The informer of config maps needs to cache only those named ConfigMapName.
type Config struct {
	Process   *sim.Process
	Client    kubernetes.Interface
	Informers informers.SharedInformerFactory
	RootCA    string // PEM
}

// controller is the root CA publisher.
//
// Upstream: pkg/controller/certificates/rootcacertpublisher Publisher (v1.36).
type controller struct {
	client kubernetes.Interface
	maps   corelisters.ConfigMapLister
	rootCA string
	queue  *sim.Queue[string] // of namespaces
}

// New adds the controller to its process. It registers with the informers, and adds a queue to the process. It
// must be called before the host starts.
func New(cfg Config) {
	published, namespaces := cfg.Informers.Core().V1().ConfigMaps(), cfg.Informers.Core().V1().Namespaces()
	c := &controller{client: cfg.Client, maps: published.Lister(), rootCA: cfg.RootCA}
	eventhandler.Add(published.Informer(), func(_, configMap *corev1.ConfigMap) {
		if configMap.Name == ConfigMapName && !IsUpToDate(configMap, c.rootCA) {
			c.queue.Add(configMap.Namespace)
		}
	}, func(old *corev1.ConfigMap) {
		if old.Name == ConfigMapName {
			c.queue.Add(old.Namespace)
		}
	})
	eventhandler.Add(namespaces.Informer(), func(old, ns *corev1.Namespace) {
		if old == nil || ns.Status.Phase == corev1.NamespaceActive {
			c.queue.Add(ns.Name)
		}
	}, nil)
	cfg.Process.GateWorkers(published.Informer().HasSynced)
	cfg.Process.GateWorkers(namespaces.Informer().HasSynced)
	c.queue = sim.NewQueue[string](cfg.Process, sim.QueueConfig{Name: "rootca"})
	c.queue.Work(c.sync)
}

// NeedsConfigMap reports whether a namespace is active but, according to the informers' caches,
// lacks the config map. Changes of other namespaces do not concern the controller.
func NeedsConfigMap(seen informers.SharedInformerFactory, ns *corev1.Namespace) bool {
	_, err := seen.Core().V1().ConfigMaps().Lister().ConfigMaps(ns.Name).Get(ConfigMapName)
	return ns.Status.Phase == corev1.NamespaceActive && err != nil // a lister fails with NotFound only
}

// IsUpToDate reports whether a config map has exactly the certificate as its data, and a
// description.
func IsUpToDate(m *corev1.ConfigMap, rootCA string) bool {
	return maps.Equal(m.Data, map[string]string{dataKey: rootCA}) && m.Annotations[annotation] != ""
}

// sync creates the config map of a namespace, or corrects it.
//
// Upstream: pkg/controller/certificates/rootcacertpublisher Publisher.syncNamespace.
func (c *controller) sync(ctx context.Context, namespace string) error {
	published, err := c.maps.ConfigMaps(namespace).Get(ConfigMapName)
	if err != nil { // a lister fails with NotFound only
		return c.create(ctx, namespace)
	}
	if IsUpToDate(published, c.rootCA) {
		return nil
	}
	published = published.DeepCopy()
	published.Data = map[string]string{dataKey: c.rootCA}
	metav1.SetMetaDataAnnotation(&published.ObjectMeta, annotation, description)
	if _, err = c.client.CoreV1().ConfigMaps(namespace).Update(ctx, published, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("update %s of namespace %s: %w", ConfigMapName, namespace, err)
	}
	return nil
}

func (c *controller) create(ctx context.Context, namespace string) error {
	_, err := c.client.CoreV1().ConfigMaps(namespace).Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: ConfigMapName, Annotations: map[string]string{annotation: description},
		},
		Data: map[string]string{dataKey: c.rootCA},
	}, metav1.CreateOptions{})
	if err == nil || apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil
	}
	return fmt.Errorf("create %s of namespace %s: %w", ConfigMapName, namespace, err)
}
