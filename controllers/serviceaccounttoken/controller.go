package serviceaccounttoken

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"

	"github.com/volsim/volsim/internal/eventhandler"
	"github.com/volsim/volsim/sim"
)

// Config configures New. The informer of secrets needs to cache only those of the type for tokens.
type Config struct {
	Process   *sim.Process
	Client    kubernetes.Interface
	Informers informers.SharedInformerFactory
	RootCA    string // PEM; "": secrets get none
	// Token returns the token of an account in a secret.
	Token func(account *corev1.ServiceAccount, secret *corev1.Secret) string
}

// controller is the tokens controller.
//
// Differs: a failure is retried with back-off until it succeeds, upstream gives up after ten retries. A conflict about the
// references of an account is such a failure. Each queue has one worker.
//
// Upstream: pkg/controller/serviceaccount TokensController (v1.36).
type controller struct {
	cfg      Config
	accounts corelisters.ServiceAccountLister
	secrets  corelisters.SecretLister

	accountQueue *sim.Queue[accountKey]
	secretQueue  *sim.Queue[secretKey]
}

// An accountKey identifies an account, which may be deleted.
type accountKey struct {
	namespace, name string
	uid             types.UID
}

// String returns the name of an account.
func (k accountKey) String() string { return k.namespace + "/" + k.name }

// A secretKey identifies a secret, which may be deleted, and its account.
type secretKey struct {
	namespace, name string
	uid             types.UID
	account         string
	accountUID      types.UID // "": any
}

// String returns the name of a secret.
func (k secretKey) String() string { return k.namespace + "/" + k.name }

func keyOf(s *corev1.Secret) secretKey {
	return secretKey{
		namespace: s.Namespace, name: s.Name, uid: s.UID,
		account: s.Annotations[corev1.ServiceAccountNameKey], accountUID: types.UID(s.Annotations[corev1.ServiceAccountUIDKey]),
	}
}

// New adds the controller to its process. It registers with the informers, and adds two queues to the process. It
// must be called before the host starts.
func New(cfg Config) {
	accounts, secrets := cfg.Informers.Core().V1().ServiceAccounts(), cfg.Informers.Core().V1().Secrets()
	c := &controller{
		cfg: cfg, accounts: accounts.Lister(), secrets: secrets.Lister(),
		accountQueue: sim.NewQueue[accountKey](cfg.Process, sim.QueueConfig{Name: "serviceaccount_tokens_service"}),
		secretQueue:  sim.NewQueue[secretKey](cfg.Process, sim.QueueConfig{Name: "serviceaccount_tokens_secret"}),
	}
	account := func(a *corev1.ServiceAccount) { c.accountQueue.Add(accountKey{a.Namespace, a.Name, a.UID}) }
	eventhandler.Add(accounts.Informer(), func(_, a *corev1.ServiceAccount) { account(a) }, account)
	secret := func(s *corev1.Secret) {
		if IsToken(s) {
			c.secretQueue.Add(keyOf(s))
		}
	}
	eventhandler.Add(secrets.Informer(), func(_, s *corev1.Secret) { secret(s) }, secret)
	cfg.Process.GateWorkers(accounts.Informer().HasSynced)
	cfg.Process.GateWorkers(secrets.Informer().HasSynced)
	c.accountQueue.Work(c.syncAccount)
	c.secretQueue.Work(c.syncSecret)
}

// IsToken reports whether a secret is for the token of an account.
func IsToken(s *corev1.Secret) bool {
	return s.Type == corev1.SecretTypeServiceAccountToken && s.Annotations[corev1.ServiceAccountNameKey] != ""
}

// isOf reports whether a secret is for the token of an account of that name and UID.
//
// Upstream: k8s.io/apiserver/pkg/authentication/serviceaccount IsServiceAccountToken.
func isOf(s *corev1.Secret, name string, uid types.UID) bool {
	k := keyOf(s)
	return IsToken(s) && k.account == name && (k.accountUID == "" || k.accountUID == uid)
}

