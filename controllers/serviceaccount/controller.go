package serviceaccount

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"

	"github.com/volsim/volsim/internal/eventhandler"
	"github.com/volsim/volsim/sim"
)

// AccountName is the name of the account.
const AccountName = "default"

// Config configures New. The informer of service accounts needs to cache only those named
// AccountName.
type Config struct {
	Process   *sim.Process
	Client    kubernetes.Interface
	Informers informers.SharedInformerFactory
}

// controller is the service accounts controller.
//
// Upstream: pkg/controller/serviceaccount ServiceAccountsController (v1.36).
type controller struct {
	client     kubernetes.Interface
	namespaces corelisters.NamespaceLister
	accounts   corelisters.ServiceAccountLister
	queue      *sim.Queue[string] // of namespaces
}

// New adds the controller to its process. It registers with the informers, and adds a queue to the process. It
// must be called before the host starts.
func New(cfg Config) {
	accounts, namespaces := cfg.Informers.Core().V1().ServiceAccounts(), cfg.Informers.Core().V1().Namespaces()
	c := &controller{client: cfg.Client, accounts: accounts.Lister(), namespaces: namespaces.Lister()}
	eventhandler.Add(accounts.Informer(), func(_, _ *corev1.ServiceAccount) {}, func(a *corev1.ServiceAccount) {
		c.queue.Add(a.Namespace)
	})
	eventhandler.Add(namespaces.Informer(), func(_, ns *corev1.Namespace) { c.queue.Add(ns.Name) }, nil)
	cfg.Process.GateWorkers(accounts.Informer().HasSynced)
	cfg.Process.GateWorkers(namespaces.Informer().HasSynced)
	c.queue = sim.NewQueue[string](cfg.Process, sim.QueueConfig{Name: "serviceaccount"})
	c.queue.Work(c.sync)
}

// NeedsServiceAccount reports whether a namespace is active but, according to the informers'
// caches, lacks the account. Changes of other namespaces, and of existing accounts, do not concern
// the controller.
func NeedsServiceAccount(seen informers.SharedInformerFactory, ns *corev1.Namespace) bool {
	return needsServiceAccount(seen.Core().V1().ServiceAccounts().Lister(), ns)
}

func needsServiceAccount(accounts corelisters.ServiceAccountLister, ns *corev1.Namespace) bool {
	_, err := accounts.ServiceAccounts(ns.Name).Get(AccountName)
	return ns.Status.Phase == corev1.NamespaceActive && err != nil // a lister fails with NotFound only
}

// sync creates the account of a namespace if it does not exist.
//
// Upstream: pkg/controller/serviceaccount ServiceAccountsController.syncNamespace.
func (c *controller) sync(ctx context.Context, name string) error {
	ns, err := c.namespaces.Get(name)
	if err != nil || !needsServiceAccount(c.accounts, ns) {
		return nil // a lister fails with NotFound only
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: AccountName}}
	_, err = c.client.CoreV1().ServiceAccounts(name).Create(ctx, account, metav1.CreateOptions{})
	if err == nil || apierrors.IsAlreadyExists(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil
	}
	return fmt.Errorf("create the service account of namespace %s: %w", name, err)
}