// syncAccount deletes the secrets of an account that does not exist any more.
//
// Upstream: pkg/controller/serviceaccount TokensController.syncServiceAccount.
func (c *controller) syncAccount(ctx context.Context, k accountKey) error {
	if c.cached(k.namespace, k.name, k.uid) != nil {
		return nil
	}
	var first error
	for _, s := range c.secretsOf(k) {
		if err := c.delete(ctx, s.Namespace, s.Name, s.UID); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// secretsOf returns the secrets of an account, by name.
func (c *controller) secretsOf(k accountKey) []*corev1.Secret {
	all, _ := c.secrets.Secrets(k.namespace).List(labels.Everything()) // a lister does not fail
	all = slices.DeleteFunc(slices.Clone(all), func(s *corev1.Secret) bool { return !isOf(s, k.name, k.uid) })
	slices.SortFunc(all, func(a, b *corev1.Secret) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// syncSecret fills a secret, deletes it if its account does not exist, or, if the secret does not exist, removes the
// account's reference to it.
//
// Upstream: pkg/controller/serviceaccount TokensController.syncSecret.
func (c *controller) syncSecret(ctx context.Context, k secretKey) error {
	secret, err := c.secrets.Secrets(k.namespace).Get(k.name)
	if err != nil || secret.UID != k.uid { // a lister fails with NotFound only
		if c.cached(k.namespace, k.account, k.accountUID) == nil {
			return nil
		}
		return c.removeReference(ctx, k)
	}
	account := c.cached(k.namespace, k.account, k.accountUID)
	if account == nil {
		if account, err = c.live(ctx, k); err != nil {
			return err
		}
	}
	if account == nil {
		return c.delete(ctx, k.namespace, k.name, k.uid)
	}
	return c.fill(ctx, account, secret)
}

// cached returns an account from the cache, or nil.
func (c *controller) cached(namespace, name string, uid types.UID) *corev1.ServiceAccount {
	a, err := c.accounts.ServiceAccounts(namespace).Get(name)
	if err != nil || uid != "" && uid != a.UID { // a lister fails with NotFound only
		return nil
	}
	return a
}

// live returns the account of a secret as the API server has it, or nil.
func (c *controller) live(ctx context.Context, k secretKey) (*corev1.ServiceAccount, error) {
	a, err := c.cfg.Client.CoreV1().ServiceAccounts(k.namespace).Get(ctx, k.account, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get the service account of secret %s: %w", k, err)
	case k.accountUID != "" && k.accountUID != a.UID:
		return nil, nil
	}
	return a, nil
}

// delete deletes a secret, unless another has its name.
func (c *controller) delete(ctx context.Context, namespace, name string, uid types.UID) error {
	err := c.cfg.Client.CoreV1().Secrets(namespace).Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return fmt.Errorf("delete secret %s/%s: %w", namespace, name, err)
}

// lacks reports which parts a secret needs.
func (c *controller) lacks(s *corev1.Secret) (ca, namespace, token bool) {
	return c.cfg.RootCA != "" && !bytes.Equal(s.Data[corev1.ServiceAccountRootCAKey], []byte(c.cfg.RootCA)),
		len(s.Data[corev1.ServiceAccountNamespaceKey]) == 0, len(s.Data[corev1.ServiceAccountTokenKey]) == 0
}

// fill adds what a secret lacks. Another version of it than the cached one is left to the event about it.
//
// Upstream: pkg/controller/serviceaccount TokensController.generateTokenIfNeeded.
func (c *controller) fill(ctx context.Context, account *corev1.ServiceAccount, cached *corev1.Secret) error {
	if ca, namespace, token := c.lacks(cached); !ca && !namespace && !token {
		return nil
	}
	secrets := c.cfg.Client.CoreV1().Secrets(cached.Namespace)
	secret, err := secrets.Get(ctx, cached.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("get secret %s/%s: %w", cached.Namespace, cached.Name, err)
	case secret.ResourceVersion != cached.ResourceVersion:
		return nil
	}
	ca, namespace, token := c.lacks(secret)
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	if ca {
		secret.Data[corev1.ServiceAccountRootCAKey] = []byte(c.cfg.RootCA)
	}
	if namespace {
		secret.Data[corev1.ServiceAccountNamespaceKey] = []byte(secret.Namespace)
	}
	if token {
		secret.Data[corev1.ServiceAccountTokenKey] = []byte(c.cfg.Token(account, secret))
	}
	metav1.SetMetaDataAnnotation(&secret.ObjectMeta, corev1.ServiceAccountNameKey, account.Name)
	metav1.SetMetaDataAnnotation(&secret.ObjectMeta, corev1.ServiceAccountUIDKey, string(account.UID))
	_, err = secrets.Update(ctx, secret, metav1.UpdateOptions{})
	if err == nil || apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil // another writer was faster: there is an event about that
	}
	return fmt.Errorf("update secret %s/%s: %w", secret.Namespace, secret.Name, err)
}

// removeReference removes a deleted secret from those of its account.
//
// Upstream: pkg/controller/serviceaccount TokensController.removeSecretReference.
func (c *controller) removeReference(ctx context.Context, k secretKey) error {
	account, err := c.live(ctx, k)
	if err != nil || account == nil {
		return err
	}
	is := func(ref corev1.ObjectReference) bool { return ref.Name == k.name }
	if !slices.ContainsFunc(account.Secrets, is) {
		return nil
	}
	account.Secrets = slices.DeleteFunc(account.Secrets, is)
	_, err = c.cfg.Client.CoreV1().ServiceAccounts(k.namespace).Update(ctx, account, metav1.UpdateOptions{})
	if err == nil || apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("update service account %s/%s: %w", k.namespace, k.account, err)
}
